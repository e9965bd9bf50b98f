//! `cargo xtask pack`: `pack/`, all that a machine with a GPU and no network needs to run named cases.

use crate::failure::{Context, Failure, Result};
use crate::paths::{self, file_size, human_size, shown};
use crate::sh::Cmd;
use crate::{dist, pyenv, setup, wheel};
use std::path::{Path, PathBuf};

/// Options of `pack`.
#[derive(clap::Args)]
pub struct Args {
    /// Leave out the wheel (and with it the cases that import strata)
    #[arg(long)]
    no_wheel: bool,
}

/// More would take too long to carry.
const LARGEST: u64 = 60 << 20;

/// Python packages that a machine with PyTorch may lack.
const REQUIREMENTS: &str = "tools/python/requirements-pack.txt";

/// Folders of the repository that travel, with their name in the pack.
const FOLDERS: [(&str, &str); 4] = [
    ("tools/bench", "bench"),
    ("tools/suites", "suites"),
    ("tools/demo", "demo"),
    ("tools/python/tests", "python-tests"),
];

/// Fills the folder.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure()?;
    let root = paths::root();
    let pack = root.join("pack");
    std::fs::remove_dir_all(&pack).ok();
    let wheels = pack.join("wheels");
    std::fs::create_dir_all(&wheels).context(|| format!("making {}", wheels.display()))?;
    let binary = dist::compress(&dist::build()?)?;
    let suffix = binary.extension().unwrap_or_default().to_string_lossy().into_owned();
    copy(&binary, &pack.join(format!("strata.{suffix}")))?;
    if !args.no_wheel {
        let wheel = wheel::run(&wheel::Args {})?;
        copy(&wheel, &wheels.join(wheel.file_name().unwrap_or_default()))?;
    }
    missing_wheels(&wheels)?;
    for (from, to) in FOLDERS.iter().filter(|(from, _)| root.join(from).is_dir()) {
        copy_tree(&root.join(from), &pack.join(to))?;
    }
    script(&pack.join("run.sh"))?;
    let files = listing(&pack)?;
    files.iter().for_each(|(file, size)| println!("{:>9}  {}", human_size(*size), shown(file)));
    let total: u64 = files.iter().map(|(_, size)| size).sum();
    println!("{:>9}  in all", human_size(total));
    if total > LARGEST {
        let what =
            format!("the pack is {}, over the {} that are allowed", human_size(total), human_size(LARGEST));
        return Err(Failure::new(what).fix("take the largest files above out of the folders that travel"));
    }
    Ok(())
}

fn missing_wheels(folder: &Path) -> Result<()> {
    Cmd::new(pyenv::need_python()?)
        .dir(&paths::root())
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args([
            "--only-binary=:all:",
            "--python-version",
            "3.12",
            "--abi",
            "cp312",
            "--abi",
            "abi3",
            "--abi",
            "none",
        ])
        .args([
            "--platform",
            "manylinux2014_x86_64",
            "--platform",
            "manylinux_2_28_x86_64",
            "--platform",
            "any",
        ])
        .args(["--requirement", REQUIREMENTS, "--dest"])
        .arg(folder)
        .run()
        .map_err(|failure| failure.fix("read pip's message above; this step needs the network"))
}

fn script(to: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(to, include_str!("pack/run.sh")).context(|| format!("writing {}", to.display()))?;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755))
        .context(|| format!("marking {}", to.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).context(|| format!("copying {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).context(|| format!("making {}", to.display()))?;
    for path in children(from)? {
        let name = path.file_name().unwrap_or_default();
        if name == "__pycache__" {
            continue;
        }
        if path.is_dir() {
            copy_tree(&path, &to.join(name))?;
        } else {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

fn children(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).context(|| format!("reading {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Every file below the folder with its size.
fn listing(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for path in children(folder)? {
        if path.is_dir() {
            files.extend(listing(&path)?);
        } else {
            let size = file_size(&path);
            files.push((path, size));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_copied_without_caches() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        std::fs::create_dir_all(from.join("a/__pycache__")).unwrap();
        for (name, text) in [("a/x.py", "12345"), ("a/__pycache__/x.pyc", "0"), ("y.txt", "1")] {
            std::fs::write(from.join(name), text).unwrap();
        }
        let to = folder.path().join("to");
        copy_tree(&from, &to).unwrap();
        assert_eq!(listing(&to).unwrap(), vec![(to.join("a/x.py"), 5), (to.join("y.txt"), 1)]);
    }

    #[test]
    fn the_script_is_valid_shell() {
        let file = tempfile::NamedTempFile::new().unwrap();
        script(file.path()).unwrap();
        Cmd::new("sh").arg("-n").arg(file.path()).check().unwrap();
    }

    #[test]
    fn the_script_lists_its_cases() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.sh");
        script(&file).unwrap();
        let cases = folder.path().join("bench/cases");
        std::fs::create_dir_all(&cases).unwrap();
        std::fs::write(cases.join("mine.sh"), "").unwrap();
        let listed = Cmd::new("sh").arg(&file).env("OUT", folder.path().join("out")).check().unwrap();
        let cases: Vec<_> = listed.split_whitespace().collect();
        for case in ["info", "selftest", "demo", "kernels", "kernels-odd", "models", "python-tests", "mine"] {
            assert!(cases.contains(&case), "{case} is not among {cases:?}");
        }
    }
}
