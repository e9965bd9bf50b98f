//! Results and arenas from PyTorch's allocator.

use crate::dlpack::DlDevice;
use crate::layouts::Sizes;
use crate::spec::{Source, Spec};
use crate::torch::{Tensor, Torch, TorchType};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::BTreeMap;
use strata_runtime::DType;
use strata_runtime::device::DevicePtr;
use strata_runtime::error::{Error, ErrorKind, Result};
use strata_runtime::exec::Allocator;

/// Arenas begin at a multiple of this.
const ALIGNMENT: u64 = 256;

/// Memory of one run.
pub struct TorchMemory<'a> {
    pub torch: &'a Torch,
    pub device: DlDevice,
    /// Single bytes.
    pub bytes: &'a TorchType,
    pub spec: &'a Spec,
    pub sizes: &'a Sizes,
    /// By number of the result: the tensor that holds it.
    pub outputs: Vec<Option<Tensor>>,
    /// The arena of an earlier run, with its size in bytes; taken and left here for the next.
    pub arena: &'a mut Option<(Tensor, usize)>,
    /// Lives until the work is queued.
    pub scratch: Vec<Tensor>,
    /// By number of the buffer.
    pub blocks: BTreeMap<usize, Tensor>,
    /// The call's arguments, if they are the graph's own: each is given up after its last use.
    pub given: Option<Py<PyList>>,
    /// Whether one was given up.
    pub gave_up: bool,
    /// What PyTorch raised: it goes on to the user as it is.
    pub raised: Option<PyErr>,
}

impl TorchMemory<'_> {
    fn tensor(&mut self, dtype: &TorchType, shape: &[i64], strides: &[i64]) -> Result<(Tensor, DevicePtr)> {
        let new = self.torch.empty(dtype, shape, strides, self.device);
        new.and_then(|t| t.ptr().map(|ptr| (t, ptr))).map_err(|e| {
            let text = e.to_string();
            self.raised = Some(e);
            Error::new(ErrorKind::Memory, text).next("free memory, or use smaller inputs")
        })
    }

    fn aligned(&mut self, bytes: usize) -> Result<(Tensor, DevicePtr)> {
        let (tensor, ptr) = self.tensor(self.bytes, &[(bytes as u64 + ALIGNMENT) as i64], &[1])?;
        Ok((tensor, aligned(ptr)))
    }
}

fn aligned(ptr: DevicePtr) -> DevicePtr {
    DevicePtr(ptr.0.next_multiple_of(ALIGNMENT))
}

impl Allocator for TorchMemory<'_> {
    fn arena(&mut self, bytes: usize) -> Result<DevicePtr> {
        if let Some((tensor, _)) = self.arena.as_ref().filter(|(_, size)| *size >= bytes) {
            let ptr = tensor.ptr();
            return ptr.map(aligned).map_err(|e| Error::new(ErrorKind::Memory, e.to_string()));
        }
        // The old one goes first: both together may not fit.
        *self.arena = None;
        let (tensor, ptr) = self.aligned(bytes)?;
        *self.arena = Some((tensor, bytes));
        Ok(ptr)
    }

    fn scratch(&mut self, bytes: usize) -> Result<DevicePtr> {
        let (tensor, ptr) = self.aligned(bytes)?;
        self.scratch.push(tensor);
        Ok(ptr)
    }

    fn block(&mut self, buffer: usize, bytes: usize) -> Result<DevicePtr> {
        let (tensor, ptr) = self.aligned(bytes)?;
        self.blocks.insert(buffer, tensor);
        Ok(ptr)
    }

    // PyTorch gives it to later work of the same stream.
    fn release(&mut self, buffer: usize) {
        self.blocks.remove(&buffer);
    }

    fn release_input(&mut self, number: usize) {
        let (Some(given), Source::Given(index)) = (&self.given, &self.spec.arguments[number].source) else {
            return;
        };
        if self.spec.shared(number, *index) {
            return;
        }
        // Where this fails the argument only lives longer.
        if Python::attach(|py| given.bind(py).set_item(*index, py.None())).is_ok() {
            self.gave_up = true;
        }
    }

    // From PyTorch, so that it is counted there, and goes into the pool of a graph that is being recorded.
    fn workspace(&mut self, bytes: usize) -> Result<Option<DevicePtr>> {
        self.scratch(bytes).map(Some)
    }

    fn output(&mut self, number: usize, _: DType, _: &[i64], _: &[i64], _: usize) -> Result<DevicePtr> {
        let Some((dtype, shape, strides)) = self.sizes.form(self.spec, number) else {
            return Err(Error::new(ErrorKind::Plan, format!("nobody takes result {number}"))
                .next("report this as a bug"));
        };
        let (tensor, ptr) = self.tensor(dtype, shape, strides)?;
        self.outputs[number] = Some(tensor);
        Ok(ptr)
    }
}
