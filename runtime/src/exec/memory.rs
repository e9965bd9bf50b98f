//! Device memory for arenas and outputs: a pool that keeps what is given back, and tensors that own their memory.

use crate::device::{Device, DevicePtr, Stream, TensorRef};
use crate::dtype::DType;
use crate::error::{ErrorKind, Result, bail};
use crate::tensor::{HostTensor, row_major_strides};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Bytes from which on it is worth while to take a result's memory only when it is written, and to tell that an input is no longer
/// read; and from which on an intermediate buffer on a GPU gets memory of its own.
pub const LARGE: i64 = 1 << 20;

/// Where an embedder's memory comes from; the default is a [`Pool`].
pub trait Allocator {
    /// Memory for the arena, aligned to 256 bytes, valid until the run's work in the stream is done. `bytes` > 0.
    fn arena(&mut self, bytes: usize) -> Result<DevicePtr>;

    /// Memory for a copy of an argument, aligned to 256 bytes, valid until the run's work in the stream is done. `bytes` > 0; may be
    /// asked for several times.
    fn scratch(&mut self, bytes: usize) -> Result<DevicePtr>;

    /// Scratch memory of library calls, aligned to 256 bytes, valid until the run's work in the stream is done; without it the device
    /// uses memory of its own.
    fn workspace(&mut self, _bytes: usize) -> Result<Option<DevicePtr>> {
        Ok(None)
    }

    /// Memory for an intermediate buffer (by its number), aligned to 256 bytes, until [`Allocator::release`]. `bytes` > 0.
    fn block(&mut self, buffer: usize, bytes: usize) -> Result<DevicePtr>;

    /// No later step touches the block of this buffer; work that is queued in the stream still may.
    fn release(&mut self, buffer: usize);

    /// No later step reads this input of at least [`LARGE`] bytes, and no result is part of it: its owner may give it up. Work that
    /// is queued in the stream may still read it.
    fn release_input(&mut self, _number: usize) {}

    /// Memory for a result (by its number), which lies in it with these sizes and strides (in elements); `bytes` may be 0.
    fn output(
        &mut self,
        number: usize,
        dtype: DType,
        shape: &[i64],
        strides: &[i64],
        bytes: usize,
    ) -> Result<DevicePtr>;
}

/// Keeps freed device memory for the next allocation of the same size class in the same stream.
pub struct Pool {
    device: Arc<dyn Device>,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    blocks: BTreeMap<(Stream, usize), Vec<DevicePtr>>,
    bytes: usize,
}

/// Bytes that a pool keeps at most.
const KEPT: usize = 2 << 30;

/// Sizes are rounded up, so that a little change of a dynamic size finds the block of the last call: at most an eighth is lost.
fn size_class(bytes: usize) -> usize {
    let step = (bytes.max(1).next_power_of_two() / 8).max(256);
    bytes.max(1).next_multiple_of(step)
}

impl Pool {
    /// A pool over a device.
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self { device, free: Mutex::default() }
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// A block of at least `bytes`.
    pub fn block(self: &Arc<Self>, bytes: usize, stream: Stream) -> Result<Block> {
        let size = size_class(bytes);
        let cached = {
            let mut free = self.free.lock().unwrap_or_else(|e| e.into_inner());
            let found = free.blocks.get_mut(&(stream, size)).and_then(Vec::pop);
            if found.is_some() {
                free.bytes -= size;
            }
            found
        };
        let ptr = match cached {
            Some(ptr) => ptr,
            None => match self.device.alloc(size, stream) {
                Err(e) if e.kind() == ErrorKind::Memory => {
                    self.trim();
                    self.device.alloc(size, stream)?
                }
                other => other?,
            },
        };
        Ok(Block { pool: self.clone(), ptr, size, stream })
    }

    /// Gives everything unused back to the device.
    pub fn trim(&self) {
        let blocks = std::mem::take(&mut *self.free.lock().unwrap_or_else(|e| e.into_inner())).blocks;
        for ((stream, size), list) in blocks {
            for ptr in list {
                // SAFETY: allocated by `block` with this size, and in nobody's hands.
                unsafe { self.device.free(ptr, size, stream) };
            }
        }
    }

    /// Bytes that are kept for later.
    pub fn kept_bytes(&self) -> usize {
        self.free.lock().unwrap_or_else(|e| e.into_inner()).bytes
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.trim();
    }
}

/// Memory of a [`Pool`]; goes back to it when dropped.
pub struct Block {
    pool: Arc<Pool>,
    ptr: DevicePtr,
    size: usize,
    stream: Stream,
}

impl Block {
    /// Its address.
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(|e| e.into_inner());
        if free.bytes + self.size <= KEPT {
            free.bytes += self.size;
            free.blocks.entry((self.stream, self.size)).or_default().push(self.ptr);
        } else {
            // SAFETY: allocated by the pool with this size; this was its only owner.
            unsafe { self.pool.device.free(self.ptr, self.size, self.stream) };
        }
    }
}

/// A tensor in device memory that owns (a share of) its memory. Its memory goes back to the pool for work of the stream that it was
/// made in: whoever uses it in another stream keeps it until that work is done.
#[derive(Clone)]
pub struct DeviceTensor {
    pub(super) ptr: DevicePtr,
    pub(super) dtype: DType,
    pub(super) shape: Vec<i64>,
    pub(super) strides: Vec<i64>,
    /// Keeps the memory; nothing where the embedder owns it.
    pub(super) owner: Option<Arc<Block>>,
    pub(super) device: Arc<dyn Device>,
}

impl DeviceTensor {
    /// A contiguous copy of a host tensor.
    pub fn upload(pool: &Arc<Pool>, t: &HostTensor, stream: Stream) -> Result<Self> {
        let block = pool.block(t.bytes().len(), stream)?;
        // SAFETY: the block has room for the bytes.
        unsafe { pool.device.copy_from_host(block.ptr, t.bytes(), stream)? };
        let shape: Vec<i64> = t.shape().iter().map(|&n| n as i64).collect();
        Ok(Self {
            ptr: block.ptr,
            dtype: t.dtype(),
            strides: row_major_strides(&shape),
            shape,
            owner: Some(Arc::new(block)),
            device: pool.device.clone(),
        })
    }

    /// A view of memory that somebody else owns.
    ///
    /// # Safety
    /// The memory lies on `device` and outlives every use of this tensor.
    pub unsafe fn borrowed(device: &Arc<dyn Device>, t: &TensorRef<'_>) -> Self {
        Self {
            ptr: t.ptr,
            dtype: t.dtype,
            shape: t.shape.to_vec(),
            strides: t.strides.to_vec(),
            owner: None,
            device: device.clone(),
        }
    }

    /// A view without ownership.
    pub fn as_ref(&self) -> TensorRef<'_> {
        TensorRef { ptr: self.ptr, dtype: self.dtype, shape: &self.shape, strides: &self.strides }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Strides in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// The address of element 0.
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// A host copy, row-major.
    pub fn download(&self, stream: Stream) -> Result<HostTensor> {
        let shape: Vec<usize> = self.shape.iter().map(|&n| n as usize).collect();
        let mut out = HostTensor::zeros(self.dtype, &shape)?;
        if out.is_empty() {
            return Ok(out);
        }
        let view = self.as_ref();
        if view.is_contiguous() {
            // SAFETY: the tensor has as many bytes as its shape says.
            unsafe { self.device.copy_to_host(out.bytes_mut(), self.ptr, stream)? };
            return Ok(out);
        }
        let bytes = out.bytes().len();
        let temporary = self.device.alloc(bytes, stream)?;
        let strides = row_major_strides(&self.shape);
        let dense = TensorRef { ptr: temporary, strides: &strides, ..view };
        // SAFETY: the temporary has room, and is freed after the copy is done.
        unsafe {
            let done = self.device.copy_strided(&dense, &view, stream);
            let done = done.and_then(|()| self.device.copy_to_host(out.bytes_mut(), temporary, stream));
            self.device.free(temporary, bytes, stream);
            done?;
        }
        Ok(out)
    }
}

/// The default allocator: blocks of a pool, held until the run is over (arena) or handed out (outputs).
pub(super) struct PoolAllocator<'a> {
    pub pool: &'a Arc<Pool>,
    pub stream: Stream,
    pub kept: Vec<Block>,
    pub blocks: BTreeMap<usize, Block>,
    pub outputs: Vec<(usize, Arc<Block>)>,
}

impl Allocator for PoolAllocator<'_> {
    fn arena(&mut self, bytes: usize) -> Result<DevicePtr> {
        self.scratch(bytes)
    }

    fn scratch(&mut self, bytes: usize) -> Result<DevicePtr> {
        let block = self.pool.block(bytes, self.stream)?;
        let ptr = block.ptr;
        self.kept.push(block);
        Ok(ptr)
    }

    fn block(&mut self, buffer: usize, bytes: usize) -> Result<DevicePtr> {
        let block = self.pool.block(bytes, self.stream)?;
        let ptr = block.ptr;
        self.blocks.insert(buffer, block);
        Ok(ptr)
    }

    // The pool gives it to later work of the same stream.
    fn release(&mut self, buffer: usize) {
        self.blocks.remove(&buffer);
    }

    fn output(&mut self, number: usize, _: DType, _: &[i64], _: &[i64], bytes: usize) -> Result<DevicePtr> {
        let block = self.pool.block(bytes, self.stream)?;
        let ptr = block.ptr;
        self.outputs.push((number, Arc::new(block)));
        Ok(ptr)
    }
}

impl PoolAllocator<'_> {
    /// The block that holds result `number`.
    pub fn block_of(&self, number: usize) -> Result<Arc<Block>> {
        match self.outputs.iter().find(|(n, _)| *n == number) {
            Some((_, block)) => Ok(block.clone()),
            None => bail!(Plan, "result {number} has no memory"),
        }
    }
}
