//! The Python environment of the tests: `.strata-env/`, or the one that `STRATA_PYTHON` names.

use crate::failure::{Context, Failure, Result};
use crate::paths;
use crate::sh::{self, Cmd};
use crate::version::Version;
use std::path::{Path, PathBuf};

/// Pinned packages.
pub const REQUIREMENTS: &str = "tools/python/requirements-test.txt";
const OLDEST: Version = Version(3, 11, 0);

/// The interpreter that tests use; it need not exist yet.
pub fn python() -> PathBuf {
    match std::env::var_os("STRATA_PYTHON").filter(|value| !value.is_empty()) {
        Some(python) => python.into(),
        None => environment().join("bin/python"),
    }
}

/// The interpreter that tests use; a failure when it is not there.
pub fn need_python() -> Result<PathBuf> {
    let python = python();
    if sh::is_executable(&python) {
        return Ok(python);
    }
    Err(Failure::new(format!("the tests' Python {} is missing", paths::shown(&python)))
        .fix("cargo xtask setup"))
}

fn is_foreign() -> bool {
    std::env::var_os("STRATA_PYTHON").is_some_and(|value| !value.is_empty())
}

fn environment() -> PathBuf {
    paths::root().join(".strata-env")
}

/// What must still be done.
pub enum State {
    /// Nothing.
    Ready,
    /// Create the environment or bring it up to date.
    Stale,
}

/// Looks without running pip: a copy of the requirements is kept in the environment that satisfies them.
pub fn state() -> Result<State> {
    if is_foreign() {
        let python = need_python().map_err(|failure| failure.fix("correct or unset STRATA_PYTHON"))?;
        check_foreign(&python)?;
        return Ok(State::Ready);
    }
    let wanted = requirements()?;
    let have = std::fs::read_to_string(stamp()).unwrap_or_default();
    Ok(if have == wanted && sh::is_executable(&python()) { State::Ready } else { State::Stale })
}

fn stamp() -> PathBuf {
    environment().join("installed-requirements.txt")
}

fn requirements() -> Result<String> {
    let file = paths::root().join(REQUIREMENTS);
    std::fs::read_to_string(&file).context(|| format!("reading {}", file.display()))
}

/// Another's environment is never changed, only checked.
fn check_foreign(python: &Path) -> Result<()> {
    let have = packages(python)?;
    let missing: Vec<String> = pinned(&requirements()?)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !have.iter().any(|(known, _)| known == name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown = python.display();
    Err(Failure::new(format!("{shown} (STRATA_PYTHON) lacks {}", missing.join(", ")))
        .fix(format!("{shown} -m pip install -r {REQUIREMENTS}, or unset STRATA_PYTHON")))
}

/// Names and versions of the installed packages, names normalised.
pub fn packages(python: &Path) -> Result<Vec<(String, String)>> {
    let script =
        "import importlib.metadata as m\nfor d in m.distributions(): print(d.metadata['Name'], d.version)";
    let text = Cmd::new(python).args(["-c", script]).check()?;
    let mut found: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, version)| (normal(name), version.trim().to_owned()))
        .collect();
    found.sort();
    Ok(found)
}

/// `name==version` lines.
pub fn pinned(requirements: &str) -> Vec<(String, String)> {
    let lines = requirements.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    lines
        .filter_map(|line| line.split_once("=="))
        .map(|(name, version)| (normal(name), version.trim().into()))
        .collect()
}

/// PyPI's rule: case does not matter, runs of `-_.` are one dash.
fn normal(name: &str) -> String {
    let words = name.trim().split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

/// Creates or updates `.strata-env/`.
pub fn install() -> Result<()> {
    let wanted = requirements()?;
    if !sh::is_executable(&python()) {
        let base = base_interpreter()?;
        Cmd::new(&base).args(["-m", "venv", "--clear"]).arg(environment()).run().map_err(|failure| {
            failure
                .fix("install the package python3-venv, or set STRATA_PYTHON to an environment of your own")
        })?;
    }
    Cmd::new(python())
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
        .arg(paths::root().join(REQUIREMENTS))
        .run()
        .map_err(|failure| {
            failure.fix(
                "read pip's message above; pip's own settings (PIP_INDEX_URL, PIP_CERT, proxies) apply; \
                 about 6 GB of disk are needed",
            )
        })?;
    std::fs::write(stamp(), wanted).context(|| format!("writing {}", stamp().display()))
}

/// An interpreter that can make environments, or none.
pub fn find_base_interpreter() -> Option<PathBuf> {
    let names = ["python3.11", "python3", "python3.12", "python3.13"];
    names.iter().filter_map(|name| sh::which(name)).find(|python| can_make_environments(python))
}

fn base_interpreter() -> Result<PathBuf> {
    find_base_interpreter().ok_or_else(|| {
        Failure::new(format!("no Python of version {OLDEST} or newer with the module ensurepip"))
            .fix("install python3 and python3-venv, or set STRATA_PYTHON to an environment of your own")
    })
}

fn can_make_environments(python: &Path) -> bool {
    let script = "import sys, venv, ensurepip; print('%d.%d.%d' % sys.version_info[:3])";
    let output = Cmd::new(python).args(["-c", script]).capture();
    output.is_ok_and(|output| output.ok && Version::find(&output.text).is_some_and(|found| found >= OLDEST))
}

/// NVIDIA's assembler from the wheel, if the tests' environment has it.
pub fn ptxas() -> Option<PathBuf> {
    let script = "import importlib.util as u\ns = u.find_spec('nvidia.cuda_nvcc')\n\
                  print(list(s.submodule_search_locations)[0] if s else '')";
    let output = Cmd::new(python()).args(["-c", script]).capture().ok()?;
    let folder = output.text.trim();
    let file = Path::new(folder).join("bin/ptxas");
    (output.ok && !folder.is_empty() && sh::is_executable(&file)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_pypi_does() {
        assert_eq!(normal("Scikit_Learn"), "scikit-learn");
        assert_eq!(normal("nvidia-cuda.nvcc--cu12"), "nvidia-cuda-nvcc-cu12");
    }

    #[test]
    fn pins_are_read() {
        let text = "# why\ntorch==2.11.0 # comment\n\nNumPy==2.4.6\n";
        let want = vec![("torch".to_owned(), "2.11.0".to_owned()), ("numpy".to_owned(), "2.4.6".to_owned())];
        assert_eq!(pinned(text), want);
    }

    #[test]
    fn every_requirement_of_the_tests_is_pinned() {
        let text = requirements().unwrap();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        assert_eq!(pinned(&text).len(), lines);
        assert!(lines >= 7, "{text}");
    }
}
