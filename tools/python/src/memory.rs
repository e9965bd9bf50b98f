//! Outputs and arenas from PyTorch's allocator.

use crate::dlpack::{DlDevice, Exchange};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use strata_runtime::DType;
use strata_runtime::device::{DevicePtr, TensorRef};
use strata_runtime::error::{Error, ErrorKind, Result};
use strata_runtime::exec::Allocator;

/// Arenas begin at a multiple of this.
const ALIGNMENT: u64 = 256;

/// Memory of one run.
pub struct TorchMemory<'a> {
    pub exchange: Exchange,
    pub device: DlDevice,
    /// Result number → the tensor that holds it.
    pub outputs: BTreeMap<usize, Py<PyAny>>,
    /// The arena of an earlier run, with its size in bytes; taken and left here for the next.
    pub arena: &'a mut Option<(Py<PyAny>, usize)>,
}

impl TorchMemory<'_> {
    fn new_tensor(&self, dtype: DType, shape: &[i64]) -> Result<(Py<PyAny>, DevicePtr)> {
        Python::attach(|py| {
            let tensor = self.exchange.allocate(py, dtype, shape, self.device)?;
            let ptr = self.exchange.view(&tensor)?.ptr;
            Ok((tensor.unbind(), ptr))
        })
        .map_err(|e: PyErr| {
            Error::new(ErrorKind::Memory, e.to_string()).next("free memory, or use smaller inputs")
        })
    }
}

fn aligned(ptr: DevicePtr) -> DevicePtr {
    DevicePtr(ptr.0.next_multiple_of(ALIGNMENT))
}

impl Allocator for TorchMemory<'_> {
    fn arena(&mut self, bytes: usize) -> Result<DevicePtr> {
        if let Some((tensor, _)) = self.arena.as_ref().filter(|(_, size)| *size >= bytes) {
            let ptr = Python::attach(|py| self.exchange.view(tensor.bind(py)).map(|v| v.ptr));
            return ptr.map(aligned).map_err(|e| Error::new(ErrorKind::Memory, e.to_string()));
        }
        // The old one goes first: both together may not fit.
        *self.arena = None;
        let (tensor, ptr) = self.new_tensor(DType::I8, &[(bytes as u64 + ALIGNMENT) as i64])?;
        *self.arena = Some((tensor, bytes));
        Ok(aligned(ptr))
    }

    fn output(
        &mut self,
        number: usize,
        dtype: DType,
        shape: &[i64],
        strides: &[i64],
        bytes: usize,
    ) -> Result<DevicePtr> {
        let view = TensorRef { ptr: DevicePtr::NULL, dtype, shape, strides };
        let (tensor, ptr) = match view.is_contiguous() {
            true => self.new_tensor(dtype, shape)?,
            false => self.new_tensor(dtype, &[(bytes / dtype.size()) as i64])?,
        };
        self.outputs.insert(number, tensor);
        Ok(ptr)
    }
}
