//! `cargo xtask wheel`: the Python wheel, and proof that it holds no LLVM.

use crate::dist::needed;
use crate::failure::{Context, Failure, Result};
use crate::paths::{self, file_size, human_size, shown};
use crate::sh::Cmd;
use crate::{pyenv, setup};
use std::path::{Path, PathBuf};

/// Options of `wheel`.
#[derive(clap::Args)]
pub struct Args {}

/// Builds the release wheel, checks it, prints path and size.
pub fn run(_: &Args) -> Result<PathBuf> {
    setup::ensure()?;
    let wheel = build(true)?;
    let unpacked = unpack(&wheel, &paths::target().join("wheel-check"))?;
    let count = check_tree(&unpacked)?;
    println!(
        "{}  {}  ({count} shared objects, no LLVM in them)",
        human_size(file_size(&wheel)),
        shown(&wheel)
    );
    Ok(wheel)
}

/// A debug build of the package, unpacked into a folder to put on PYTHONPATH. Nothing is installed into the
/// environment, so several checkouts can share one.
pub fn unpacked_debug_build() -> Result<PathBuf> {
    unpack(&build(false)?, &paths::target().join("python-site"))
}

/// The same, built as for users.
pub fn unpacked_release_build() -> Result<PathBuf> {
    unpack(&build(true)?, &paths::target().join("python-site-release"))
}

fn build(release: bool) -> Result<PathBuf> {
    let package = paths::root().join("tools/python");
    if !package.join("pyproject.toml").is_file() {
        return Err(Failure::new(
            "tools/python has no pyproject.toml: there is no Python package to build yet",
        )
        .fix("docs/known-gaps.md says what works so far"));
    }
    let out = paths::target().join(if release { "wheels" } else { "wheels-debug" });
    // Wheels of earlier versions would make the result ambiguous.
    std::fs::remove_dir_all(&out).ok();
    let python = pyenv::need_python()?;
    let mut cmd = Cmd::new(&python).dir(&package).args(["-m", "maturin", "build", "--quiet"]);
    cmd =
        cmd.arg("--interpreter").arg(&python).arg("--out").arg(&out).env("CARGO_TARGET_DIR", paths::target());
    if release {
        cmd = cmd.args(["--release", "--strip"]);
    } else {
        cmd = cmd.args(["--auditwheel", "skip"]);
    }
    cmd.run().map_err(|failure| failure.fix("see maturin's message above"))?;
    let entries = std::fs::read_dir(&out).context(|| format!("reading {}", out.display()))?;
    let mut wheels = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|e| e == "whl"));
    wheels.next().ok_or_else(|| Failure::new(format!("maturin left no wheel in {}", shown(&out))))
}

fn unpack(wheel: &Path, folder: &Path) -> Result<PathBuf> {
    std::fs::remove_dir_all(folder).ok();
    Cmd::new(pyenv::need_python()?).args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder).check()?;
    Ok(folder.to_path_buf())
}

/// Checks every shared object below the folder and counts them.
fn check_tree(folder: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).context(|| format!("reading {}", folder.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            count += check_tree(&path)?;
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so")) {
            check_object(&path)?;
            count += 1;
        }
    }
    Ok(count)
}

fn check_object(object: &Path) -> Result<()> {
    let dynamic = Cmd::new("readelf").args(["-d", "-W"]).arg(object).check()?;
    let symbols = Cmd::new("nm").arg("-D").arg(object).check()?;
    // A stripped object has no other table; nm then only says so.
    let all = Cmd::new("nm").arg(object).capture()?.text;
    let libraries =
        needed(&dynamic).into_iter().filter(|name| ["LLVM", "MLIR"].iter().any(|part| name.contains(part)));
    let found: Vec<String> =
        libraries.chain(llvm_symbols(&symbols)).chain(llvm_symbols(&all)).take(5).collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("{} holds LLVM: {}", shown(object), found.join(", ")))
        .fix("the Python crate must depend on the runtime only; look at `cargo tree -p strata-torch`"))
}

/// Symbols of LLVM's or MLIR's C++ and C interfaces in what `nm` prints.
fn llvm_symbols(listing: &str) -> Vec<String> {
    let names = listing.lines().filter_map(|line| line.split_whitespace().last());
    let is_llvm = |name: &&str| {
        let c_name =
            |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(char::is_uppercase));
        ["_ZN4llvm", "_ZNK4llvm", "_ZN4mlir", "_ZNK4mlir"].iter().any(|prefix| name.starts_with(prefix))
            || c_name("LLVM")
            || c_name("mlir")
    };
    names.filter(is_llvm).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llvm_symbols_are_recognised() {
        let listing = "\
                 U malloc
0000000000001139 T _ZN4llvm5ValueD1Ev
                 U mlirContextCreate
                 U LLVMContextCreate
0000000000001140 t _ZN14strata_runtime4mlir3runE";
        assert_eq!(llvm_symbols(listing), ["_ZN4llvm5ValueD1Ev", "mlirContextCreate", "LLVMContextCreate"]);
    }
}
