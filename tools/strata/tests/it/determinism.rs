//! The same model gives the same artifact, byte for byte: in fresh processes, with one thread or many.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Lets the process run on one processor only: LLVM's thread pool then has one thread.
fn one_processor() -> std::io::Result<()> {
    // SAFETY: a set is plain bits, and the calls are given its size.
    unsafe {
        let (mut set, size) = (std::mem::zeroed::<libc::cpu_set_t>(), size_of::<libc::cpu_set_t>());
        if libc::sched_getaffinity(0, size, &raw mut set) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &set)).unwrap_or(0);
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first, &mut set);
        if libc::sched_setaffinity(0, size, &raw const set) != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The artifact of a model, made by a process of its own.
fn compile(model: &Path, target: &str, alone: bool, folder: &Path) -> Vec<u8> {
    let file = folder.join(format!("{alone}.strata"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata"));
    command.arg("compile").arg(model).arg(format!("--target={target}")).arg("-o").arg(&file);
    command.env("RAYON_NUM_THREADS", if alone { "1" } else { "7" });
    if alone {
        // SAFETY: the closure only makes system calls.
        unsafe { command.pre_exec(one_processor) };
    }
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(file).expect("an artifact")
}

#[test]
fn a_second_artifact_has_equal_bytes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for model in ["tools/demo/digits.onnx", "lit-tests/models/gpt2-block.mlir"] {
        for target in ["cpu:x86-64-v3", "nvptx:sm_90a"] {
            let folder = tempfile::tempdir().expect("a folder");
            let once = compile(&root.join(model), target, true, folder.path());
            let again = compile(&root.join(model), target, false, folder.path());
            assert!(once.len() > 1000, "{model} for {target}: an artifact of {} bytes", once.len());
            let first = once.iter().zip(&again).position(|(a, b)| a != b);
            assert_eq!(first, None, "{model} for {target}: the first byte that differs");
            assert_eq!(once.len(), again.len(), "{model} for {target}");
        }
    }
}
