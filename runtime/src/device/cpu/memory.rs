//! Host memory: tensors' and code's.

use crate::device::DevicePtr;
use crate::error::{Result, err};
use std::alloc::Layout;
use std::ops::Range;

/// The alignment of what [`alloc`] returns.
const ALIGN: usize = 256;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGN).ok()
}

/// Memory for tensors, uninitialised.
pub fn alloc(bytes: usize) -> Result<DevicePtr> {
    // SAFETY: the size is at least 1.
    let ptr = layout(bytes).map_or(std::ptr::null_mut(), |l| unsafe { std::alloc::alloc(l) });
    if ptr.is_null() {
        return Err(err!(Memory, "the host has no {bytes} bytes of memory to give")
            .next("use smaller sizes, or a machine with more memory"));
    }
    Ok(ptr.into())
}

/// Gives memory of [`alloc`] back.
///
/// # Safety
/// `ptr` came from [`alloc`] with the same `bytes`.
pub unsafe fn free(ptr: DevicePtr, bytes: usize) {
    if let Some(l) = layout(bytes) {
        // SAFETY: promised by the caller.
        unsafe { std::alloc::dealloc(ptr.as_host(), l) }
    }
}

/// What a part of a [`Mapping`] may be used for.
#[derive(Clone, Copy, Debug)]
pub enum Protection {
    /// Read only.
    Read,
    /// Read and execute.
    ReadExecute,
}

/// Pages of their own, writable until protected.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: the pages belong to the mapping alone; writing needs `&mut`.
unsafe impl Send for Mapping {}
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The size of a page.
    pub fn page_size() -> usize {
        // SAFETY: no preconditions.
        let n = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(n).unwrap_or(4096)
    }

    /// `len` zero bytes in whole pages.
    pub fn new(len: usize) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping touches nothing that exists.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            let e = std::io::Error::last_os_error();
            return Err(err!(Memory, "cannot map {len} bytes for kernels: {e}").next("free some memory"));
        }
        Ok(Self { base: base.cast(), len })
    }

    /// The address of a byte.
    pub fn address(&self, at: usize) -> u64 {
        debug_assert!(at <= self.len);
        (self.base as usize + at) as u64
    }

    /// All bytes, to be written; only before any part is protected.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `len` bytes long, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }

    /// Changes what a range of whole pages may be used for.
    pub fn protect(&mut self, range: Range<usize>, to: Protection) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let flags = match to {
            Protection::Read => libc::PROT_READ,
            Protection::ReadExecute => libc::PROT_READ | libc::PROT_EXEC,
        };
        // SAFETY: the range lies in the mapping.
        let rc = unsafe { libc::mprotect(self.base.add(range.start).cast(), range.len(), flags) };
        if rc != 0 {
            let e = std::io::Error::last_os_error();
            return Err(err!(Device, "cannot make {} bytes of kernels {to:?}: {e}", range.len())
                .next("check whether a security policy forbids executable memory (SELinux execmem)"));
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}
