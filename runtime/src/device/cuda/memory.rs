//! GPU memory and plain copies.

use super::driver::{Context, handle};
use super::error::check;
use crate::device::{DevicePtr, Stream};
use crate::error::Result;
use cudarc::driver::sys::{self, CUresult};
use std::sync::Arc;

/// Allocates in `stream`'s order where the driver can, else for all streams at once.
pub fn alloc(context: &Context, bytes: usize, stream: Stream) -> Result<DevicePtr> {
    let pooled = context.info().memory_pools;
    let _entered = context.enter()?;
    // The driver refuses to allocate nothing.
    let (bytes, mut address) = (bytes.max(1), 0);
    // SAFETY: the context is current, the stream live.
    let code = unsafe {
        if pooled {
            sys::cuMemAllocAsync(&mut address, bytes, handle(stream))
        } else {
            sys::cuMemAlloc_v2(&mut address, bytes)
        }
    };
    check(code, || {
        let free = context.memory().map_or(0, |(free, _)| free);
        format!("allocating {bytes} bytes on GPU {} ({free} bytes free)", context.ordinal())
    })?;
    Ok(DevicePtr(address))
}

/// Frees in `stream`'s order where the driver can.
///
/// # Safety
/// `ptr` came from [`alloc`], and no work after this in `stream` uses it.
pub unsafe fn free(context: &Context, ptr: DevicePtr, stream: Stream) {
    let Ok(_entered) = context.enter() else { return };
    // SAFETY: by this function's contract. Where a lent stream has ended early, the synchronous form frees pool memory too.
    unsafe {
        let pooled = context.info().memory_pools;
        let freed = pooled && sys::cuMemFreeAsync(ptr.0, handle(stream)) == CUresult::CUDA_SUCCESS;
        if !freed {
            let _ = sys::cuMemFree_v2(ptr.0);
        }
    }
}

/// Memory that lives as long as this; any stream may use it at once.
#[derive(Debug)]
pub struct Fixed {
    context: Arc<Context>,
    ptr: DevicePtr,
    bytes: usize,
}

impl Fixed {
    /// `bytes` bytes, at least one. Can wait for the whole GPU.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Self> {
        let _entered = context.enter()?;
        let mut address = 0;
        // SAFETY: the context is current.
        check(unsafe { sys::cuMemAlloc_v2(&mut address, bytes.max(1)) }, || {
            format!("allocating {bytes} bytes on GPU {}", context.ordinal())
        })?;
        Ok(Self { context: context.clone(), ptr: DevicePtr(address), bytes })
    }

    /// Its first byte; a multiple of 256.
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: ours; waits for work that still uses it.
            let _ = unsafe { sys::cuMemFree_v2(self.ptr.0) };
        }
    }
}

/// Copies host bytes to the GPU. The host memory may be reused on return.
///
/// # Safety
/// `to` must be the address of at least `from.len()` bytes of this context's memory.
pub unsafe fn upload(context: &Context, to: DevicePtr, from: &[u8], stream: Stream) -> Result<()> {
    if from.is_empty() {
        return Ok(());
    }
    let _entered = context.enter()?;
    // SAFETY: by this function's contract.
    let code = unsafe { sys::cuMemcpyHtoDAsync_v2(to.0, from.as_ptr().cast(), from.len(), handle(stream)) };
    check(code, || format!("copying {} bytes to the GPU", from.len()))?;
    // Pageable memory is staged by now, but an embedder's pinned memory is read later: wait, to keep the promise above.
    context.wait_for(stream)
}

/// Copies bytes from the GPU to the host, and waits for them.
///
/// # Safety
/// `from` must be the address of at least `to.len()` bytes of this context's memory.
pub unsafe fn download(context: &Context, to: &mut [u8], from: DevicePtr, stream: Stream) -> Result<()> {
    if to.is_empty() {
        return context.wait_for(stream);
    }
    let _entered = context.enter()?;
    // SAFETY: by this function's contract; `to` is borrowed until the wait below has ended.
    let code = unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from.0, to.len(), handle(stream)) };
    check(code, || format!("copying {} bytes from the GPU", to.len()))?;
    context.wait_for(stream)
}

/// Queues a copy within the GPU.
///
/// # Safety
/// Both must be addresses of at least `bytes` bytes of this context's memory, not overlapping.
pub unsafe fn copy(
    context: &Context,
    to: DevicePtr,
    from: DevicePtr,
    bytes: usize,
    stream: Stream,
) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let _entered = context.enter()?;
    // SAFETY: by this function's contract.
    check(unsafe { sys::cuMemcpyDtoDAsync_v2(to.0, from.0, bytes, handle(stream)) }, || {
        format!("copying {bytes} bytes on the GPU")
    })
}

/// Queues the filling of `bytes` bytes with `value`.
///
/// # Safety
/// `to` must be the address of at least `bytes` bytes of this context's memory.
pub unsafe fn fill(context: &Context, to: DevicePtr, value: u8, bytes: usize, stream: Stream) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let _entered = context.enter()?;
    // SAFETY: by this function's contract.
    check(unsafe { sys::cuMemsetD8Async(to.0, value, bytes, handle(stream)) }, || {
        format!("filling {bytes} bytes on the GPU")
    })
}
