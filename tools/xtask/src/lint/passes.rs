//! One pass, one lit test of the same name.

use crate::build;
use crate::failure::{Context, Result};
use crate::sh::{self, Cmd};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Registered passes without `lit-tests/**/NAME.mlir`. The names come from the binary where it is built
/// and knows `--list-passes`, so that the check cannot disagree with the registration.
pub fn without_test(root: &Path) -> Result<Vec<String>> {
    let binary = [false, true].map(build::built_strata).into_iter().find(|file| sh::is_executable(file));
    let Some(binary) = binary else {
        println!("lint: strata is not built, so its passes are not known");
        return Ok(Vec::new());
    };
    let output = Cmd::new(&binary).args(["opt", "--list-passes", "--json"]).capture()?;
    if !output.ok || output.text.trim().is_empty() {
        println!("lint: this strata does not list its passes");
        return Ok(Vec::new());
    }
    let names =
        names(&output.text).context(|| format!("reading {} opt --list-passes --json", binary.display()))?;
    let mut tests = BTreeSet::new();
    collect_tests(&root.join("lit-tests"), &mut tests);
    let untested = names.iter().filter(|name| !tests.contains(*name));
    Ok(untested
        .map(|name| format!("the pass {name} has no lit test: add lit-tests/LEVEL/{name}.mlir"))
        .collect())
}

/// A list of names, a list of objects with a name, or either of them under the key `passes`.
/// An upstream pass is marked (`"origin": "mlir"`) and has its tests upstream.
fn names(json: &str) -> std::result::Result<Vec<String>, String> {
    let value: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let list = value.as_array().or_else(|| value.get("passes").and_then(Value::as_array));
    let list = list.ok_or("neither a list nor an object with a list `passes`")?;
    let own = list.iter().filter(|entry| entry.get("origin").is_none_or(|origin| origin != "mlir"));
    own.map(|entry| {
        let name = entry.as_str().or_else(|| entry.get("name").and_then(Value::as_str));
        name.map(str::to_owned).ok_or_else(|| format!("an entry without a name: {entry}"))
    })
    .collect()
}

fn collect_tests(folder: &Path, tests: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_tests(&path, tests);
        } else if path.extension().is_some_and(|ext| ext == "mlir") {
            tests.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_every_shape() {
        let want = vec!["fuse".to_owned(), "outline-kernels".to_owned()];
        assert_eq!(names(r#"["fuse", "outline-kernels"]"#).unwrap(), want);
        let objects = r#"{"passes": [{"name": "fuse"}, {"name": "cse", "origin": "mlir"}, {"name": "outline-kernels"}]}"#;
        assert_eq!(names(objects).unwrap(), want);
        assert!(names("{}").is_err());
        assert!(names("[{}]").is_err());
        assert!(names("nonsense").is_err());
    }

    #[test]
    fn tests_are_found_in_any_folder() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("graph/deep")).unwrap();
        std::fs::write(root.path().join("graph/deep/fuse.mlir"), "").unwrap();
        std::fs::write(root.path().join("graph/notes.txt"), "").unwrap();
        let mut tests = BTreeSet::new();
        collect_tests(root.path(), &mut tests);
        assert_eq!(tests, BTreeSet::from(["fuse".to_owned()]));
    }
}
