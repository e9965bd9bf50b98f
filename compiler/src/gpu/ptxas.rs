//! NVIDIA's assembler, where it is installed: tests ask it whether PTX is accepted and what a kernel costs.

use std::path::PathBuf;
use std::process::Command;

/// What `ptxas -v` says of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of local memory a thread (the stack frame).
    pub stack: u32,
    /// Bytes of spill stores and loads.
    pub spills: u32,
    /// Static shared memory of a block.
    pub shared: u32,
}

/// The assembler: `STRATA_PTXAS`, else in the Python environment that `cargo xtask setup` makes.
pub fn find() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("STRATA_PTXAS") {
        return Some(path.into());
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent()?.join(".strata-env/lib");
    let mut pythons: Vec<_> = std::fs::read_dir(root).ok()?.flatten().map(|e| e.path()).collect();
    pythons.sort();
    pythons.into_iter().map(|p| p.join("site-packages/nvidia/cuda_nvcc/bin/ptxas")).find(|p| p.exists())
}

/// Assembles `ptx` for `chip` and reads the report; the assembler's own message where it does not accept it.
pub fn report(ptxas: &std::path::Path, ptx: &str, chip: &str) -> Result<Report, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = folder.path().join("kernel.ptx");
    std::fs::write(&file, ptx).map_err(|e| e.to_string())?;
    let output = Command::new(ptxas)
        .arg("-v")
        .arg(format!("-arch={chip}"))
        .arg(&file)
        .arg("-o")
        .arg(folder.path().join("kernel.cubin"))
        .output()
        .map_err(|e| format!("{}: {e}", ptxas.display()))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(text);
    }
    let before = |what: &str| -> u32 {
        text.split(what)
            .next()
            .filter(|head| head.len() < text.len())
            .and_then(|head| head.rsplit(|c: char| !c.is_ascii_digit()).find(|s| !s.is_empty()))
            .and_then(|n| n.parse().ok())
            .unwrap_or(0)
    };
    Ok(Report {
        registers: before(" registers"),
        stack: before(" bytes stack frame"),
        spills: before(" bytes spill stores") + before(" bytes spill loads"),
        shared: before(" bytes smem"),
    })
}
