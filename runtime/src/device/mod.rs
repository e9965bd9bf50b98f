//! Devices: what a plan's interpreter asks of the machine it runs on.
//!
//! A [`Device`] owns memory and runs kernels and library calls. Work is ordered within a [`Stream`]; only
//! [`Device::copy_to_host`] and [`Device::synchronize`] wait for it. The functions that take raw addresses are unsafe:
//! the caller answers for addresses, sizes and lifetimes, and the plan's verifier is what makes it safe in practice.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod libraries;

pub use libraries::{Libraries, usable_libraries};

use crate::artifact::Image;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::plan::{DeviceKind, Epilogue, Kernel};
use std::any::Any;
use std::fmt;

/// An address in a device's memory. On the CPU a host address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    /// The null address; stands for a tensor without elements.
    pub const NULL: Self = Self(0);

    /// The address `bytes` further (or before, if negative).
    #[must_use]
    pub const fn offset(self, bytes: i64) -> Self {
        Self(self.0.wrapping_add_signed(bytes))
    }

    /// The address as a host pointer; meaningful where [`Device::host_memory`] holds.
    pub const fn as_host<T>(self) -> *mut T {
        self.0 as usize as *mut T
    }
}

impl<T> From<*const T> for DevicePtr {
    fn from(p: *const T) -> Self {
        Self(p as usize as u64)
    }
}

impl<T> From<*mut T> for DevicePtr {
    fn from(p: *mut T) -> Self {
        Self(p as usize as u64)
    }
}

impl fmt::Display for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// An in-order queue of work: a `CUstream` handle on CUDA (0 is the legacy default stream); ignored on the CPU, whose work
/// is done when a call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream(pub u64);

/// A point in a stream's time; made by [`Device::record`].
pub type Timestamp = Box<dyn Any + Send + Sync>;

/// A place that plans run on.
pub trait Device: Send + Sync {
    /// Which plans it runs.
    fn kind(&self) -> DeviceKind;

    /// What people call it: `NVIDIA H200`, `x86-64, 16 threads`.
    fn name(&self) -> String;

    /// The libraries that were found, and for each missing one why. Loads them.
    fn libraries(&self) -> (Libraries, Vec<Error>) {
        (Libraries::ALL, vec![])
    }

    /// Whether its addresses are host addresses, so that constants of a mapped artifact are used in place.
    fn host_memory(&self) -> bool {
        false
    }

    /// `bytes` of uninitialised memory aligned to 256 bytes, for use in `stream`'s order. Never null, even for 0 bytes
    /// rounds up.
    ///
    /// # Errors
    /// Out of memory: the message has the size asked for and what is free.
    fn alloc(&self, bytes: usize, stream: Stream) -> Result<DevicePtr>;

    /// Gives memory back, once the work before this in `stream` is done.
    ///
    /// # Safety
    /// `ptr` came from [`Device::alloc`] of this device with the same `bytes`, and nothing later uses it.
    unsafe fn free(&self, ptr: DevicePtr, bytes: usize, stream: Stream);

    /// Copies from the host. `src` may be reused when this returns.
    ///
    /// # Safety
    /// `dst` has room for `src`.
    unsafe fn copy_from_host(&self, dst: DevicePtr, src: &[u8], stream: Stream) -> Result<()>;

    /// Copies to the host and waits for it, and so for everything before it in `stream`.
    ///
    /// # Safety
    /// `src` has `dst.len()` bytes.
    unsafe fn copy_to_host(&self, dst: &mut [u8], src: DevicePtr, stream: Stream) -> Result<()>;

    /// Copies within the device. The ranges do not overlap.
    ///
    /// # Safety
    /// Both have `bytes` bytes.
    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: Stream) -> Result<()>;

    /// Copies all elements of `src` to `dst`: same shape and dtype, any strides (also 0 and negative in `src`).
    ///
    /// # Safety
    /// Both tensors lie in this device's memory, and do not overlap.
    unsafe fn copy_strided(&self, dst: &TensorRef<'_>, src: &TensorRef<'_>, stream: Stream) -> Result<()>;

    /// Makes kernels of an image ready. [`Module::launch`] counts them as `kernels` does.
    ///
    /// # Errors
    /// An image of the wrong kind or for another target, a kernel that is not in it, an external symbol.
    fn load(&self, image: &Image, kernels: &[&Kernel]) -> Result<Box<dyn Module>>;

    /// Makes the kernels of several images ready, as [`Device::load`] does of one.
    fn load_several(&self, images: &[(&Image, &[&Kernel])]) -> Result<Vec<Box<dyn Module>>> {
        let load = |(i, (image, kernels)): (usize, &(&Image, &[&Kernel]))| {
            self.load(image, kernels).map_err(|e| e.at(format_args!("image {i}")))
        };
        images.iter().enumerate().map(load).collect()
    }

    /// Bytes of scratch memory that [`Device::product`] and [`Device::convolution`] use. Without any from the caller the device keeps
    /// its own.
    fn workspace_bytes(&self) -> usize {
        0
    }

    /// A batched matrix product through the device's library. `workspace` has [`Device::workspace_bytes`].
    ///
    /// # Safety
    /// The matrices lie in this device's memory; `out` overlaps nothing else.
    unsafe fn product(
        &self,
        product: &ResolvedProduct,
        workspace: Option<DevicePtr>,
        stream: Stream,
    ) -> Result<()>;

    /// A convolution through the device's library. `workspace` has [`Device::workspace_bytes`].
    ///
    /// # Safety
    /// The tensors lie in this device's memory; `out` overlaps nothing else.
    unsafe fn convolution(
        &self,
        convolution: &ResolvedConvolution<'_>,
        workspace: Option<DevicePtr>,
        stream: Stream,
    ) -> Result<()>;

    /// Waits until everything in `stream` is done. Errors of asynchronous work show here at the latest.
    fn synchronize(&self, stream: Stream) -> Result<()>;

    /// Marks this point of `stream`.
    fn record(&self, stream: Stream) -> Result<Timestamp>;

    /// Nanoseconds from one mark to a later one of the same stream; waits for the later.
    fn elapsed_ns(&self, from: &Timestamp, to: &Timestamp) -> Result<u64>;
}

/// Kernels of one image, ready to run; unloads when dropped.
pub trait Module: Send + Sync {
    /// Runs the kernel that was `kernels[kernel]` in [`Device::load`].
    ///
    /// # Safety
    /// The arguments fit the kernel, and the buffers lie in the device's memory.
    unsafe fn launch(&self, kernel: usize, launch: &Launch<'_>, stream: Stream) -> Result<()>;
}

/// The arguments of a launch. No dimension of the grid is 0 (the interpreter leaves such launches out).
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Addresses of element 0: operands, then results.
    pub buffers: &'a [DevicePtr],
    /// Values of the kernel's symbols.
    pub symbols: &'a [i64],
    /// Blocks (GPU); the product is the number of tasks (CPU).
    pub grid: [u64; 3],
}

/// A tensor in device memory, with numbers for sizes. Strides in elements; `ptr` is element 0.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Address of the element with all indices 0.
    pub ptr: DevicePtr,
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub shape: &'a [i64],
    /// Strides in elements, outermost first.
    pub strides: &'a [i64],
}

impl TensorRef<'_> {
    /// Number of elements.
    pub fn elements(&self) -> i64 {
        self.shape.iter().product()
    }

    /// Whether the elements lie row-major without gaps (dimensions of size 1 do not matter).
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&n, &s) in self.shape.iter().zip(self.strides).rev() {
            if n != 1 && s != expected {
                return false;
            }
            expected *= n.max(1);
        }
        true
    }
}

/// A [`Product`](crate::plan::Product) with addresses and numbers. No size is 0, except `k`: then the sum is 0.
#[derive(Clone, Debug)]
pub struct ResolvedProduct {
    /// Left factor, `[batch, m, k]`.
    pub lhs: ResolvedMatrix,
    /// Right factor, `[batch, k, n]`.
    pub rhs: ResolvedMatrix,
    /// Result, `[batch, m, n]`.
    pub out: ResolvedMatrix,
    /// `n` contiguous elements added to each row.
    pub bias: Option<(DevicePtr, DType)>,
    /// Applied to each element after the bias.
    pub epilogue: Epilogue,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// Number of products.
    pub batch: usize,
}

/// A matrix (or a stack of them) of a [`ResolvedProduct`]. Strides in elements.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedMatrix {
    /// Address of element 0.
    pub ptr: DevicePtr,
    /// Element type.
    pub dtype: DType,
    /// Distance between matrices; 0 repeats one.
    pub batch_stride: i64,
    /// Distance between rows.
    pub row_stride: i64,
    /// Distance between columns.
    pub col_stride: i64,
}

/// A [`Convolution`](crate::plan::Convolution) with addresses and numbers. `out` has elements; the input may have none.
#[derive(Clone, Debug)]
pub struct ResolvedConvolution<'a> {
    /// `[n, c, spatial…]`.
    pub input: TensorRef<'a>,
    /// `[o, c / groups, spatial…]`.
    pub weight: TensorRef<'a>,
    /// `[n, o, spatial…]`.
    pub out: TensorRef<'a>,
    /// Stride per spatial dimension.
    pub stride: &'a [i64],
    /// Zeros before and after, per spatial dimension.
    pub padding: &'a [(i64, i64)],
    /// Distance between weight elements, per spatial dimension.
    pub dilation: &'a [i64],
    /// Groups.
    pub groups: i64,
}
