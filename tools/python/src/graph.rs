//! Compiled graphs.

use crate::dlpack::{DlDevice, Viewed, exchange};
use crate::host::TorchCalls;
use crate::memory::TorchMemory;
use crate::{raise, server};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use strata_runtime::artifact::Artifact;
use strata_runtime::client::protocol::{CompileOptions, Fallback, Numerics, Source, Target};
use strata_runtime::device::{Device, DevicePtr, Stream, TensorRef, cpu::CpuDevice};
use strata_runtime::device::{Libraries, usable_libraries};
use strata_runtime::events::emit;
use strata_runtime::exec::{Executable, Origin, OutputRef, RunOptions};
use strata_runtime::plan::Step;
use strata_runtime::{DType, Error};

const CPU: i32 = 1;
const CUDA: i32 = 2;

/// What `run` makes of one of its arguments.
enum Argument {
    /// A tensor, its dimensions in this order.
    Tensor(Option<Vec<usize>>),
    /// An integer that is a size.
    Size,
}

/// A graph on a device, ready to run.
#[pyclass(frozen)]
pub struct Compiled {
    exe: Executable,
    device: DlDevice,
    arguments: Vec<Argument>,
    timings: Vec<(String, u64)>,
    /// Kept between calls on the CPU, where fresh pages are dear.
    arena: Mutex<Option<(Py<PyAny>, usize)>>,
}

/// Devices by kind and number.
fn device_of(device: DlDevice, threads: usize) -> strata_runtime::Result<Arc<dyn Device>> {
    type Devices = BTreeMap<(u32, i32, i32), Arc<dyn Device>>;
    static DEVICES: OnceLock<Mutex<Devices>> = OnceLock::new();
    let mut devices = DEVICES.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
    // A forked child has none of the parent's threads.
    let key = (std::process::id(), device.kind, device.ordinal);
    if let Some(d) = devices.get(&key) {
        return Ok(d.clone());
    }
    let new: Arc<dyn Device> = match device.kind {
        CUDA => Arc::new(strata_runtime::device::cuda::CudaDevice::new(device.ordinal as u32)?),
        _ => Arc::new(CpuDevice::new(threads)?),
    };
    devices.insert(key, new.clone());
    Ok(new)
}

/// Compiles a serialised graph. `target` is `cpu` or a chip such as `sm_90a`; `arguments` has for each argument `None`, a list
/// (the order of its dimensions), or `"size"`.
#[pyfunction]
#[pyo3(signature = (json, target, ordinal, threads, arguments, options, server=None))]
#[allow(clippy::too_many_arguments)]
pub fn compile(
    py: Python<'_>,
    json: String,
    target: String,
    ordinal: i32,
    threads: usize,
    arguments: Vec<Bound<'_, PyAny>>,
    options: &Bound<'_, PyDict>,
    server: Option<PathBuf>,
) -> PyResult<Compiled> {
    let arguments = arguments
        .iter()
        .map(|a| {
            Ok(match a.extract::<String>() {
                Ok(s) if s == "size" => Argument::Size,
                _ => Argument::Tensor(a.extract()?),
            })
        })
        .collect::<PyResult<_>>()?;
    let device = DlDevice { kind: if target == "cpu" { CPU } else { CUDA }, ordinal };
    let mut options = compile_options(&target, options)?;
    let done = py.detach(|| {
        let device = device_of(device, threads)?;
        let libraries = usable_libraries(&*device);
        if libraries != Libraries::ALL {
            options.extra.insert("libraries".to_owned(), libraries.to_string());
        }
        let compiled = server::client(server).compile(Source::Fx(json), options)?;
        for mut event in compiled.events {
            // Lines are known, columns are not.
            if let Some(line) = event.location.strip_suffix(":0") {
                event.location = line.to_owned();
            }
            emit(event);
        }
        let artifact = Artifact::from_bytes(&compiled.artifact)?;
        Ok((Executable::new(artifact, device)?, compiled.timings))
    });
    let (exe, timings) = done.map_err(|e: Error| raise(&e))?;
    Ok(Compiled { exe, device, arguments, timings, arena: Mutex::new(None) })
}

fn compile_options(target: &str, given: &Bound<'_, PyDict>) -> PyResult<CompileOptions> {
    let mut options = CompileOptions {
        target: if target == "cpu" { Target::Host } else { Target::Cuda(target.to_owned()) },
        ..CompileOptions::default()
    };
    for (key, value) in given {
        let key: String = key.extract()?;
        let text = || value.extract::<String>();
        let bad = |known: &str| PyValueError::new_err(format!("option {key}: {value} is not one of {known}"));
        match key.as_str() {
            "numerics" => {
                options.numerics = match text()?.as_str() {
                    "default" => Numerics::Default,
                    "strict" => Numerics::Strict,
                    _ => return Err(bad("default, strict")),
                }
            }
            "fallback" => {
                options.fallback = match text()?.as_str() {
                    "allow" => Fallback::Allow,
                    "warn" => Fallback::Warn,
                    "error" => Fallback::Error,
                    _ => return Err(bad("allow, warn, error")),
                }
            }
            "dump_dir" => options.dump_dir = Some(text()?),
            "reproducer_dir" => options.reproducer_dir = Some(text()?),
            "source_name" => options.source_name = text()?,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "unknown option '{key}'; known: numerics, fallback, dump_dir"
                )));
            }
        }
    }
    Ok(options)
}

#[pymethods]
impl Compiled {
    /// Runs on PyTorch's memory and current stream. `arguments`: tensors, or integers for sizes.
    fn run<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyList>,
        callback: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let exchange = exchange()?;
        if arguments.len() != self.arguments.len() {
            let message = format!("{} arguments are expected, got {}", self.arguments.len(), arguments.len());
            return Err(PyValueError::new_err(message));
        }
        let mut views = Vec::with_capacity(self.arguments.len());
        for (how, object) in self.arguments.iter().zip(arguments) {
            views.push(match how {
                Argument::Size => Viewed {
                    ptr: DevicePtr::NULL,
                    dtype: DType::I1,
                    shape: vec![object.extract()?],
                    strides: vec![1],
                    device: self.device,
                },
                Argument::Tensor(order) => {
                    let mut v = exchange.view(&object)?;
                    if let Some(p) = order.as_ref().filter(|p| p.len() == v.shape.len()) {
                        v.shape = p.iter().map(|&d| v.shape[d]).collect();
                        v.strides = p.iter().map(|&d| v.strides[d]).collect();
                    }
                    if v.device != self.device && (v.device.kind, self.device.kind) != (CPU, CPU) {
                        let message =
                            format!("a tensor is on device {:?}, the graph on {:?}", v.device, self.device);
                        return Err(PyValueError::new_err(message));
                    }
                    v
                }
            });
        }
        let refs: Vec<TensorRef<'_>> = views.iter().map(Viewed::as_ref).collect();
        let stream = Stream(if self.device.kind == CUDA { exchange.stream(py, self.device)? } else { 0 });
        // Another thread that runs the same graph meanwhile finds none, and allocates.
        let mut arena = self.arena.lock().unwrap_or_else(|e| e.into_inner()).take();
        let mut memory =
            TorchMemory { exchange, device: self.device, outputs: BTreeMap::new(), arena: &mut arena };
        let mut host = TorchCalls { exchange, device: self.device, callback: &callback, raised: None };
        let result = py.detach(|| {
            let options = RunOptions { stream, host: Some(&mut host), ..RunOptions::default() };
            // SAFETY: the caller's list keeps the tensors, which PyTorch keeps on their device; work that is still queued when this
            // returns is ordered before what PyTorch does with the memory in the same stream.
            unsafe { self.exe.run_raw(&refs, &mut memory, options) }
        });
        let outputs = memory.outputs;
        if self.device.kind == CPU {
            // What was there is dropped after the lock is: freeing a tensor may let other threads have the interpreter, and one of
            // them may wait for this lock.
            std::mem::swap(&mut *self.arena.lock().unwrap_or_else(|e| e.into_inner()), &mut arena);
            drop(arena);
        }
        let results = match result {
            Ok(results) => results,
            Err(e) => return Err(host.raised.take().unwrap_or_else(|| raise(&e))),
        };
        let list = PyList::empty(py);
        for (number, r) in results.iter().enumerate() {
            list.append(self.result(py, number, r, &outputs, arguments, &views)?)?;
        }
        Ok(list)
    }

    /// Kernels, library calls, host calls and copies of one run.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut n = [0u64; 4];
        for step in &self.exe.plan().steps {
            let i = match step {
                Step::Launch { .. } => 0,
                Step::Product(_) | Step::Convolution(_) => 1,
                Step::HostCall(_) => 2,
                Step::Copy { .. } => 3,
            };
            n[i] += 1;
        }
        let out = PyDict::new(py);
        for (name, n) in ["kernels", "library_calls", "host_calls", "copies"].into_iter().zip(n) {
            out.set_item(name, n)?;
        }
        Ok(out)
    }

    /// The plan's text.
    fn plan(&self) -> String {
        self.exe.plan().to_string()
    }

    /// Nanoseconds of the compilation by phase.
    fn timings(&self) -> Vec<(String, u64)> {
        self.timings.clone()
    }
}

impl Compiled {
    /// The tensor of a result: its own memory, or a view of another's or of an argument's.
    fn result<'py>(
        &self,
        py: Python<'py>,
        number: usize,
        r: &OutputRef,
        outputs: &BTreeMap<usize, Py<PyAny>>,
        arguments: &Bound<'py, PyList>,
        views: &[Viewed],
    ) -> PyResult<Bound<'py, PyAny>> {
        let exchange = exchange()?;
        let base = match r.origin {
            Origin::Output(n) => match outputs.get(&n) {
                Some(t) => t.bind(py).clone(),
                None => return Err(PyValueError::new_err(format!("result {number} has no memory"))),
            },
            Origin::Input(n) => arguments.get_item(n)?,
            Origin::Constant => {
                let t = TensorRef { ptr: r.ptr, dtype: r.dtype, shape: &r.shape, strides: &r.strides };
                // SAFETY: the executable keeps its constants, and the view is copied at once.
                return unsafe { exchange.borrow(py, &t, self.device) }?.call_method0("clone");
            }
        };
        let whole = match r.origin {
            Origin::Input(n) => views[n].ptr,
            _ => exchange.view(&base)?.ptr,
        };
        let view = exchange.view(&base)?;
        if view.ptr == r.ptr && view.shape == r.shape && view.strides == r.strides && view.dtype == r.dtype {
            return Ok(base);
        }
        let elements = (r.ptr.0 as i64 - whole.0 as i64) / r.dtype.size() as i64;
        let first: i64 = base.call_method0("storage_offset")?.extract()?;
        base.call_method1("as_strided", (r.shape.clone(), r.strides.clone(), first + elements))
    }
}
