//! Compiled graphs.

use crate::cache::{Cubins, HITS, cache};
use crate::call::{Callable, Timed};
use crate::dlpack::{CPU, CUDA, DlDevice};
use crate::fault::Fault;
use crate::spec::Spec;
use crate::{raise, server};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use strata_runtime::artifact::Artifact;
use strata_runtime::client::cached;
use strata_runtime::client::protocol::{CompileOptions, Fallback, Numerics, Source, Target};
use strata_runtime::device::{Device, cpu::CpuDevice};
use strata_runtime::device::{Libraries, usable_libraries};
use strata_runtime::error::{Error, ErrorKind};
use strata_runtime::events::emit;
use strata_runtime::exec::Executable;
use strata_runtime::plan::Step;

/// A graph on a device, ready to run: a callable that takes a list of arguments, empties it, and returns a list of results.
#[pyclass(frozen, dict, weakref)]
pub struct Compiled {
    callable: Callable,
    /// The graph as PyTorch runs it, and who is told why it has to.
    module: Py<PyAny>,
    on_failure: Py<PyAny>,
    /// Runs the graph in PyTorch where an index is out of range, for PyTorch's exception.
    outside: Py<PyAny>,
    failed: AtomicBool,
    timings: Vec<(String, u64)>,
    /// In the cache.
    key: String,
}

/// Devices by kind and number.
pub fn device_of(device: DlDevice, threads: usize) -> strata_runtime::Result<Arc<dyn Device>> {
    type Devices = BTreeMap<(u32, i32, i32), Arc<dyn Device>>;
    static DEVICES: OnceLock<Mutex<Devices>> = OnceLock::new();
    let mut devices = DEVICES.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
    // A forked child has none of the parent's threads.
    let key = (std::process::id(), device.kind, device.ordinal);
    if let Some(d) = devices.get(&key) {
        return Ok(d.clone());
    }
    let new: Arc<dyn Device> = match device.kind {
        CUDA => {
            let new = strata_runtime::device::cuda::CudaDevice::new(device.ordinal as u32)?;
            Arc::new(new.with_cache(Cubins(cache(None))))
        }
        _ => Arc::new(CpuDevice::new(threads)?),
    };
    devices.insert(key, new.clone());
    Ok(new)
}

/// Compiles a serialised graph (`graph` says how it is called) for `cpu` or a chip such as `sm_90a`. `module` is the graph as PyTorch
/// runs it; where a compiled graph fails, it takes over, and `on_failure(text, next step)` is called once. `outside(text, arguments)` runs
/// a call in which an index is out of range.
#[pyfunction]
#[pyo3(signature = (graph, target, ordinal, threads, options, module, fallbacks, on_failure, outside, server=None))]
#[allow(clippy::too_many_arguments)]
pub fn compile(
    py: Python<'_>,
    graph: &Bound<'_, PyAny>,
    target: String,
    ordinal: i32,
    threads: usize,
    options: &Bound<'_, PyDict>,
    module: Py<PyAny>,
    fallbacks: Py<PyAny>,
    on_failure: Py<PyAny>,
    outside: Py<PyAny>,
    server: Option<PathBuf>,
) -> PyResult<Py<Compiled>> {
    let spec = Spec::of(graph)?;
    let json: String = graph.getattr("text")?.extract()?;
    let device = DlDevice { kind: if target == "cpu" { CPU } else { CUDA }, ordinal };
    let folder: Option<String> = options.get_item("cache_dir")?.map(|f| f.extract()).transpose()?;
    let cache = cache(folder.as_deref());
    let mut options = compile_options(&target, options)?;
    let done = py.detach(|| {
        let device = device_of(device, threads)?;
        let libraries = usable_libraries(&*device);
        if libraries != Libraries::ALL {
            options.extra.insert("libraries".to_owned(), libraries.to_string());
        }
        let found = cached::compile(
            &cache,
            server.as_deref(),
            || server::client(server.clone()),
            Source::Fx(json),
            options,
        )?;
        if found.cached {
            HITS.fetch_add(1, Ordering::Relaxed);
        }
        let compiled = found.compiled;
        for mut event in compiled.events {
            // Lines are known, columns are not.
            if let Some(line) = event.location.strip_suffix(":0") {
                event.location = line.to_owned();
            }
            emit(event);
        }
        let artifact = Artifact::from_bytes(&compiled.artifact)?;
        let timings = if found.cached { vec![] } else { compiled.timings };
        Ok((Executable::new(artifact, device)?, timings, found.key))
    });
    let (exe, timings, key) = done.map_err(|e: Error| raise(&e))?;
    let callable = Callable::new(py, exe, device, spec, fallbacks)?;
    let failed = AtomicBool::new(false);
    let key = key.to_string();
    let compiled = Py::new(py, Compiled { callable, module, on_failure, outside, failed, timings, key })?;
    // On the object: PyTorch looks for it there, and wrappers copy it from there.
    compiled.setattr(py, "_boxed_call", true)?;
    Ok(compiled)
}

pub fn compile_options(target: &str, given: &Bound<'_, PyDict>) -> PyResult<CompileOptions> {
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
            "cache_dir" => {}
            "dump_dir" => options.dump_dir = Some(text()?),
            "reproducer_dir" => options.reproducer_dir = Some(text()?),
            "source_name" => options.source_name = text()?,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "unknown option '{key}'; known: numerics, fallback, dump_dir, cache_dir"
                )));
            }
        }
    }
    Ok(options)
}

#[pymethods]
impl Compiled {
    fn __call__<'py>(&self, arguments: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
        let result = self.run(arguments);
        arguments.del_slice(0, arguments.len())?;
        result
    }

    /// Nanoseconds that the host spends on the kernels or their launches alone, in one of `runs` runs.
    fn step_time(&self, arguments: &Bound<'_, PyList>, runs: u32) -> PyResult<f64> {
        let mut timed = Timed { runs, nanoseconds: 0.0 };
        match self.callable.call(arguments, Some(&mut timed)) {
            Ok(_) => Ok(timed.nanoseconds),
            Err(Fault::Runtime(e)) => Err(raise(&e)),
            Err(Fault::Raised(e)) => Err(e),
        }
    }

    /// Kernels, library calls, host calls and copies of one run.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut n = [0u64; 4];
        for step in &self.callable.exe.plan().steps {
            let i = match step {
                Step::Launch { .. } => 0,
                Step::Product(_) | Step::Convolution(_) => 1,
                // Without a reason to fall back it is a library that PyTorch calls.
                Step::HostCall(h) if h.reason.is_empty() => 1,
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
        self.callable.exe.plan().to_string()
    }

    /// Bytes that intermediate values take at most, for typical sizes.
    fn intermediate_bytes(&self) -> i64 {
        let plan = self.callable.exe.plan();
        plan.typical().and_then(|sizes| plan.intermediate_bytes(&sizes)).unwrap_or(0)
    }

    /// Its key in the cache.
    #[getter]
    fn key(&self) -> &str {
        &self.key
    }

    /// Nanoseconds of the compilation by phase; none where it was in the cache.
    fn timings(&self) -> Vec<(String, u64)> {
        self.timings.clone()
    }
}

impl Compiled {
    fn run<'py>(&self, arguments: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        if !self.failed.load(Ordering::Relaxed) {
            match self.callable.call(arguments, None) {
                Ok(results) => return Ok(results.into_any()),
                Err(Fault::Raised(e)) => return Err(e),
                Err(Fault::Runtime(e)) if e.kind() == ErrorKind::Index => {
                    return self.outside.bind(py).call1((e.to_string(), arguments.to_tuple()));
                }
                Err(Fault::Runtime(e)) => {
                    if !self.failed.swap(true, Ordering::Relaxed) {
                        self.on_failure.call1(py, (e.to_string(), e.next_step()))?;
                    }
                }
            }
        }
        self.module.bind(py).call1(arguments.to_tuple())
    }
}
