//! PTX to cubin, through the driver's linker.
//!
//! `cuLinkComplete` runs in parallel on many threads, which `cuModuleLoadData` of PTX does not; and its result can be kept.

use super::driver::Context;
use super::error::{check, failure};
use super::link_log::{Resources, resources, warnings};
use crate::error::{ErrorKind, Result};
use cudarc::driver::sys::{self, CUjit_option, CUjitInputType, CUresult};
use std::ffi::{CString, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How to assemble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// Registers a thread may have; `None` leaves it to the assembler.
    pub max_registers: Option<u32>,
    /// 0 to 4; `None` is the driver's default, 4.
    pub opt_level: Option<u32>,
    /// Keeps source lines, for profilers.
    pub line_info: bool,
}

/// One PTX module.
#[derive(Clone, Debug)]
pub struct Ptx<'a> {
    /// A name for messages.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
}

/// A GPU binary and what the assembler said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin {
    /// The binary.
    pub bytes: Vec<u8>,
    /// What each kernel uses. Empty where the binary came from a cache.
    pub resources: Vec<Resources>,
    /// Warnings of lost speed.
    pub warnings: Vec<String>,
}

/// Where binaries are kept between runs. The key is a hash of everything that can change the binary.
pub trait CubinCache: Sync {
    /// The binary stored under `key`.
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    /// Stores a binary; may do nothing.
    fn put(&self, key: &str, cubin: &[u8]);
}

/// A cache that keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl CubinCache for NoCache {
    fn get(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn put(&self, _: &str, _: &[u8]) {}
}

/// The cache key: text, options, GPU and driver.
pub fn cache_key(ptx: &Ptx<'_>, options: &LinkOptions, capability: (u32, u32), driver: i32) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("cubin 1\n{options:?}\nsm {capability:?}\ndriver {driver}\n").as_bytes());
    hasher.update(ptx.text.as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// Assembles every module, on up to `threads` threads. Results are in the order of `modules`; the first failure in that
/// order is the one reported.
pub fn link_all(
    context: &Context,
    modules: &[Ptx<'_>],
    options: &LinkOptions,
    threads: usize,
    cache: &dyn CubinCache,
) -> Result<Vec<Cubin>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Cubin>>>> = modules.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(ptx) = modules.get(at) else { return };
            let result = link_cached(context, ptx, options, cache);
            *results[at].lock().unwrap_or_else(|e| e.into_inner()) = Some(result);
        }
    };
    std::thread::scope(|scope| {
        // This thread takes part, so one module costs no thread.
        for _ in 1..threads.min(modules.len()) {
            scope.spawn(work);
        }
        work();
    });
    let taken = results.into_iter().map(|r| r.into_inner().unwrap_or_else(|e| e.into_inner()));
    taken.map(|r| r.expect("each index is taken once")).collect()
}

fn link_cached(
    context: &Context,
    ptx: &Ptx<'_>,
    options: &LinkOptions,
    cache: &dyn CubinCache,
) -> Result<Cubin> {
    let info = context.info();
    let key = cache_key(ptx, options, info.capability, info.driver_version);
    if let Some(bytes) = cache.get(&key) {
        return Ok(Cubin { bytes, resources: Vec::new(), warnings: Vec::new() });
    }
    let cubin = link(context, ptx, options)?;
    cache.put(&key, &cubin.bytes);
    Ok(cubin)
}

const LOG_BYTES: usize = 64 << 10;

/// Options as the driver takes them: numbers pass by value in pointers.
fn jit_options(
    options: &LinkOptions,
    info: &mut [u8],
    error: &mut [u8],
) -> (Vec<CUjit_option>, Vec<*mut c_void>) {
    use CUjit_option::*;
    let by_value = |n: usize| n as *mut c_void;
    let mut list: Vec<(CUjit_option, *mut c_void)> = vec![
        (CU_JIT_INFO_LOG_BUFFER, info.as_mut_ptr().cast()),
        (CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, by_value(info.len())),
        (CU_JIT_ERROR_LOG_BUFFER, error.as_mut_ptr().cast()),
        (CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, by_value(error.len())),
        (CU_JIT_LOG_VERBOSE, by_value(1)),
    ];
    if let Some(n) = options.max_registers {
        list.push((CU_JIT_MAX_REGISTERS, by_value(n as usize)));
    }
    if let Some(n) = options.opt_level {
        list.push((CU_JIT_OPTIMIZATION_LEVEL, by_value(n as usize)));
    }
    if options.line_info {
        list.push((CU_JIT_GENERATE_LINE_INFO, by_value(1)));
    }
    list.into_iter().unzip()
}

/// A linker session; ends when dropped.
struct Session(sys::CUlinkState);

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: created by `link`, on this thread, with the context still current.
        let _ = unsafe { sys::cuLinkDestroy(self.0) };
    }
}

/// Assembles one module for the context's GPU.
pub fn link(context: &Context, ptx: &Ptx<'_>, options: &LinkOptions) -> Result<Cubin> {
    let text = nul_terminated(ptx.name, ptx.text)?;
    let name = CString::new(ptx.name.replace('\0', " ")).expect("zeros are replaced");
    let _entered = context.enter()?;
    let (mut info, mut error) = (vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]);
    let (mut keys, mut values) = jit_options(options, &mut info, &mut error);
    let mut state = std::ptr::null_mut();
    // SAFETY: keys and values have the length passed; they and the logs outlive the session.
    let code = unsafe {
        sys::cuLinkCreate_v2(keys.len() as u32, keys.as_mut_ptr(), values.as_mut_ptr(), &mut state)
    };
    check(code, || format!("starting to assemble '{}'", ptx.name))?;
    let session = Session(state);
    let bytes = text.as_bytes_with_nul();
    let (mut image, mut size) = (std::ptr::null_mut(), 0usize);
    // SAFETY: the session is live; the text is nul-terminated, and the driver does not write to it.
    let mut code = unsafe {
        sys::cuLinkAddData_v2(
            session.0,
            CUjitInputType::CU_JIT_INPUT_PTX,
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            name.as_ptr(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    if code == CUresult::CUDA_SUCCESS {
        // SAFETY: the session is live; the image stays valid until it ends.
        code = unsafe { sys::cuLinkComplete(session.0, &mut image, &mut size) };
    }
    let cubin = if code == CUresult::CUDA_SUCCESS {
        // SAFETY: `size` bytes, valid until the session ends.
        unsafe { std::slice::from_raw_parts(image.cast::<u8>(), size) }.to_vec()
    } else {
        Vec::new()
    };
    drop(session);
    let (info, error) = (log_text(&info), log_text(&error));
    if code != CUresult::CUDA_SUCCESS {
        return Err(assembly_failure(code, ptx, &error, context.info().capability));
    }
    Ok(Cubin { bytes: cubin, resources: resources(&info), warnings: warnings(&info) })
}

fn nul_terminated(name: &str, text: &str) -> Result<CString> {
    CString::new(text.trim_end_matches('\0')).map_err(|e| {
        failure(
            ErrorKind::Artifact,
            format!("assembling '{name}'"),
            format!("the PTX text has a zero byte at {}", e.nul_position()),
            "compile it again: the image is damaged",
        )
    })
}

fn log_text(log: &[u8]) -> String {
    let end = log.iter().position(|&b| b == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim().to_string()
}

/// The assembler's complaint with the PTX line it points at.
fn assembly_failure(code: CUresult, ptx: &Ptx<'_>, log: &str, capability: (u32, u32)) -> crate::Error {
    let (major, minor) = capability;
    let mut reason = format!("{code:?}");
    for line in log.lines().take(8) {
        reason.push_str("\n    ");
        reason.push_str(line);
    }
    let number = log
        .split("line ")
        .nth(1)
        .and_then(|s| s.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse::<usize>().ok()));
    if let Some(line) = number.and_then(|n| ptx.text.lines().nth(n.checked_sub(1)?)) {
        reason.push_str(&format!("\n    the line: {}", line.trim()));
    }
    let next = match code {
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            "compile with an older PTX version, or install a newer driver"
        }
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => "compile for this GPU's architecture",
        _ => {
            "dump the PTX with `strata translate` and try `ptxas` on it; if the compiler made it, report it as a bug"
        }
    };
    failure(ErrorKind::Artifact, format!("assembling '{}' for sm_{major}{minor}", ptx.name), reason, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_depends_on_everything() {
        let a = Ptx { name: "a", text: ".version 7.0" };
        let base = LinkOptions::default();
        let key = cache_key(&a, &base, (9, 0), 13000);
        assert_eq!(
            key,
            cache_key(&Ptx { name: "b", ..a.clone() }, &base, (9, 0), 13000),
            "a name changes nothing"
        );
        let limited = LinkOptions { max_registers: Some(64), ..base.clone() };
        for other in [
            cache_key(&Ptx { text: ".version 7.1", ..a.clone() }, &base, (9, 0), 13000),
            cache_key(&a, &limited, (9, 0), 13000),
            cache_key(&a, &base, (8, 0), 13000),
            cache_key(&a, &base, (9, 0), 12080),
        ] {
            assert_ne!(key, other);
        }
    }

    #[test]
    fn options_pass_by_value() {
        let options = LinkOptions { max_registers: Some(64), opt_level: Some(3), line_info: true };
        let (mut info, mut error) = ([0; 10], [0; 20]);
        let (keys, values) = jit_options(&options, &mut info, &mut error);
        let value = |k: CUjit_option| values[keys.iter().position(|x| *x == k).unwrap()] as usize;
        assert_eq!(value(CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES), 10);
        assert_eq!(value(CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES), 20);
        assert_eq!(value(CUjit_option::CU_JIT_ERROR_LOG_BUFFER), error.as_ptr() as usize);
        assert_eq!(value(CUjit_option::CU_JIT_MAX_REGISTERS), 64);
        assert_eq!(value(CUjit_option::CU_JIT_OPTIMIZATION_LEVEL), 3);
        assert_eq!(keys.len(), jit_options(&LinkOptions::default(), &mut info, &mut error).0.len() + 3);
    }

    #[test]
    fn a_failure_shows_the_line() {
        let ptx = Ptx { name: "k0", text: ".version 8.3\n.target sm_90a\n  bogus.f32 %f1;\n" };
        let log = "ptxas application ptx input, line 3; error   : Unknown symbol 'bogus'";
        let e = assembly_failure(CUresult::CUDA_ERROR_INVALID_PTX, &ptx, log, (9, 0));
        insta::assert_snapshot!(e.to_string(), @r"
        assembling 'k0' for sm_90: CUDA_ERROR_INVALID_PTX
            ptxas application ptx input, line 3; error   : Unknown symbol 'bogus'
            the line: bogus.f32 %f1;
          next: dump the PTX with `strata translate` and try `ptxas` on it; if the compiler made it, report it as a bug
        ");
    }

    #[test]
    fn a_zero_byte_is_refused() {
        assert!(nul_terminated("k", "a\0b").is_err());
        assert!(nul_terminated("k", "ab\0").is_ok());
    }
}
