//! Where things are.

use crate::failure::{Failure, Result};
use crate::sh;
use std::path::{Path, PathBuf};

/// Names under which the multi-call binary is linked (`strata-opt`, …).
pub const TOOLS: [&str; 10] =
    ["opt", "run", "compile", "translate", "reduce", "bench", "cache", "report", "serve", "lsp"];

/// The repository's root.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.ancestors().nth(2).map_or_else(|| here.clone(), Path::to_path_buf)
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if Path::new(&dir).is_absolute() => dir.into(),
        Some(dir) => std::env::current_dir().unwrap_or_default().join(dir),
        None => root().join("target"),
    }
}

/// LLVM's installation prefix; `.cargo/config.toml` sets the variable for every `cargo xtask`.
pub fn llvm_prefix() -> PathBuf {
    let set = ["MLIR_SYS_220_PREFIX", "LLVM_SYS_221_PREFIX"].into_iter().find_map(std::env::var_os);
    set.map_or_else(|| "/usr/lib/llvm-22".into(), PathBuf::from)
}

/// A program of LLVM.
pub fn llvm_tool(name: &str) -> PathBuf {
    llvm_prefix().join("bin").join(name)
}

/// A program of LLVM that must be there.
pub fn need_llvm_tool(name: &str) -> Result<PathBuf> {
    let tool = llvm_tool(name);
    if sh::is_executable(&tool) {
        return Ok(tool);
    }
    Err(Failure::new(format!("{} is missing", tool.display())).fix("cargo xtask setup"))
}

/// A size as a person reads it.
pub fn human_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// A file's size, 0 when it is not there.
pub fn file_size(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

/// A path relative to the root, for messages.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_holds_the_workspace() {
        assert!(root().join("Cargo.lock").is_file());
        assert_eq!(shown(&root().join("docs/x.md")), "docs/x.md");
    }

    #[test]
    fn sizes_are_rounded() {
        assert_eq!(human_size(999), "999 B");
        assert_eq!(human_size(75_600_000), "75.6 MB");
        assert_eq!(human_size(1_234), "1.2 kB");
    }
}
