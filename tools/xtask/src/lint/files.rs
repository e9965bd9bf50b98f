//! Checks on tracked files: length, and paths of somebody's machine.

use crate::failure::{Context, Result};
use crate::sh::Cmd;
use std::path::{Path, PathBuf};

const LONGEST: usize = 500;
const LONG_FILES: &str = "tools/xtask/long-files.txt";

/// Files that git knows or would add, relative to the root, in order.
pub fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let list =
        Cmd::new("git").dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let text = list
        .check()
        .map_err(|failure| failure.fix("lint reads the list of files from git: run it in a clone"))?;
    let mut files: Vec<PathBuf> =
        text.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.sort();
    files.dedup();
    files.retain(|file| root.join(file).is_file());
    Ok(files)
}

/// Source files over 500 lines that are not listed with a reason, and listed ones that need no listing.
pub fn long(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let list = root.join(LONG_FILES);
    let listed = allowed(&std::fs::read_to_string(&list).context(|| format!("reading {}", list.display()))?);
    let mut findings = Vec::new();
    for entry in listed.iter().filter(|(_, reason)| reason.is_empty()) {
        findings.push(format!("{LONG_FILES}: {} has no reason", entry.0));
    }
    let is_source = |file: &&PathBuf| {
        matches!(file.extension().and_then(|e| e.to_str()), Some("rs" | "py" | "cpp" | "h" | "td"))
    };
    let mut long = Vec::new();
    for file in files.iter().filter(is_source) {
        let lines = read(&root.join(file)).lines().count();
        if lines > LONGEST {
            let name = file.display().to_string();
            if !listed.iter().any(|(known, _)| *known == name) {
                findings.push(format!(
                    "{name}: {lines} lines; split it, or list it with a reason in {LONG_FILES}"
                ));
            }
            long.push(name);
        }
    }
    for (name, _) in listed.iter().filter(|(name, _)| !long.contains(name)) {
        findings
            .push(format!("{LONG_FILES}: {name} is not over {LONGEST} lines (any more): remove the line"));
    }
    Ok(findings)
}

/// `PATH: reason` lines.
fn allowed(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once(':').unwrap_or((line, "")))
        .map(|(name, reason)| (name.trim().to_owned(), reason.trim().to_owned()))
        .collect()
}

/// Absolute paths that hold only on one person's machine.
pub fn machine_paths(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let here = root.to_string_lossy().into_owned();
    let home = std::env::var("HOME").unwrap_or_default();
    // Written in two pieces, or this file would find itself.
    let mut forbidden = vec![
        concat!("/ro", "ot/").to_owned(),
        concat!("/ho", "me/").to_owned(),
        concat!("/Us", "ers/").to_owned(),
    ];
    forbidden.push(concat!("/wo", "rk/").to_owned());
    forbidden.push(concat!("/op", "t/strata").to_owned());
    forbidden
        .extend([here, home].into_iter().filter(|dir| dir.matches('/').count() > 1).map(|dir| dir + "/"));
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in read(&root.join(file)).lines().enumerate() {
            if let Some(path) = forbidden.iter().find(|path| holds_path(line, path)) {
                let shown = file.display();
                findings.push(format!(
                    "{shown}:{}: a path of one machine ({path}); derive it, or use a relative one",
                    number + 1
                ));
            }
        }
    }
    Ok(findings)
}

/// The path starts a word: `cfg/home/x` and `https://host/home/` are not paths of a machine.
fn holds_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_ascii_alphanumeric() || "._-/}$)*".contains(c)))
    })
}

/// Text, or nothing for a binary file.
fn read(file: &Path) -> String {
    std::fs::read(file).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_needs_a_reason_and_a_short_one_no_entry() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("tools/xtask")).unwrap();
        std::fs::write(root.path().join("a.rs"), "x\n".repeat(501)).unwrap();
        std::fs::write(root.path().join("b.rs"), "x\n".repeat(500)).unwrap();
        let files = [PathBuf::from("a.rs"), PathBuf::from("b.rs")];
        let with = |list: &str| {
            std::fs::write(root.path().join(LONG_FILES), list).unwrap();
            long(root.path(), &files).unwrap()
        };
        assert_eq!(with("# none\n").len(), 1);
        assert_eq!(with("a.rs: a table\n"), Vec::<String>::new());
        assert_eq!(with("a.rs:\n").len(), 1);
        assert_eq!(with("a.rs: a table\nb.rs: why\n").len(), 1);
    }

    #[test]
    fn only_absolute_paths_count() {
        let home = concat!("/ho", "me/");
        assert!(holds_path(&format!("let p = \"{home}me/x\";"), home));
        assert!(holds_path(&format!("{home}x"), home));
        assert!(!holds_path(&format!("https://example.org{home}x"), home));
        assert!(!holds_path(&format!("$PREFIX{home}x"), home));
        assert!(!holds_path("nothing", home));
    }
}
