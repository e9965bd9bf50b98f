//! The fast way to see a plain tensor: PyTorch's C functions (`aoti_torch_get_…`) on the `at::Tensor` within its Python object. DLPack takes
//! and gives up a reference for each tensor that it shows, which is half of what a call of many inputs costs.
//!
//! Where the `at::Tensor` lies in the object is found out by comparing with a handle to the same tensor; where it is not found, or a
//! function is missing, DLPack does it.

use crate::dlpack::{Exchange, Viewed};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_void;
use strata_runtime::device::DevicePtr;

type Handle = *mut c_void;
type Get<T> = unsafe extern "C" fn(Handle, *mut T) -> i32;

/// Where to look in an object, and the functions that tell what is there.
#[derive(Clone, Debug)]
pub struct Peek {
    offset: usize,
    data_ptr: Get<*mut c_void>,
    dim: Get<i64>,
    sizes: Get<*mut i64>,
    strides: Get<*mut i64>,
    dtype: Get<i32>,
    device_type: Get<i32>,
    device_index: Get<i32>,
    /// DLPack's code and bits of an element type by PyTorch's number.
    types: Vec<Option<i64>>,
}

/// Most numbers of element types that are looked at.
const TYPES: usize = 64;

impl Peek {
    /// Finds all of it; `find` looks a function of PyTorch up.
    #[allow(clippy::missing_transmute_annotations, reason = "the fields say the types")]
    pub fn new(
        torch: &Bound<'_, PyAny>,
        exchange: Exchange,
        find: impl Fn(&str) -> Option<*mut c_void>,
    ) -> Option<Self> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: a function of PyTorch's C interface, by its name.
                unsafe { std::mem::transmute::<*mut c_void, _>(find($name)?) }
            };
        }
        let mut peek = Self {
            offset: 0,
            data_ptr: function!("aoti_torch_get_data_ptr"),
            dim: function!("aoti_torch_get_dim"),
            sizes: function!("aoti_torch_get_sizes"),
            strides: function!("aoti_torch_get_strides"),
            dtype: function!("aoti_torch_get_dtype"),
            device_type: function!("aoti_torch_get_device_type"),
            device_index: function!("aoti_torch_get_device_index"),
            types: vec![None; TYPES],
        };
        let delete: unsafe extern "C" fn(Handle) -> i32 = function!("aoti_torch_delete_tensor_object");
        let one = torch.call_method1("empty", (1,)).ok()?;
        let capsule = torch
            .getattr("_C")
            .and_then(|c| c.getattr("_aoti"))
            .and_then(|a| a.call_method1("unsafe_alloc_void_ptr_from_tensor", (&one,)))
            .ok()?;
        let size: usize = one.get_type().getattr("__basicsize__").and_then(|n| n.extract()).ok()?;
        // SAFETY: a capsule without a name, which holds a handle: a pointer to a tensor of C++, which is one pointer.
        unsafe {
            let handle = ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null());
            if handle.is_null() {
                PyErr::take(torch.py());
                return None;
            }
            let wanted = *handle.cast::<usize>();
            delete(handle);
            let words = one.as_ptr().cast::<usize>();
            let first = size_of::<ffi::PyObject>() / size_of::<usize>();
            let mut found = (first..size / size_of::<usize>()).filter(|&i| *words.add(i) == wanted);
            peek.offset = found.next()? * size_of::<usize>();
            if found.next().is_some() {
                return None;
            }
        }
        for name in NAMES {
            let Ok(t) = torch
                .getattr(name)
                .and_then(|dtype| torch.call_method1("empty", (1,))?.call_method1("to", (dtype,)))
            else {
                continue;
            };
            let (Ok(viewed), mut number) = (exchange.view(&t), -1) else { continue };
            // SAFETY: as for `see`.
            unsafe { (peek.dtype)(t.as_ptr().cast::<u8>().add(peek.offset).cast(), &mut number) };
            *peek.types.get_mut(usize::try_from(number).ok()?)? = Some(viewed.tag & 0xffff);
        }
        // SAFETY: a plain tensor.
        let same = unsafe { peek.see(one.as_ptr()) }?;
        let other = exchange.view(&one).ok()?;
        (same.ptr() == other.ptr() && same.tag == other.tag && same.shape() == other.shape()).then_some(peek)
    }

    /// Address, element type, sizes and strides; nothing where it has none or its type is unknown here.
    ///
    /// # Safety
    /// An object of PyTorch's tensor type or of a type derived from it.
    #[inline]
    pub unsafe fn see(&self, tensor: *mut ffi::PyObject) -> Option<Viewed> {
        let (mut ptr, mut rank, mut shape, mut strides) =
            (std::ptr::null_mut(), 0, std::ptr::null_mut(), std::ptr::null_mut());
        let (mut dtype, mut kind, mut ordinal) = (0, 0, 0);
        // SAFETY: the object holds a tensor there; the functions only read it.
        let failed = unsafe {
            let handle: Handle = tensor.cast::<u8>().add(self.offset).cast();
            (self.dtype)(handle, &mut dtype)
                | (self.device_type)(handle, &mut kind)
                | (self.device_index)(handle, &mut ordinal)
                | (self.dim)(handle, &mut rank)
                | (self.data_ptr)(handle, &mut ptr)
                | (self.sizes)(handle, &mut shape)
                | (self.strides)(handle, &mut strides)
        };
        let types = self.types.get(usize::try_from(dtype).ok()?).copied().flatten()?;
        // PyTorch counts the CPU as 0 and CUDA as 1, DLPack as 1 and 2; the CPU has no number, or -1.
        if failed != 0 || !(0..=1).contains(&kind) {
            return None;
        }
        let device = i64::from(kind + 1) << 16 | i64::from(ordinal.max(0)) << 24;
        // SAFETY: the lists belong to the tensor.
        Some(unsafe { Viewed::new(DevicePtr(ptr as u64), types | device, rank as usize, shape, strides) })
    }
}

/// Element types that may come.
const NAMES: [&str; 17] = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
];
