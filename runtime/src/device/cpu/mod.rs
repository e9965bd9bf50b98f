//! The host's processor as a device: kernels are x86-64 objects, run in chunks of tasks on a thread pool.

mod convolution;
mod copy;
pub mod elf;
pub mod features;
mod memory;
mod product;

use super::{
    Device, DevicePtr, Launch, Module, ResolvedConvolution, ResolvedProduct, Stream, TensorRef, Timestamp,
};
use crate::artifact::{Image, ImageKind};
use crate::error::{Error, ErrorKind, Result, bail, err};
use crate::plan::{Check, DeviceKind, Kernel};
pub use elf::LoadedObject;
pub use features::native as native_target;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// The type of every kernel on the CPU: the tasks `begin..end`. `status` becomes the smallest number of a check that failed
/// ([`Kernel::checks`]).
pub type KernelFn = unsafe extern "C" fn(
    buffers: *const *mut u8,
    symbols: *const i64,
    begin: i64,
    end: i64,
    status: *mut u64,
);

/// The status before any check has failed.
pub const NO_CHECK_FAILED: u64 = u64::MAX;

/// Chunks a thread: enough that uneven tasks even out.
const CHUNKS_PER_THREAD: usize = 4;

/// The host's processor.
#[derive(Clone)]
pub struct CpuDevice {
    pool: Arc<rayon::ThreadPool>,
}

impl CpuDevice {
    /// A device with `threads` threads; 0 takes what the machine has. Results do not depend on the number.
    ///
    /// # Errors
    /// The system does not give so many threads.
    pub fn new(threads: usize) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .stack_size(8 << 20)
            .thread_name(|i| format!("strata-cpu-{i}"))
            .build()
            .map_err(|e| {
                err!(Device, "cannot start {threads} threads: {e}").next("ask for fewer threads (--threads)")
            })?;
        Ok(Self { pool: Arc::new(pool) })
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

struct CpuModule {
    /// Owns the code that `kernels` points into.
    _object: LoadedObject,
    kernels: Vec<(KernelFn, Vec<Check>)>,
    pool: Arc<rayon::ThreadPool>,
}

/// A pointer that threads may share: the kernels' tasks write disjoint elements.
#[derive(Clone, Copy)]
struct Shared<T>(*const T);
// SAFETY: what lies behind is only read, or written at disjoint places by contract of the kernels.
unsafe impl<T> Send for Shared<T> {}
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    // A method, so that closures capture the whole.
    fn get(self) -> *const T {
        self.0
    }
}

impl Module for CpuModule {
    unsafe fn launch(&self, kernel: usize, launch: &Launch<'_>, _: Stream) -> Result<()> {
        let (f, checks) = &self.kernels[kernel];
        let tasks =
            launch.grid.iter().try_fold(1u64, |n, &g| n.checked_mul(g)).filter(|&n| n <= i64::MAX as u64);
        let Some(tasks) = tasks else {
            bail!(Device, "a grid of {:?} tasks is too large", launch.grid);
        };
        // On the CPU a device address is a host pointer of the same width.
        let buffers = Shared(launch.buffers.as_ptr().cast::<*mut u8>());
        let symbols = Shared(launch.symbols.as_ptr());
        let status = AtomicU64::new(NO_CHECK_FAILED);
        let chunks = tasks.min((self.pool.current_num_threads() * CHUNKS_PER_THREAD) as u64) as usize;
        if chunks <= 1 || self.pool.current_num_threads() == 1 {
            // SAFETY: promised by the caller.
            unsafe { f(buffers.get(), symbols.get(), 0, tasks as i64, status.as_ptr()) };
            return outcome(status, checks);
        }
        let bound = |c: usize| (tasks as u128 * c as u128 / chunks as u128) as i64;
        self.pool.install(|| {
            (0..chunks).into_par_iter().with_max_len(1).for_each(|c| {
                // SAFETY: promised by the caller.
                unsafe { f(buffers.get(), symbols.get(), bound(c), bound(c + 1), status.as_ptr()) }
            });
        });
        outcome(status, checks)
    }
}

/// The error of the first check that failed, if one did.
fn outcome(status: AtomicU64, checks: &[Check]) -> Result<()> {
    let failed = match status.into_inner() {
        NO_CHECK_FAILED => return Ok(()),
        number => usize::try_from(number).ok().and_then(|n| checks.get(n)),
    };
    let Some(check) = failed else { bail!(Artifact, "a kernel reports a check that it does not have") };
    let e = Error::new(ErrorKind::Index, &check.message).next(
        "pass indices that are positions of the dimension, or count from its end where the op allows it",
    );
    Err(if check.location.is_empty() { e } else { e.at(&check.location) })
}

impl Device for CpuDevice {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }

    fn name(&self) -> String {
        format!("{}, {} threads", std::env::consts::ARCH, self.threads())
    }

    fn host_memory(&self) -> bool {
        true
    }

    fn alloc(&self, bytes: usize, _: Stream) -> Result<DevicePtr> {
        memory::alloc(bytes)
    }

    unsafe fn free(&self, ptr: DevicePtr, bytes: usize, _: Stream) {
        // SAFETY: promised by the caller.
        unsafe { memory::free(ptr, bytes) }
    }

    unsafe fn copy_from_host(&self, dst: DevicePtr, src: &[u8], _: Stream) -> Result<()> {
        if !src.is_empty() {
            // SAFETY: promised by the caller.
            unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), dst.as_host(), src.len()) };
        }
        Ok(())
    }

    unsafe fn copy_to_host(&self, dst: &mut [u8], src: DevicePtr, _: Stream) -> Result<()> {
        if !dst.is_empty() {
            // SAFETY: promised by the caller.
            unsafe { std::ptr::copy_nonoverlapping(src.as_host(), dst.as_mut_ptr(), dst.len()) };
        }
        Ok(())
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, _: Stream) -> Result<()> {
        if bytes > 0 {
            // SAFETY: promised by the caller.
            unsafe { std::ptr::copy_nonoverlapping(src.as_host::<u8>(), dst.as_host(), bytes) };
        }
        Ok(())
    }

    unsafe fn copy_strided(&self, dst: &TensorRef<'_>, src: &TensorRef<'_>, _: Stream) -> Result<()> {
        // SAFETY: promised by the caller.
        self.pool.install(|| unsafe { copy::copy_strided(dst, src) })
    }

    fn load(&self, image: &Image, kernels: &[&Kernel]) -> Result<Box<dyn Module>> {
        if image.kind != ImageKind::ElfX86_64 {
            return Err(err!(
                Artifact,
                "the kernel image is {} for {}; the CPU runs elf-x86_64",
                image.kind,
                image.target
            )
            .next("compile the artifact with --target=cpu, or run it on the device it was made for"));
        }
        features::check(&image.target)?;
        let object = LoadedObject::load(&image.bytes)?;
        let kernels = (kernels.iter())
            .map(|k| {
                let f = object.function(&k.name)?;
                // SAFETY: kernels have this type by the ABI of the plan.
                let f = unsafe { std::mem::transmute::<*const u8, KernelFn>(f) };
                Ok((f, k.checks.clone()))
            })
            .collect::<Result<_>>()?;
        Ok(Box::new(CpuModule { _object: object, kernels, pool: self.pool.clone() }))
    }

    unsafe fn product(&self, p: &ResolvedProduct, _: Option<DevicePtr>, _: Stream) -> Result<()> {
        // SAFETY: promised by the caller.
        self.pool.install(|| unsafe { product::product(p) })
    }

    unsafe fn convolution(&self, c: &ResolvedConvolution<'_>, _: Option<DevicePtr>, _: Stream) -> Result<()> {
        // SAFETY: promised by the caller.
        self.pool.install(|| unsafe { convolution::convolution(c) })
    }

    fn synchronize(&self, _: Stream) -> Result<()> {
        Ok(())
    }

    fn record(&self, _: Stream) -> Result<Timestamp> {
        Ok(Box::new(Instant::now()))
    }

    fn elapsed_ns(&self, from: &Timestamp, to: &Timestamp) -> Result<u64> {
        match (from.downcast_ref::<Instant>(), to.downcast_ref::<Instant>()) {
            (Some(a), Some(b)) => Ok(b.duration_since(*a).as_nanos().try_into().unwrap_or(u64::MAX)),
            _ => bail!(Device, "a timestamp of another device"),
        }
    }
}
