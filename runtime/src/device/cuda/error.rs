//! Status codes of the driver and of the libraries, as diagnostics: what was tried, why it failed, what to do next.

use crate::error::{Error, ErrorKind, Result};
use cudarc::cublaslt::sys::cublasStatus_t;
use cudarc::cudnn::sys::cudnnStatus_t;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::CStr;

const OUT_OF_MEMORY: &str = "free GPU memory (`nvidia-smi` lists who holds it) or run smaller sizes";

/// "What: reason", with the next step.
pub(crate) fn failure(
    kind: ErrorKind,
    what: impl std::fmt::Display,
    reason: impl std::fmt::Display,
    next: &str,
) -> Error {
    Error::new(kind, format!("{what}: {reason}")).next(next)
}

/// `Ok` for success; otherwise a diagnostic that names the driver call's purpose and the driver's own words.
pub(crate) fn check(code: CUresult, what: impl FnOnce() -> String) -> Result<()> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = driver_text(code);
    Err(explain_driver(code, what(), text))
}

/// The driver's description of an error, or nothing when there is no driver to ask.
fn driver_text(code: CUresult) -> String {
    if super::library::driver().is_err() {
        return String::new();
    }
    let mut text = std::ptr::null();
    // SAFETY: the driver library is loaded; it writes a pointer to a static string.
    let ok = unsafe { sys::cuGetErrorString(code, &mut text) };
    if ok != CUresult::CUDA_SUCCESS || text.is_null() {
        return String::new();
    }
    // SAFETY: not null, static, nul-terminated.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn explain_driver(code: CUresult, what: String, text: String) -> Error {
    use CUresult::*;
    let (kind, next) = match code {
        CUDA_ERROR_NO_DEVICE | CUDA_ERROR_INVALID_DEVICE => (
            ErrorKind::Device,
            "run `nvidia-smi`; check CUDA_VISIBLE_DEVICES and the device number, or use the CPU device",
        ),
        CUDA_ERROR_OUT_OF_MEMORY => (ErrorKind::Memory, OUT_OF_MEMORY),
        CUDA_ERROR_INVALID_PTX
        | CUDA_ERROR_INVALID_IMAGE
        | CUDA_ERROR_NO_BINARY_FOR_GPU
        | CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        | CUDA_ERROR_INVALID_SOURCE => (
            ErrorKind::Artifact,
            "compile again for this GPU's architecture (`strata doctor` prints it); a newer PTX version needs a newer driver",
        ),
        CUDA_ERROR_NOT_FOUND => (
            ErrorKind::Artifact,
            "the image does not define that name: check that plan and kernels come from the same compilation",
        ),
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => (
            ErrorKind::Device,
            "the block needs more registers or shared memory than the GPU has: fewer threads a block, or a register limit at link",
        ),
        CUDA_ERROR_ILLEGAL_ADDRESS | CUDA_ERROR_LAUNCH_FAILED | CUDA_ERROR_MISALIGNED_ADDRESS => (
            ErrorKind::Device,
            "the GPU context is lost: restart the process; run under `compute-sanitizer` to find the kernel and the access",
        ),
        CUDA_ERROR_ASSERT => (
            ErrorKind::Device,
            "a check in a kernel has failed, as a line on standard error says, with the op and its place: most often an index out of \
             range. The GPU context is lost: restart the process",
        ),
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        | CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        | CUDA_ERROR_STREAM_CAPTURE_IMPLICIT => (
            ErrorKind::Device,
            "something in this region cannot be recorded in a CUDA graph: run it once before recording, so that memory and plans exist",
        ),
        CUDA_ERROR_NOT_INITIALIZED | CUDA_ERROR_DEINITIALIZED => {
            (ErrorKind::Device, "the driver is shutting down: drop GPU objects before the process ends")
        }
        CUDA_ERROR_SYSTEM_DRIVER_MISMATCH | CUDA_ERROR_SYSTEM_NOT_READY => (
            ErrorKind::Device,
            "the kernel module and libcuda.so differ in version: reboot or reinstall the driver",
        ),
        _ => (
            ErrorKind::Device,
            "run `strata doctor --device cuda`; an earlier asynchronous failure can surface here",
        ),
    };
    let reason = if text.is_empty() { format!("{code:?}") } else { format!("{code:?} ({text})") };
    failure(kind, what, reason, next)
}

/// As [`check`], for cuBLASLt.
pub(crate) fn check_blas(code: cublasStatus_t, what: impl FnOnce() -> String) -> Result<()> {
    use cublasStatus_t::*;
    let (kind, next) = match code {
        CUBLAS_STATUS_SUCCESS => return Ok(()),
        CUBLAS_STATUS_NOT_SUPPORTED => {
            (ErrorKind::Unsupported, "cuBLASLt has no kernel for this shape and type: use an own kernel")
        }
        CUBLAS_STATUS_ALLOC_FAILED => (ErrorKind::Memory, OUT_OF_MEMORY),
        CUBLAS_STATUS_ARCH_MISMATCH => {
            (ErrorKind::Device, "this cuBLAS is too old for the GPU: install a newer one")
        }
        CUBLAS_STATUS_NOT_INITIALIZED => (
            ErrorKind::Device,
            "cuBLASLt found no usable driver: compare its version with the driver's (`strata doctor --device cuda`)",
        ),
        _ => (ErrorKind::Device, "set CUBLASLT_LOG_LEVEL=5 to see cuBLASLt's own account"),
    };
    Err(failure(kind, what(), format!("{code:?}"), next))
}

/// As [`check`], for cuDNN.
pub(crate) fn check_dnn(code: cudnnStatus_t, what: impl FnOnce() -> String) -> Result<()> {
    let number = code as u32;
    let (kind, next) = match number {
        0 => return Ok(()),
        1002 | 1003 | 1008 | 3005 | 3006 | 3009 => (
            ErrorKind::Device,
            "cuDNN's parts do not fit together or with the driver: set STRATA_CUDA_LIBS to one complete cuDNN 9",
        ),
        2000..=3999 => (
            ErrorKind::Unsupported,
            "cuDNN has no kernel for this convolution: use an own kernel (CUDNN_LOGLEVEL_DBG=2 shows its reason)",
        ),
        4003 | 4004 => (ErrorKind::Memory, OUT_OF_MEMORY),
        _ => (ErrorKind::Device, "set CUDNN_LOGLEVEL_DBG=2 to see cuDNN's own account"),
    };
    Err(failure(kind, what(), format!("{code:?}"), next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_not_an_error() {
        assert!(check(CUresult::CUDA_SUCCESS, || unreachable!()).is_ok());
        assert!(check_blas(cublasStatus_t::CUBLAS_STATUS_SUCCESS, || unreachable!()).is_ok());
        assert!(check_dnn(cudnnStatus_t::CUDNN_STATUS_SUCCESS, || unreachable!()).is_ok());
    }

    #[test]
    fn kinds() {
        let kind = |c| check(c, || "x".into()).unwrap_err().kind();
        assert_eq!(kind(CUresult::CUDA_ERROR_OUT_OF_MEMORY), ErrorKind::Memory);
        assert_eq!(kind(CUresult::CUDA_ERROR_NO_DEVICE), ErrorKind::Device);
        assert_eq!(kind(CUresult::CUDA_ERROR_INVALID_PTX), ErrorKind::Artifact);
        let blas = |c| check_blas(c, || "x".into()).unwrap_err().kind();
        assert_eq!(blas(cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED), ErrorKind::Unsupported);
        assert_eq!(blas(cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED), ErrorKind::Memory);
        let dnn = |c| check_dnn(c, || "x".into()).unwrap_err().kind();
        assert_eq!(dnn(cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_SHAPE), ErrorKind::Unsupported);
        assert_eq!(dnn(cudnnStatus_t::CUDNN_STATUS_EXECUTION_FAILED), ErrorKind::Device);
    }

    #[test]
    fn text() {
        let e = explain_driver(
            CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            "allocating 64 MiB on GPU 0".into(),
            "out of memory".into(),
        );
        insta::assert_snapshot!(e.to_string(), @r"
        allocating 64 MiB on GPU 0: CUDA_ERROR_OUT_OF_MEMORY (out of memory)
          next: free GPU memory (`nvidia-smi` lists who holds it) or run smaller sizes
        ");
    }
}
