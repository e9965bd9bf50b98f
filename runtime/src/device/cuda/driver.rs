//! Contexts, streams and events of the CUDA driver.

use super::error::{check, failure};
use super::library;
use crate::device::Stream;
use crate::error::{ErrorKind, Result};
use cudarc::driver::sys::{self, CUcontext, CUdevice_attribute, CUresult, CUstream};
use std::ffi::c_char;
use std::marker::PhantomData;
use std::sync::Arc;

/// The oldest driver whose functions are all there (CUDA 12.0), as `cuDriverGetVersion` counts.
const OLDEST_DRIVER: i32 = 12000;

/// What a GPU is, as far as schedules, caches and reports care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The maker's name.
    pub name: String,
    /// Compute capability, such as (9, 0).
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of level-2 cache.
    pub l2_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of shared memory that one block may ask for.
    pub shared_bytes_per_block: u32,
    /// Threads of the largest block.
    pub threads_per_block: u32,
    /// Bytes between rows of the widest pitched copy.
    pub max_pitch: u64,
    /// Whether the driver has stream-ordered memory.
    pub memory_pools: bool,
    /// The CUDA version of the driver, such as 13000.
    pub driver_version: i32,
}

/// A GPU's primary context: the one that PyTorch and the CUDA runtime use too.
#[derive(Debug)]
pub struct Context {
    raw: CUcontext,
    device: sys::CUdevice,
    ordinal: u32,
    info: DeviceInfo,
}

// SAFETY: a context handle may be used from any thread; which thread has it current is handled by `enter`.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks.
unsafe impl Sync for Context {}

/// Loads and initialises the driver. Returns how many GPUs it sees.
pub fn device_count() -> Result<u32> {
    library::driver()?;
    // SAFETY: the driver is loaded; it may be initialised more than once.
    check(unsafe { sys::cuInit(0) }, || "initialising the CUDA driver".into())?;
    let mut count = 0;
    // SAFETY: initialised.
    check(unsafe { sys::cuDeviceGetCount(&mut count) }, || "counting GPUs".into())?;
    Ok(count.max(0) as u32)
}

impl Context {
    /// Retains the primary context of GPU `ordinal`.
    pub fn primary(ordinal: u32) -> Result<Arc<Self>> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(failure(
                ErrorKind::Device,
                format!("opening GPU {ordinal}"),
                format!("the driver sees {count} GPU(s)"),
                "pass a number below that, or check CUDA_VISIBLE_DEVICES",
            ));
        }
        let mut device = 0;
        // SAFETY: initialised; the ordinal is in range.
        check(unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) }, || format!("opening GPU {ordinal}"))?;
        let info = device_info(device)?;
        if info.driver_version < OLDEST_DRIVER {
            return Err(failure(
                ErrorKind::Device,
                format!("opening GPU {ordinal}"),
                format!("the driver speaks CUDA {}, too old", info.driver_version),
                "install a driver of CUDA 12 or newer (525 or newer)",
            ));
        }
        let mut raw = std::ptr::null_mut();
        // SAFETY: a device of this driver.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&mut raw, device) }, || {
            format!("retaining the context of GPU {ordinal}")
        })?;
        let context = Self { raw, device, ordinal, info };
        context.keep_pool_memory();
        Ok(Arc::new(context))
    }

    /// What the GPU is.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Its number.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Makes the context current on this thread until the guard is dropped. Costs one driver call when it is already.
    pub fn enter(&self) -> Result<Entered<'_>> {
        let mut current = std::ptr::null_mut();
        let what = || format!("switching to GPU {}", self.ordinal);
        // SAFETY: initialised by `primary`.
        check(unsafe { sys::cuCtxGetCurrent(&mut current) }, what)?;
        let pushed = current != self.raw;
        if pushed {
            // SAFETY: retained by us.
            check(unsafe { sys::cuCtxPushCurrent_v2(self.raw) }, what)?;
        }
        Ok(Entered { pushed, _of: PhantomData })
    }

    /// Bytes free and in total on the GPU.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let _entered = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current.
        check(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }, || {
            "asking for free GPU memory".into()
        })?;
        Ok((free as u64, total as u64))
    }

    /// Waits for everything on the GPU.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the context is current.
        check(unsafe { sys::cuCtxSynchronize() }, || format!("waiting for GPU {}", self.ordinal))
    }

    /// Whether a lent stream belongs to this context; `Err` says what to pass instead.
    ///
    /// # Safety
    /// `stream` must be live.
    pub unsafe fn check_lent(&self, stream: Stream) -> Result<()> {
        // 0, 1 and 2 are the default streams of whatever context is current.
        if stream.0 <= 2 {
            return Ok(());
        }
        let _entered = self.enter()?;
        let mut of = std::ptr::null_mut();
        // SAFETY: live, by this function's contract.
        check(unsafe { sys::cuStreamGetCtx(handle(stream), &mut of) }, || {
            "asking a lent stream for its context".into()
        })?;
        if of != self.raw {
            return Err(failure(
                ErrorKind::Device,
                "using a lent stream",
                format!("it does not belong to the primary context of GPU {}", self.ordinal),
                "pass a stream of the same GPU, made through the CUDA runtime or the primary context",
            ));
        }
        Ok(())
    }

    /// Waits until everything queued in `stream` so far is done. Asynchronous failures surface here.
    pub fn wait_for(&self, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: a live stream, as everywhere.
        check(unsafe { sys::cuStreamSynchronize(handle(stream)) }, || "waiting for GPU work".into())
    }

    /// Lets the pool keep freed memory: by default it goes back to the system at each synchronisation.
    fn keep_pool_memory(&self) {
        if !self.info.memory_pools {
            return;
        }
        let mut pool = std::ptr::null_mut();
        let mut keep = u64::MAX;
        // SAFETY: a device with pools; the attribute is a u64. A failure only costs speed.
        unsafe {
            if sys::cuDeviceGetDefaultMemPool(&mut pool, self.device) == CUresult::CUDA_SUCCESS {
                let _ = sys::cuMemPoolSetAttribute(
                    pool,
                    sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                    (&raw mut keep).cast(),
                );
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once by `primary`. At process exit the driver may be gone: nothing to do then.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// While it lives, a context is current on the thread that made it.
#[derive(Debug)]
pub struct Entered<'a> {
    pushed: bool,
    // A raw pointer keeps it on its thread.
    _of: PhantomData<(&'a Context, *const ())>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut old = std::ptr::null_mut();
            // SAFETY: pushed on this thread by `enter`.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut old) };
        }
    }
}

fn device_info(device: sys::CUdevice) -> Result<DeviceInfo> {
    use CUdevice_attribute::*;
    let attribute = |which: CUdevice_attribute| -> Result<i32> {
        let mut value = 0;
        // SAFETY: a device of this driver.
        check(unsafe { sys::cuDeviceGetAttribute(&mut value, which, device) }, || {
            format!("asking GPU {device} for {which:?}")
        })?;
        Ok(value)
    };
    let mut name = [0 as c_char; 128];
    let (mut bytes, mut version) = (0usize, 0);
    // SAFETY: the buffer has the length passed.
    check(unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32 - 1, device) }, || {
        format!("asking GPU {device} for its name")
    })?;
    // SAFETY: a device of this driver.
    check(unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, device) }, || {
        format!("asking GPU {device} for its memory")
    })?;
    // SAFETY: loaded.
    check(unsafe { sys::cuDriverGetVersion(&mut version) }, || "asking for the driver's version".into())?;
    Ok(DeviceInfo {
        // SAFETY: nul-terminated, since the last byte was not offered.
        name: unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(),
        capability: (
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
        ),
        multiprocessors: attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        l2_bytes: attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64,
        memory_bytes: bytes as u64,
        shared_bytes_per_block: attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as u32,
        threads_per_block: attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)? as u32,
        max_pitch: attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH)? as u64,
        memory_pools: attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
        driver_version: version,
    })
}

/// The driver's handle of a stream.
pub(crate) fn handle(stream: Stream) -> CUstream {
    stream.0 as usize as CUstream
}
