//! New tensors from PyTorch: by the C functions of its libraries (`aoti_torch_…`, found by name), or where a build of PyTorch lacks
//! them by `torch.empty_strided`.

use crate::dlpack::{CPU, DlDevice, exchange};
use crate::peek::Peek;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use strata_runtime::device::DevicePtr;

type Handle = *mut c_void;

#[derive(Clone, Copy)]
struct Functions {
    empty_strided: unsafe extern "C" fn(i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> i32,
    reinterpret: unsafe extern "C" fn(Handle, i64, *const i64, *const i64, i64, *mut Handle) -> i32,
    data_ptr: unsafe extern "C" fn(Handle, *mut *mut c_void) -> i32,
    delete: unsafe extern "C" fn(Handle) -> i32,
    /// A C++ function that takes a tensor by reference; a handle points to one.
    wrap: unsafe extern "C" fn(Handle) -> *mut ffi::PyObject,
}

/// PyTorch, as the package handed it over.
pub struct Torch {
    functions: Option<Functions>,
    library: *mut c_void,
    module: Py<PyAny>,
    tensor: Py<PyAny>,
    parameter: Py<PyAny>,
    peek: Option<Peek>,
}

// SAFETY: the library stays loaded, its functions may be called from any thread.
unsafe impl Send for Torch {}
// SAFETY: as above.
unsafe impl Sync for Torch {}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

/// Remembers the module `torch`, and looks its C functions up in `library` (libtorch_python).
#[pyfunction]
#[pyo3(signature = (module, library=None))]
pub fn use_torch(py: Python<'_>, module: &Bound<'_, PyAny>, library: Option<&str>) -> PyResult<bool> {
    let library = library.map_or(std::ptr::null_mut(), open);
    // SAFETY: the names are those of the functions with these types, in all versions of PyTorch that have them.
    let functions = (!library.is_null()).then(|| unsafe { functions(library) }).flatten();
    let peek = exchange().ok().filter(|_| !library.is_null());
    let peek = peek.and_then(|exchange| Peek::new(module, exchange, |name| symbol(library, name)));
    let torch = Torch {
        functions,
        library,
        peek,
        module: module.clone().unbind(),
        tensor: module.getattr("Tensor")?.unbind(),
        parameter: module.getattr("nn")?.getattr("Parameter")?.unbind(),
    };
    Ok(TORCH.get_or_init(py, || torch).functions.is_some())
}

/// PyTorch, once the package has handed it over.
pub fn torch(py: Python<'_>) -> PyResult<&Torch> {
    TORCH
        .get(py)
        .ok_or_else(|| PyRuntimeError::new_err("PyTorch is unknown; import strata, not strata_native"))
}

/// A library that the process has loaded already; null where it has not.
fn open(path: &str) -> *mut c_void {
    let Ok(name) = CString::new(Path::new(path).as_os_str().as_encoded_bytes()) else {
        return std::ptr::null_mut();
    };
    // SAFETY: with RTLD_NOLOAD nothing is run.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) }
}

fn symbol(library: *mut c_void, name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: an open library, a string that ends in a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr().cast::<c_char>()) };
    (!found.is_null()).then_some(found)
}

#[allow(clippy::missing_transmute_annotations, reason = "the fields say the types")]
unsafe fn functions(library: *mut c_void) -> Option<Functions> {
    let find = |name| symbol(library, name);
    // SAFETY: the caller's promise about names and types. Which form `THPVariable_Wrap` has depends on the version; all take the
    // address of a tensor and leave it alone, but for the one by value, which gets its address too and leaves an empty tensor.
    unsafe {
        use std::mem::transmute as function;
        Some(Functions {
            empty_strided: function::<*mut c_void, _>(find("aoti_torch_empty_strided")?),
            reinterpret: function::<*mut c_void, _>(find("aoti_torch__reinterpret_tensor")?),
            data_ptr: function::<*mut c_void, _>(find("aoti_torch_get_data_ptr")?),
            delete: function::<*mut c_void, _>(find("aoti_torch_delete_tensor_object")?),
            wrap: function::<*mut c_void, _>(
                find("_Z16THPVariable_WrapRKN2at10TensorBaseE")
                    .or_else(|| find("_Z16THPVariable_WrapN2at10TensorBaseE"))?,
            ),
        })
    }
}

/// An element type of PyTorch.
pub struct TorchType {
    /// Its number in the C functions.
    code: Option<i32>,
    object: Py<PyAny>,
}

impl TorchType {
    /// From a `torch.dtype`.
    pub fn new(dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let torch = torch(dtype.py())?;
        let text = dtype.str()?.to_string();
        let name = format!("aoti_torch_dtype_{}", text.strip_prefix("torch.").unwrap_or(&text));
        let code = torch.functions.and_then(|_| symbol(torch.library, &name)).map(|f| {
            // SAFETY: a function without arguments, by its name.
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> i32>(f)() }
        });
        Ok(Self { code, object: dtype.clone().unbind() })
    }
}

/// A new tensor.
pub enum Tensor {
    /// PyTorch's own handle, which is dropped with this.
    Handle(Owned),
    /// A Python object.
    Object(Py<PyAny>),
}

/// A handle with its functions.
pub struct Owned(Handle, Functions);

// SAFETY: PyTorch's tensors may be dropped on any thread.
unsafe impl Send for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: ours, and used by nobody later.
        unsafe { (self.1.delete)(self.0) };
    }
}

impl Torch {
    /// How to see plain tensors without DLPack, if at all.
    #[inline]
    pub fn peek(&self) -> Option<&Peek> {
        self.peek.as_ref()
    }

    /// Whether something is a tensor or parameter and not of a class derived from them.
    ///
    /// # Safety
    /// A live object.
    #[inline]
    pub unsafe fn is_plain(&self, object: *mut ffi::PyObject) -> bool {
        // SAFETY: the caller's promise.
        let kind = unsafe { ffi::Py_TYPE(object) }.cast();
        kind == self.tensor.as_ptr() || kind == self.parameter.as_ptr()
    }

    /// Fails where something is no tensor: PyTorch's C functions do not look.
    pub fn check(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        if object.is_instance(self.tensor.bind(object.py()))? {
            return Ok(());
        }
        Err(PyTypeError::new_err(format!("a tensor is expected, got {}", object.get_type())))
    }

    /// Uninitialised memory from PyTorch's allocator, for use in the current stream's order.
    /// Needs no interpreter, but where PyTorch's C functions are missing.
    pub fn empty(
        &self,
        dtype: &TorchType,
        shape: &[i64],
        strides: &[i64],
        device: DlDevice,
    ) -> PyResult<Tensor> {
        if let (Some(f), Some(code)) = (&self.functions, dtype.code) {
            let mut handle = std::ptr::null_mut();
            let (kind, ordinal) = device.torch();
            // SAFETY: lists of as many numbers as said.
            let status = unsafe {
                (f.empty_strided)(
                    shape.len() as i64,
                    shape.as_ptr(),
                    strides.as_ptr(),
                    code,
                    kind,
                    ordinal,
                    &mut handle,
                )
            };
            if status == 0 {
                return Ok(Tensor::Handle(Owned(handle, *f)));
            }
            // Python's function fails with the exception that users know.
        }
        Python::attach(|py| {
            let kwargs = PyDict::new(py);
            kwargs.set_item("dtype", &dtype.object)?;
            kwargs.set_item("device", device.name())?;
            let new = self.module.bind(py).call_method("empty_strided", (shape, strides), Some(&kwargs))?;
            Ok(Tensor::Object(new.unbind()))
        })
    }

    /// An attribute of the module `torch`.
    pub fn attribute<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.module.bind(py).getattr(name)
    }

    /// A copy on another device. Of a scalar the value is sent with the work that writes it: nothing waits for a copy.
    pub fn move_to<'py>(&self, t: &Bound<'py, PyAny>, device: DlDevice) -> PyResult<Bound<'py, PyAny>> {
        if device.kind == CPU
            || t.call_method0("dim")?.extract::<usize>()? > 0
            || t.getattr("is_cuda")?.extract()?
        {
            return t.call_method1("to", (device.name(),));
        }
        let kwargs = PyDict::new(t.py());
        kwargs.set_item("dtype", t.getattr("dtype")?)?;
        kwargs.set_item("device", device.name())?;
        let value = t.call_method0("item")?;
        self.module.bind(t.py()).call_method("full", (PyTuple::empty(t.py()), value), Some(&kwargs))
    }

    /// A copy with these strides.
    pub fn with_strides<'py>(&self, t: &Bound<'py, PyAny>, strides: &[i64]) -> PyResult<Bound<'py, PyAny>> {
        let kwargs = PyDict::new(t.py());
        for name in ["dtype", "device"] {
            kwargs.set_item(name, t.getattr(name)?)?;
        }
        // Of elements that are repeated one is kept.
        let shape: Vec<i64> = t.getattr("shape")?.extract()?;
        let mut one_of_each = t.call_method0("detach")?;
        for (d, _) in strides.iter().zip(&shape).enumerate().filter(|(_, (s, n))| **s == 0 && **n > 1) {
            one_of_each = one_of_each.call_method1("narrow", (d, 0, 1))?;
        }
        let args = (one_of_each.getattr("shape")?, strides);
        let new = self.module.bind(t.py()).call_method("empty_strided", args, Some(&kwargs))?;
        new.call_method1("copy_", (one_of_each,))?.call_method1("expand", (shape,))
    }

    /// A tensor with its elements' bits read as another type of the same width.
    pub fn typed<'py>(&self, t: Bound<'py, PyAny>, dtype: &TorchType) -> PyResult<Bound<'py, PyAny>> {
        if t.getattr("dtype")?.is(&dtype.object) { Ok(t) } else { t.call_method1("view", (&dtype.object,)) }
    }
}

impl Tensor {
    /// The address of element 0.
    pub fn ptr(&self) -> PyResult<DevicePtr> {
        match self {
            Self::Handle(h) => {
                let mut ptr = std::ptr::null_mut();
                // SAFETY: a live handle.
                match unsafe { (h.1.data_ptr)(h.0, &mut ptr) } {
                    0 => Ok(DevicePtr(ptr as u64)),
                    status => Err(failed("the address of a tensor", status)),
                }
            }
            Self::Object(o) => Python::attach(|py| Ok(exchange()?.view(o.bind(py))?.ptr())),
        }
    }

    /// As Python sees it.
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            // SAFETY: a live handle; a new reference comes back.
            Self::Handle(h) => unsafe { Bound::from_owned_ptr_or_err(py, (h.1.wrap)(h.0)) },
            Self::Object(o) => Ok(o.bind(py).clone()),
        }
    }

    /// A view of its memory, `offset` in elements from its start.
    pub fn view<'py>(
        &self,
        py: Python<'py>,
        shape: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Handle(h) => {
                let mut view = std::ptr::null_mut();
                let rank = shape.len() as i64;
                // SAFETY: a live handle, lists of as many numbers as said.
                let status = unsafe {
                    (h.1.reinterpret)(h.0, rank, shape.as_ptr(), strides.as_ptr(), offset, &mut view)
                };
                match status {
                    0 => Self::Handle(Owned(view, h.1)).object(py),
                    _ => Err(failed("a view of a tensor", status)),
                }
            }
            Self::Object(o) => o.bind(py).call_method1("as_strided", (shape, strides, offset)),
        }
    }
}

fn failed(what: &str, status: c_int) -> PyErr {
    PyRuntimeError::new_err(format!("PyTorch did not give {what} (status {status})"))
}
