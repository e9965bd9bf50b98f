//! Calls of compiled graphs: one function, without Python for any tensor that comes as it was promised.

use crate::dlpack::{CPU, CUDA, DlDevice, exchange};
use crate::fault::Fault;
use crate::host::TorchCalls;
use crate::layouts::{Known, Ready, Seen, Sizes, View, value};
use crate::memory::TorchMemory;
use crate::raise;
use crate::spec::{Kind, Made, Source, Spec};
use crate::torch::{Tensor, Torch, TorchType, torch};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use strata_runtime::device::{DevicePtr, Stream, TensorRef};
use strata_runtime::exec::{Executable, Origin, RunOptions};

/// Runs of compiled graphs since the last reset.
pub static CALLS: AtomicU64 = AtomicU64::new(0);

/// A graph with all that its calls need.
pub struct Callable {
    pub exe: Executable,
    pub device: DlDevice,
    pub spec: Spec,
    /// Runs ops that have no lowering.
    pub fallbacks: Py<PyAny>,
    bytes: TorchType,
    known: Known,
    /// Kept between calls on the CPU, where fresh pages are dear.
    arena: Mutex<Option<(Tensor, usize)>>,
}

/// The steps of a call, repeated.
pub struct Timed {
    /// How often.
    pub runs: u32,
    /// Of the host, for one time.
    pub nanoseconds: f64,
}

/// Arguments that had to be copied: their number, and the copy.
type Copies<'py> = Vec<(usize, Bound<'py, PyAny>)>;

impl Callable {
    pub fn new(
        py: Python<'_>,
        exe: Executable,
        device: DlDevice,
        spec: Spec,
        fallbacks: Py<PyAny>,
    ) -> PyResult<Self> {
        let bytes = TorchType::new(&torch(py)?.attribute(py, "uint8")?)?;
        let (known, arena) = (Known::default(), Mutex::default());
        Ok(Self { exe, device, spec, fallbacks, bytes, known, arena })
    }

    /// Runs on PyTorch's memory and current stream; `timed` repeats the plan's steps and says how long they take.
    pub fn call<'py>(
        &self,
        given: &Bound<'py, PyList>,
        timed: Option<&mut Timed>,
    ) -> Result<Bound<'py, PyList>, Fault> {
        let py = given.py();
        let (exchange, torch) = (exchange()?, torch(py)?);
        let mut copies = Copies::new();
        let mut seen = Vec::with_capacity(self.spec.arguments.len());
        for (number, argument) in self.spec.arguments.iter().enumerate() {
            if let (Source::Given(i), Kind::Tensor { lazy: false, .. }) = (&argument.source, &argument.kind)
                && let Some(viewed) = exchange.view_item(torch, given, *i)
                && self.device.holds(viewed.device())
            {
                seen.push(Seen::Tensor(viewed));
                continue;
            }
            seen.push(self.see(torch, given, number, &mut copies)?);
        }
        let sizes = match self.known.find(&seen) {
            Some(sizes) => sizes,
            None => self.new_sizes(torch, given, &mut seen, &mut copies)?,
        };
        let stream = Stream(if self.device.kind == CUDA { exchange.stream(py, self.device)? } else { 0 });
        let inputs: Vec<DevicePtr> = seen.iter().map(Seen::ptr).collect();
        // Another thread that runs the same graph meanwhile finds none, and allocates.
        let mut arena = self.arena.lock().unwrap_or_else(|e| e.into_inner()).take();
        let mut memory = TorchMemory {
            torch,
            device: self.device,
            bytes: &self.bytes,
            spec: &self.spec,
            sizes: &sizes,
            outputs: (0..self.exe.plan().outputs.len()).map(|_| None).collect(),
            arena: &mut arena,
            scratch: Vec::new(),
            blocks: BTreeMap::new(),
            given: (self.spec.owns && timed.is_none()).then(|| given.clone().unbind()),
            gave_up: false,
            raised: None,
        };
        // SAFETY: the caller's list keeps the tensors, which PyTorch keeps on their device; work that is still queued when this
        // returns is ordered before what PyTorch does with the memory in the same stream.
        let placed = unsafe { self.exe.place(&sizes.layout, &inputs, &mut memory, stream) };
        let mut placed = placed.map_err(|e| memory.raised.take().map_or(Fault::Runtime(e), Fault::Raised))?;
        let mut host = TorchCalls { exchange, device: self.device, callback: &self.fallbacks, raised: None };
        let done = py.detach(|| {
            let mut run = || {
                let options = RunOptions { stream, host: Some(&mut host), ..RunOptions::default() };
                // SAFETY: as above.
                unsafe { self.exe.execute(&sizes.layout, &mut placed, &mut memory, options) }
            };
            match timed {
                None => run(),
                Some(timed) => {
                    let start = Instant::now();
                    let done = (0..timed.runs).try_for_each(|_| run());
                    timed.nanoseconds = start.elapsed().as_nanos() as f64 / timed.runs.max(1) as f64;
                    done
                }
            }
        });
        let TorchMemory { outputs, raised, gave_up, .. } = memory;
        if self.device.kind == CPU {
            // What was there is dropped after the lock is: freeing a tensor may let other threads have the interpreter, and one of
            // them may wait for this lock.
            std::mem::swap(&mut *self.arena.lock().unwrap_or_else(|e| e.into_inner()), &mut arena);
        }
        drop(arena);
        done.map_err(|e| match host.raised.take().or(raised) {
            Some(raised) => Fault::Raised(raised),
            // PyTorch cannot run the graph instead: what it would need is gone.
            None if gave_up => Fault::Raised(raise(&e)),
            None => Fault::Runtime(e),
        })?;
        CALLS.fetch_add(1, Ordering::Relaxed);
        Ok(self.results(torch, given, &sizes, &outputs, &copies)?)
    }

    /// An argument as it came, or its copy where a copy is needed.
    fn object<'a, 'py>(
        &'a self,
        given: &'a Bound<'py, PyList>,
        number: usize,
        copies: &'a Copies<'py>,
    ) -> PyResult<Cow<'a, Bound<'py, PyAny>>> {
        if let Some((_, copy)) = copies.iter().find(|(n, _)| *n == number) {
            return Ok(Cow::Borrowed(copy));
        }
        match &self.spec.arguments[number].source {
            Source::Given(i) => Ok(Cow::Owned(given.get_item(*i)?)),
            Source::Held(constant) => Ok(Cow::Borrowed(constant.bind(given.py()))),
        }
    }

    /// An argument of any kind, from anywhere.
    fn see<'py>(
        &self,
        torch: &Torch,
        given: &Bound<'py, PyList>,
        number: usize,
        copies: &mut Copies<'py>,
    ) -> PyResult<Seen> {
        let object = self.object(given, number, &Copies::new())?.into_owned();
        let Kind::Tensor { lazy, .. } = &self.spec.arguments[number].kind else {
            return Ok(Seen::Size(object.extract()?));
        };
        torch.check(&object)?;
        let (mut object, mut copied) = (object, false);
        if *lazy {
            object = object.call_method0("resolve_conj")?.call_method0("resolve_neg")?;
            copied = true;
        }
        let mut viewed = exchange()?.view(&object)?;
        if !self.device.holds(viewed.device()) {
            object = torch.move_to(&object, self.device)?;
            copied = true;
            viewed = exchange()?.view(&object)?;
        }
        if copied {
            copies.push((number, object));
        }
        Ok(Seen::Tensor(viewed))
    }

    fn symbols(&self, given: &Bound<'_, PyList>) -> PyResult<Vec<i64>> {
        let value = |place: &Option<crate::spec::Place>| {
            let Some(place) = place else { return Ok(0) };
            let object = given.get_item(place.argument)?;
            match place.dim {
                None => object.extract(),
                Some(d) => object.getattr("shape")?.get_item(d)?.extract(),
            }
        };
        self.spec.symbols.iter().map(value).collect()
    }

    /// Sizes that are new, or tensors that lie otherwise in memory than when the graph was compiled: these are copied.
    fn new_sizes<'py>(
        &self,
        torch: &Torch,
        given: &Bound<'py, PyList>,
        seen: &mut [Seen],
        copies: &mut Copies<'py>,
    ) -> Result<Arc<Sizes>, Fault> {
        let symbols = self.symbols(given)?;
        let mut copied = false;
        for (number, argument) in self.spec.arguments.iter().enumerate() {
            let (Kind::Tensor { strides, .. }, Seen::Tensor(v)) = (&argument.kind, seen[number]) else {
                continue;
            };
            let strides = strides.iter().map(|e| value(e, &symbols)).collect::<PyResult<Vec<i64>>>()?;
            let fits = strides.len() != v.shape().len()
                || v.shape().contains(&0)
                || strides.iter().zip(v.strides()).zip(v.shape()).all(|((a, b), n)| a == b || *n == 1);
            if fits || strides.contains(&0) {
                continue;
            }
            let object = self.object(given, number, copies)?.into_owned();
            let copy = torch.with_strides(&object, &strides)?;
            seen[number] = Seen::Tensor(exchange()?.view(&copy)?);
            copies.retain(|(n, _)| *n != number);
            copies.push((number, copy));
            copied = true;
        }
        if let Some(sizes) = if copied { self.known.find(seen) } else { None } {
            return Ok(sizes);
        }
        let sizes = Arc::new(Sizes::new(&self.exe, &self.spec, seen, &symbols)?);
        self.known.add(sizes.clone());
        Ok(sizes)
    }

    fn results<'py>(
        &self,
        torch: &Torch,
        given: &Bound<'py, PyList>,
        sizes: &Sizes,
        outputs: &[Option<Tensor>],
        copies: &Copies<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = given.py();
        let mut own: Vec<Option<Bound<'py, PyAny>>> = vec![None; outputs.len()];
        let mut list = Vec::with_capacity(sizes.results.len());
        for (ready, made) in sizes.results.iter().zip(&self.spec.results) {
            list.push(match (ready, made) {
                (Ready::AsSaid, Made::Constant(c)) => c.bind(py).clone(),
                (Ready::AsSaid, Made::Given(i)) => given.get_item(*i)?,
                (Ready::Size(n), _) => n.into_pyobject(py)?.into_any(),
                (Ready::Alias(i, shape, strides, offset), _) => {
                    // One that lay otherwise than was promised has been copied to lie so.
                    let number = self.spec.arguments.iter().position(|a| a.source.is(*i));
                    let base = match number {
                        Some(number) => self.object(given, number, copies)?.into_owned(),
                        None => given.get_item(*i)?,
                    };
                    part_of(&base, shape, strides, *offset)?
                }
                (Ready::Spread(dense, strides), Made::Output { dtype, device, .. }) => {
                    let dense = self.tensor(torch, given, dense, dtype, outputs, &mut own, copies)?;
                    moved(torch.with_strides(&dense, strides)?, device.as_ref())?
                }
                (ready, Made::Output { dtype, device, .. }) => {
                    let t = self.tensor(torch, given, ready, dtype, outputs, &mut own, copies)?;
                    moved(t, device.as_ref())?
                }
                _ => return Err(PyRuntimeError::new_err("a result and its sizes do not fit")),
            });
        }
        PyList::new(py, list)
    }

    /// A result that is a tensor. `own`: those made before.
    #[allow(clippy::too_many_arguments)]
    fn tensor<'py>(
        &self,
        torch: &Torch,
        given: &Bound<'py, PyList>,
        ready: &Ready,
        dtype: &TorchType,
        outputs: &[Option<Tensor>],
        own: &mut [Option<Bound<'py, PyAny>>],
        copies: &Copies<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match ready {
            Ready::Own(n) => {
                if own[*n].is_none() {
                    own[*n] = outputs[*n].as_ref().map(|t| t.object(given.py())).transpose()?;
                }
                own[*n].clone().ok_or_else(|| no_memory(*n))
            }
            Ready::View(v) => torch.typed(self.view(given, v, outputs, copies)?, dtype),
            _ => Err(PyRuntimeError::new_err("a result is no tensor")),
        }
    }

    fn view<'py>(
        &self,
        given: &Bound<'py, PyList>,
        v: &View,
        outputs: &[Option<Tensor>],
        copies: &Copies<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = given.py();
        match v.origin {
            Origin::Output(n) => {
                let base = outputs[n].as_ref().ok_or_else(|| no_memory(n))?;
                base.view(py, &v.shape, &v.strides, v.offset)
            }
            Origin::Input(n) => part_of(&*self.object(given, n, copies)?, &v.shape, &v.strides, v.offset),
            Origin::Constant => {
                let ptr = self.exe.constants().offset(v.offset * v.plan_type.size() as i64);
                let t = TensorRef { ptr, dtype: v.plan_type, shape: &v.shape, strides: &v.strides };
                // SAFETY: the executable keeps its constants, and the view is copied at once.
                unsafe { exchange()?.borrow(py, &t, self.device) }?.call_method0("clone")
            }
        }
    }
}

fn no_memory(number: usize) -> PyErr {
    PyRuntimeError::new_err(format!("result {number} has no memory"))
}

fn moved<'py>(t: Bound<'py, PyAny>, device: Option<&Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    match device {
        Some(device) => t.call_method1("to", (device,)),
        None => Ok(t),
    }
}

/// A view of a tensor, `offset` elements from its start.
fn part_of<'py>(
    base: &Bound<'py, PyAny>,
    shape: &[i64],
    strides: &[i64],
    offset: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let first: i64 = base.call_method0("storage_offset")?.extract()?;
    base.call_method1("as_strided", (shape, strides, first + offset))
}
