//! Artifacts in files: written with a model's weights, read and run on PyTorch's tensors.

use crate::call::Callable;
use crate::dlpack::{CPU, CUDA, DlDevice, exchange};
use crate::fault::Fault;
use crate::graph::{compile_options, device_of};
use crate::spec::{Argument, Kind, Made, Place, Source, Spec};
use crate::torch::{TorchType, torch};
use crate::{raise, server};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use std::path::PathBuf;
use strata_runtime::artifact::Artifact;
use strata_runtime::client::protocol;
use strata_runtime::exec::Executable;
use strata_runtime::plan::{Binding, DeviceKind, Step};
use strata_runtime::sym::{Expr, SymbolId};
use strata_runtime::{DType, Error};

/// Compiles a serialised graph and writes it to a file. `weights`: inputs by number with contiguous tensors on the host, which become
/// constants; `notes` go into the file's metadata. What cannot be exported comes back: ops without lowering, each with its reason
/// and place; then no file is written.
#[pyfunction]
#[pyo3(signature = (json, target, options, weights, notes, path, server=None))]
#[allow(clippy::too_many_arguments)]
pub fn export(
    py: Python<'_>,
    json: String,
    target: String,
    options: &Bound<'_, PyDict>,
    weights: Vec<(usize, Bound<'_, PyAny>)>,
    notes: BTreeMap<String, String>,
    path: PathBuf,
    server: Option<PathBuf>,
) -> PyResult<Vec<(String, String, String)>> {
    let mut values: Vec<(usize, &[u8])> = Vec::new();
    for (number, tensor) in &weights {
        torch(py)?.check(tensor)?;
        let v = exchange()?.view(tensor)?;
        if v.device().kind != CPU || !tensor.call_method0("is_contiguous")?.extract::<bool>()? {
            return Err(PyValueError::new_err(format!("weight {number} is not contiguous on the host")));
        }
        let bytes = v.shape().iter().product::<i64>() as usize * v.dtype()?.size();
        // SAFETY: a contiguous tensor, which `weights` keeps.
        values.push((
            *number,
            if bytes == 0 {
                &[]
            } else {
                unsafe { std::slice::from_raw_parts(v.ptr().0 as *const u8, bytes) }
            },
        ));
    }
    let mut options = compile_options(&target, options)?;
    if !target.starts_with("sm_") && target != "cpu" {
        options.target = protocol::Target::Cpu(target);
    }
    py.detach(|| {
        let compiled = server::client(server).compile(protocol::Source::Fx(json), options)?;
        let mut artifact = Artifact::from_bytes(&compiled.artifact)?;
        let calls: Vec<_> = (artifact.plan.steps.iter())
            .filter_map(|s| match s {
                Step::HostCall(h) => Some((h.name.clone(), h.reason.clone(), h.location.clone())),
                _ => None,
            })
            .collect();
        if calls.is_empty() {
            artifact = artifact.with_constants(&values)?;
            artifact.metadata.notes.extend(notes);
            artifact.write(&path)?;
        }
        Ok(calls)
    })
    .map_err(|e: Error| raise(&e))
}

/// An artifact that was read from a file.
#[pyclass(frozen)]
pub struct Loaded {
    callable: Callable,
}

/// Reads a file, for the CPU or for a GPU by its number.
#[pyfunction]
pub fn load(py: Python<'_>, path: PathBuf, ordinal: i32, threads: usize) -> PyResult<Loaded> {
    let loaded = py.detach(|| {
        let artifact = Artifact::read(&path)?;
        let kind = if artifact.plan.device == DeviceKind::Cuda { CUDA } else { CPU };
        let device = DlDevice { kind, ordinal: if kind == CUDA { ordinal } else { 0 } };
        Ok((Executable::new(artifact, device_of(device, threads)?)?, device))
    });
    let (exe, device) = loaded.map_err(|e: Error| raise(&e))?;
    let spec = spec_of(py, &exe)?;
    Ok(Loaded { callable: Callable::new(py, exe, device, spec, py.None())? })
}

#[pymethods]
impl Loaded {
    /// Runs on a list of tensors.
    fn run<'py>(&self, arguments: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let expected = self.callable.spec.arguments.len();
        if arguments.len() != expected {
            return Err(PyValueError::new_err(format!(
                "{expected} tensors are expected, got {}",
                arguments.len()
            )));
        }
        self.callable.call(arguments, None).map_err(|fault| match fault {
            Fault::Runtime(e) => raise(&e),
            Fault::Raised(e) => e,
        })
    }

    /// Names of the inputs.
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.callable.exe.plan().inputs.iter().map(|i| i.name.clone()).collect()
    }

    /// Names of the results.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.callable.exe.plan().outputs.iter().map(|o| o.name.clone()).collect()
    }

    /// What the exporter noted.
    #[getter]
    fn notes(&self) -> BTreeMap<String, String> {
        self.callable.exe.artifact().metadata.notes.clone()
    }

    /// Where it runs.
    #[getter]
    fn device(&self) -> String {
        self.callable.device.name()
    }

    /// The plan's text.
    fn plan(&self) -> String {
        self.callable.exe.plan().to_string()
    }
}

/// How a plan is called that says it all itself.
fn spec_of(py: Python<'_>, exe: &Executable) -> PyResult<Spec> {
    let plan = exe.plan();
    let bound = |s: SymbolId| matches!(plan.symbols[s.0 as usize].binding, Binding::InputDim { .. });
    let arguments = (plan.inputs.iter().enumerate())
        .map(|(i, input)| {
            let buffer = &plan.buffers[input.buffer.0 as usize];
            let strides = buffer.strides.clone().unwrap_or_else(|| row_major(&buffer.shape));
            // Where a stride cannot be worked out here, the tensor must come as it is expected.
            let known = strides.iter().all(|e| e.symbols().into_iter().all(bound));
            let strides = if known { strides } else { vec![] };
            Argument { source: Source::Given(i), kind: Kind::Tensor { order: None, strides, lazy: true } }
        })
        .collect();
    let results = (plan.outputs.iter().enumerate())
        .map(|(number, o)| {
            let name = torch_name(plan.buffers[o.buffer.0 as usize].dtype);
            let dtype = TorchType::new(&torch(py)?.attribute(py, name)?)?;
            Ok(Made::Output { number, order: None, expand: None, gaps: None, dtype, device: None })
        })
        .collect::<PyResult<_>>()?;
    let symbols = (plan.symbols.iter())
        .map(|s| match s.binding {
            Binding::InputDim { input, dim } => {
                Some(Place { argument: input as usize, dim: Some(dim as usize) })
            }
            // In no stride above.
            _ => None,
        })
        .collect();
    Ok(Spec { owns: false, arguments, results, symbols })
}

fn row_major(shape: &[Expr]) -> Vec<Expr> {
    let mut strides = vec![Expr::from(1); shape.len()];
    for d in (0..shape.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1].clone() * shape[d + 1].clone();
    }
    strides
}

fn torch_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "float64",
        DType::F32 => "float32",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::I64 => "int64",
        DType::I32 => "int32",
        DType::F8E4M3 => "float8_e4m3fn",
        DType::F8E5M2 => "float8_e5m2",
        DType::I16 => "int16",
        DType::I8 => "int8",
        DType::U8 => "uint8",
        DType::I1 => "bool",
    }
}
