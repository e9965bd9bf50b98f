//! `cargo xtask doctor`: what is found, what is missing, in which versions. Changes nothing.

use crate::failure::{Failure, Result};
use crate::sh::{self, Cmd};
use crate::version::Version;
use crate::{apt, paths, pyenv};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Options of `doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One line of the report.
struct Finding {
    name: &'static str,
    need: Need,
    version: Option<String>,
    place: Option<String>,
    /// Why a thing that is there does not do.
    wrong: Option<String>,
    fix: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

impl Finding {
    fn ok(&self) -> bool {
        self.place.is_some() && self.wrong.is_none()
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "required": self.need == Need::Required,
            "found": self.place.is_some(),
            "ok": self.ok(),
            "version": self.version,
            "place": self.place,
            "problem": self.wrong,
            "fix": if self.ok() { None } else { Some(self.fix) },
        })
    }

    fn line(&self) -> String {
        let mark = match (self.ok(), self.need) {
            (true, _) => "ok     ",
            (false, Need::Required) => "MISSING",
            (false, Need::Optional) => "absent ",
        };
        let version = self.version.as_deref().unwrap_or("");
        let place = self.place.as_deref().unwrap_or("");
        let mut line = format!("{mark} {:<14} {version:<12} {place}", self.name);
        if let Some(wrong) = &self.wrong {
            line.push_str(&format!("  ({wrong})"));
        }
        if !self.ok() {
            line.push_str(&format!("  -> {}", self.fix));
        }
        line.trim_end().to_owned()
    }
}

const SETUP: &str = "cargo xtask setup";
const PYENV: &str = "cargo xtask setup, which makes .strata-env/";
const RUSTUP: &str = "rustup toolchain install 1.95.0 --component rustfmt,clippy";
const DRIVER: &str = "only needed to run on a GPU: install NVIDIA's driver";
const LIBRARY: &str = "only needed to run on a GPU: comes with PyTorch's CUDA wheels or the CUDA toolkit";

/// Prints the report; fails when something required is missing.
pub fn run(args: &Args) -> Result<()> {
    let findings = look();
    if args.json {
        let report = json!({
            "ok": findings.iter().all(|one| one.ok() || one.need == Need::Optional),
            "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
        });
        println!("{report:#}");
    } else {
        findings.iter().for_each(|one| println!("{}", one.line()));
    }
    let broken: Vec<&Finding> =
        findings.iter().filter(|one| one.need == Need::Required && !one.ok()).collect();
    let Some(first) = broken.first() else { return Ok(()) };
    let names: Vec<&str> = broken.iter().map(|one| one.name).collect();
    Err(Failure::new(format!("missing: {}", names.join(", "))).fix(first.fix))
}

fn look() -> Vec<Finding> {
    let mut all = vec![
        program("rustc", Need::Required, sh::which("rustc"), RUSTUP, |found| found >= Version(1, 95, 0)),
        program("cargo", Need::Required, sh::which("cargo"), RUSTUP, |found| found >= Version(1, 95, 0)),
        component("rustfmt"),
        component("clippy"),
        program(
            "cargo-nextest",
            Need::Optional,
            sh::which("cargo-nextest"),
            "cargo xtask setup --with-nextest",
            |_| true,
        ),
        program("c++", Need::Required, sh::which("c++"), SETUP, |_| true),
    ];
    for (name, tool) in
        [("llvm-config", "llvm-config"), ("clang", "clang++"), ("FileCheck", "FileCheck"), ("lit", "lit")]
    {
        let place = Some(paths::llvm_tool(tool)).filter(|file| sh::is_executable(file));
        all.push(program(name, Need::Required, place, SETUP, |found| found.0 == 22));
    }
    all.push(library_file(
        "libMLIR",
        Need::Required,
        &[paths::llvm_prefix().join("lib")],
        "libMLIR.so",
        SETUP,
    ));
    all.push(packages());
    all.extend(python());
    all.push(gpu_driver());
    let places = library_folders();
    for (name, prefix) in
        [("libcuda", "libcuda.so"), ("cublasLt", "libcublasLt.so"), ("cudnn", "libcudnn.so")]
    {
        let fix = if name == "libcuda" { DRIVER } else { LIBRARY };
        all.push(library_file(name, Need::Optional, &places, prefix, fix));
    }
    all
}

fn program(
    name: &'static str,
    need: Need,
    place: Option<PathBuf>,
    fix: &'static str,
    good: impl Fn(Version) -> bool,
) -> Finding {
    let said = place.as_ref().and_then(|file| Cmd::new(file).arg("--version").capture().ok());
    let found = said.as_ref().and_then(|output| Version::find(&output.text));
    let wrong = match (&place, found) {
        (None, _) => None,
        (Some(_), None) => Some("does not say its version".to_owned()),
        (Some(_), Some(found)) => (!good(found)).then(|| "not the version that is needed".to_owned()),
    };
    let place = place.map(|file| file.display().to_string());
    Finding { name, need, version: found.map(|found| found.to_string()), place, wrong, fix }
}

/// rustfmt and clippy are found through cargo, which knows the toolchain.
fn component(name: &'static str) -> Finding {
    let sub_command = if name == "rustfmt" { "fmt" } else { name };
    let said = Cmd::cargo(&paths::root()).args([sub_command, "--version"]).capture().ok();
    let said = said.filter(|output| output.ok).map(|output| output.text);
    let version = said.as_deref().and_then(Version::find).map(|found| found.to_string());
    Finding {
        name,
        need: Need::Required,
        version,
        place: said.map(|_| format!("cargo {sub_command}")),
        wrong: None,
        fix: "rustup component add rustfmt clippy",
    }
}

fn packages() -> Finding {
    let missing = apt::missing(&apt::PACKAGES);
    Finding {
        name: "apt packages",
        need: if missing.is_some() { Need::Required } else { Need::Optional },
        version: None,
        place: missing.as_ref().map(|_| "dpkg".to_owned()),
        wrong: missing
            .filter(|list| !list.is_empty())
            .map(|list| format!("not installed: {}", list.join(" "))),
        fix: SETUP,
    }
}

fn python() -> Vec<Finding> {
    let interpreter = pyenv::python();
    let place = Some(interpreter.clone()).filter(|file| sh::is_executable(file));
    let have = if place.is_some() { pyenv::packages(&interpreter).unwrap_or_default() } else { Vec::new() };
    let mut all = vec![program("python", Need::Required, place, PYENV, |found| found >= Version(3, 11, 0))];
    for name in ["torch", "numpy", "onnx", "pytest", "maturin"] {
        let version = have.iter().find(|(known, _)| known == name).map(|(_, version)| version.clone());
        let place = version.as_ref().map(|_| interpreter.display().to_string());
        all.push(Finding { name, need: Need::Required, version, place, wrong: None, fix: PYENV });
    }
    all.push(program("ptxas", Need::Optional, pyenv::ptxas(), PYENV, |_| true));
    all
}

fn gpu_driver() -> Finding {
    let place = sh::which("nvidia-smi");
    let query = ["--query-gpu=driver_version,name", "--format=csv,noheader"];
    let said = place.as_ref().and_then(|file| Cmd::new(file).args(query).capture().ok());
    let first =
        said.filter(|output| output.ok).and_then(|output| output.text.lines().next().map(str::to_owned));
    let wrong = (place.is_some() && first.is_none()).then(|| "finds no GPU".to_owned());
    let version = first.as_deref().and_then(|line| line.split(',').next()).map(|text| text.trim().to_owned());
    let gpu = first.as_deref().and_then(|line| line.split_once(',')).map(|(_, name)| name.trim().to_owned());
    let place = place.map(|file| gpu.unwrap_or_else(|| file.display().to_string()));
    Finding { name: "nvidia-smi", need: Need::Optional, version, place, wrong, fix: DRIVER }
}

fn library_file(
    name: &'static str,
    need: Need,
    folders: &[PathBuf],
    prefix: &str,
    fix: &'static str,
) -> Finding {
    let found = folders.iter().find_map(|folder| newest_with_prefix(folder, prefix));
    let version = found.as_ref().and_then(|file| {
        let file = file.canonicalize().unwrap_or_else(|_| file.clone());
        let name = file.file_name()?.to_string_lossy().into_owned();
        name.split_once(".so.").map(|(_, version)| version.to_owned())
    });
    Finding { name, need, version, place: found.map(|file| file.display().to_string()), wrong: None, fix }
}

/// `libx.so`, `libx.so.1`, `libx.so.1.2`: the last in order of names.
fn newest_with_prefix(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_it = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name == prefix || name.starts_with(&format!("{prefix}."))
    };
    entries.filter(is_it).max()
}

/// Where CUDA's libraries may be: the loader's path, the system, and the wheels of the tests' Python.
fn library_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    let usual =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/cuda/lib64", "/usr/local/nvidia/lib64"];
    folders.extend(usual.map(PathBuf::from));
    let script = "import sysconfig, pathlib\n\
                  for p in sorted(pathlib.Path(sysconfig.get_path('purelib')).glob('nvidia/*/lib')): print(p)";
    if let Ok(output) = Cmd::new(pyenv::python()).args(["-c", script]).capture() {
        folders.extend(output.text.lines().map(PathBuf::from));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(place: Option<&str>, need: Need) -> Finding {
        let place = place.map(str::to_owned);
        Finding { name: "lit", need, version: Some("22.1.8".into()), place, wrong: None, fix: SETUP }
    }

    #[test]
    fn a_missing_requirement_says_what_to_do() {
        assert_eq!(
            finding(Some("/x/lit"), Need::Required).line(),
            "ok      lit            22.1.8       /x/lit"
        );
        assert!(finding(None, Need::Required).line().starts_with("MISSING lit"));
        assert!(finding(None, Need::Required).line().ends_with("-> cargo xtask setup"));
        assert!(finding(None, Need::Optional).line().starts_with("absent  lit"));
    }

    #[test]
    fn json_has_a_fix_only_where_one_is_needed() {
        assert_eq!(finding(Some("/x/lit"), Need::Required).json()["fix"], Value::Null);
        assert_eq!(finding(None, Need::Required).json()["fix"], SETUP);
    }

    #[test]
    fn libraries_are_found_by_name_not_by_likeness() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libcudnn_ops.so.9", "libcudnn.so.9", "libcudnn.so.9.1"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = newest_with_prefix(folder.path(), "libcudnn.so").unwrap();
        assert_eq!(found.file_name().unwrap(), "libcudnn.so.9.1");
        assert_eq!(newest_with_prefix(folder.path(), "libcublas.so"), None);
    }

    #[test]
    fn the_toolchain_that_builds_us_is_found() {
        assert!(component("rustfmt").ok());
    }
}
