//! PyTorch's tensors by the table of functions that it offers in `torch.Tensor.__dlpack_c_exchange_api__` (DLPack 1.2).

use crate::torch::Torch;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;
use strata_runtime::DType;
use strata_runtime::device::{DevicePtr, TensorRef};

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

/// A kind of device (1: CPU, 2: CUDA) and its number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDevice {
    pub kind: i32,
    pub ordinal: i32,
}

/// The host's memory.
pub const CPU: i32 = 1;
/// A GPU of NVIDIA.
pub const CUDA: i32 = 2;

impl DlDevice {
    /// Kind and number as PyTorch counts.
    pub fn torch(self) -> (i32, i32) {
        if self.kind == CUDA { (1, self.ordinal) } else { (0, -1) }
    }

    /// As PyTorch writes it.
    pub fn name(self) -> String {
        if self.kind == CUDA { format!("cuda:{}", self.ordinal) } else { "cpu".to_owned() }
    }

    /// Whether tensors there are at hand for work here.
    pub fn holds(self, other: Self) -> bool {
        self == other || (self.kind, other.kind) == (CPU, CPU)
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    version: Version,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: DlTensor,
}

#[repr(C)]
struct Table {
    version: Version,
    previous: *mut Table,
    allocate: *const c_void,
    from_py: *const c_void,
    to_py: Option<unsafe extern "C" fn(*mut Managed, *mut *mut ffi::PyObject) -> c_int>,
    view: Option<unsafe extern "C" fn(*mut ffi::PyObject, *mut DlTensor) -> c_int>,
    stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

/// The functions that are used here, all present.
#[derive(Clone, Copy)]
pub struct Exchange {
    to_py: unsafe extern "C" fn(*mut Managed, *mut *mut ffi::PyObject) -> c_int,
    view: unsafe extern "C" fn(*mut ffi::PyObject, *mut DlTensor) -> c_int,
    stream: unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int,
}

static EXCHANGE: OnceLock<Exchange> = OnceLock::new();

/// Takes the table from the capsule `torch.Tensor.__dlpack_c_exchange_api__`.
#[pyfunction]
pub fn use_exchange_table(capsule: &Bound<'_, PyAny>) -> PyResult<()> {
    const NAME: &CStr = c"dlpack_exchange_api";
    // SAFETY: the name is checked by Python; the table lives as long as the process, as DLPack demands.
    let exchange = unsafe {
        let mut table = ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr()) as *const Table;
        if table.is_null() {
            return Err(PyErr::fetch(capsule.py()));
        }
        while (*table).version.major > 1 {
            table = (*table).previous;
            if table.is_null() {
                return Err(PyRuntimeError::new_err("PyTorch's DLPack table has no version 1"));
            }
        }
        let t = &*table;
        match (t.to_py, t.view, t.stream) {
            (Some(to_py), Some(view), Some(stream)) => Exchange { to_py, view, stream },
            _ => return Err(PyRuntimeError::new_err("PyTorch's DLPack table lacks functions")),
        }
    };
    EXCHANGE.get_or_init(|| exchange);
    Ok(())
}

/// The table, once the package has handed it over.
pub fn exchange() -> PyResult<Exchange> {
    EXCHANGE
        .get()
        .copied()
        .ok_or_else(|| PyRuntimeError::new_err("no DLPack table; import strata, not strata_native"))
}

/// A tensor that PyTorch owns: valid while the tensor is alive and the interpreter is held.
#[derive(Clone, Copy)]
pub struct Viewed {
    ptr: DevicePtr,
    /// The element type and the device in one number, to be compared.
    pub tag: i64,
    rank: usize,
    shape: *const i64,
    strides: *const i64,
}

impl Viewed {
    /// From its parts; `tag` is DLPack's code of the element type, its bits, and the kind and number of the device.
    ///
    /// # Safety
    /// Lists of `rank` numbers that live as long as the tensor.
    pub unsafe fn new(ptr: DevicePtr, tag: i64, rank: usize, shape: *const i64, strides: *const i64) -> Self {
        Self { ptr, tag, rank, shape, strides }
    }

    /// The address of element 0.
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// Sizes.
    pub fn shape(&self) -> &[i64] {
        // SAFETY: as the type says; lists of `rank` numbers.
        if self.rank == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.shape, self.rank) } }
    }

    /// Strides in elements.
    pub fn strides(&self) -> &[i64] {
        // SAFETY: as above.
        if self.rank == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.strides, self.rank) } }
    }

    /// Where it is.
    pub fn device(&self) -> DlDevice {
        DlDevice { kind: (self.tag >> 16 & 0xff) as i32, ordinal: (self.tag >> 24) as i32 }
    }

    /// Its element type.
    pub fn dtype(&self) -> PyResult<DType> {
        dtype_of(DlType { code: self.tag as u8, bits: (self.tag >> 8) as u8, lanes: 1 })
    }
}

impl Exchange {
    /// Address, element type, sizes and strides of a tensor. The callee does not look whether it is one.
    pub fn view(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Viewed> {
        // SAFETY: a live object.
        unsafe { self.viewed(tensor.as_ptr()) }.ok_or_else(|| {
            PyErr::take(tensor.py())
                .unwrap_or_else(|| PyRuntimeError::new_err("PyTorch gave a tensor without strides"))
        })
    }

    /// The same of an item of a list; nothing where it is no plain tensor or fails.
    #[inline]
    pub fn view_item(&self, torch: &Torch, list: &Bound<'_, PyList>, i: usize) -> Option<Viewed> {
        // SAFETY: the list keeps the item alive.
        let found = unsafe {
            let item = ffi::PyList_GetItem(list.as_ptr(), i as isize);
            match torch.peek() {
                _ if item.is_null() || !torch.is_plain(item) => None,
                Some(peek) => peek.see(item),
                None => self.viewed(item),
            }
        };
        if found.is_none() {
            PyErr::take(list.py());
        }
        found
    }

    #[inline]
    unsafe fn viewed(&self, tensor: *mut ffi::PyObject) -> Option<Viewed> {
        let mut t = std::mem::MaybeUninit::<DlTensor>::zeroed();
        // SAFETY: the callee fills in the tensor.
        let t = unsafe {
            if (self.view)(tensor, t.as_mut_ptr()) != 0 {
                return None;
            }
            t.assume_init()
        };
        if t.strides.is_null() && t.ndim > 0 {
            return None;
        }
        let device = i64::from(t.device.kind) << 16 | i64::from(t.device.ordinal) << 24;
        Some(Viewed {
            ptr: DevicePtr(t.data as u64 + t.byte_offset),
            tag: i64::from(t.dtype.code) | i64::from(t.dtype.bits) << 8 | device,
            rank: t.ndim as usize,
            shape: t.shape,
            strides: t.strides,
        })
    }

    /// PyTorch's current stream.
    pub fn stream(&self, py: Python<'_>, device: DlDevice) -> PyResult<u64> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the out pointer is valid.
        if unsafe { (self.stream)(device.kind, device.ordinal, &mut stream) } != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(stream as u64)
    }

    /// A tensor over memory that somebody else keeps.
    ///
    /// # Safety
    /// The memory outlives every use of the tensor.
    pub unsafe fn borrow<'py>(
        &self,
        py: Python<'py>,
        t: &TensorRef<'_>,
        device: DlDevice,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut sizes = Box::new(t.shape.iter().chain(t.strides).copied().collect::<Vec<i64>>());
        let shape = sizes.as_mut_ptr();
        let managed = Box::new(Managed {
            version: Version { major: 1, minor: 0 },
            manager: Box::into_raw(sizes).cast(),
            deleter: Some(release),
            flags: 0,
            tensor: DlTensor {
                data: t.ptr.as_host(),
                device,
                ndim: t.shape.len() as i32,
                dtype: type_of(t.dtype),
                shape,
                // SAFETY: the list holds both, one after the other.
                strides: unsafe { shape.add(t.shape.len()) },
                byte_offset: 0,
            },
        });
        // SAFETY: a well-formed managed tensor, which the callee takes over.
        unsafe { self.wrap_managed(py, Box::into_raw(managed)) }
    }

    unsafe fn wrap_managed<'py>(
        &self,
        py: Python<'py>,
        managed: *mut Managed,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut object = std::ptr::null_mut();
        // SAFETY: the callee takes the tensor over, also where it fails; a new reference comes back.
        unsafe {
            if (self.to_py)(managed, &mut object) != 0 {
                return Err(PyErr::fetch(py));
            }
            Bound::from_owned_ptr_or_err(py, object)
        }
    }
}

unsafe extern "C" fn release(managed: *mut Managed) {
    // SAFETY: both were boxes, see `borrow`; called once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.manager.cast::<Vec<i64>>()));
    }
}

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;
const FLOAT8_E4M3FN: u8 = 10;
const FLOAT8_E5M2: u8 = 12;

/// The element type; for one that Strata lacks, one of the same width that holds its bits, as the importer has it.
fn dtype_of(t: DlType) -> PyResult<DType> {
    Ok(match (t.code, t.bits) {
        (FLOAT, 64) => DType::F64,
        (FLOAT, 32) => DType::F32,
        (FLOAT, 16) => DType::F16,
        (BFLOAT, 16) => DType::BF16,
        (INT | UINT, 64) | (COMPLEX, 64) => DType::I64,
        (INT | UINT, 32) | (COMPLEX, 32) => DType::I32,
        (INT | UINT, 16) => DType::I16,
        (BOOL, 8) => DType::I1,
        (UINT, 8) => DType::U8,
        (FLOAT8_E4M3FN, 8) => DType::F8E4M3,
        (FLOAT8_E5M2, 8) => DType::F8E5M2,
        (INT, 8) | (7..=14, 8) => DType::I8,
        (code, bits) => {
            return Err(PyRuntimeError::new_err(format!(
                "a tensor with DLPack type {code} of {bits} bits has no storage here"
            )));
        }
    })
}

fn type_of(d: DType) -> DlType {
    let code = match d {
        DType::F64 | DType::F32 | DType::F16 => FLOAT,
        DType::BF16 => BFLOAT,
        DType::F8E4M3 => FLOAT8_E4M3FN,
        DType::F8E5M2 => FLOAT8_E5M2,
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => INT,
        DType::U8 => UINT,
        DType::I1 => BOOL,
    };
    DlType { code, bits: 8 * d.size() as u8, lanes: 1 }
}
