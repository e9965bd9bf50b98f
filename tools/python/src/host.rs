//! Ops without lowering: PyTorch runs them, through the package's Python half.

use crate::dlpack::{DlDevice, Exchange};
use pyo3::prelude::*;
use pyo3::types::PyList;
use strata_runtime::device::{Stream, TensorRef};
use strata_runtime::error::{Error, ErrorKind, Result};
use strata_runtime::exec::HostCalls;
use strata_runtime::plan::HostCall;

/// Calls `callback(payload, inputs, symbols, outputs)` with tensors over the planned memory.
pub struct TorchCalls<'a> {
    pub exchange: Exchange,
    pub device: DlDevice,
    pub callback: &'a Py<PyAny>,
    /// What the callback raised: it goes on to the user as it is.
    pub raised: Option<PyErr>,
}

impl HostCalls for TorchCalls<'_> {
    fn call(
        &mut self,
        call: &HostCall,
        inputs: &[TensorRef<'_>],
        symbols: &[i64],
        outputs: &[TensorRef<'_>],
        _: Stream,
    ) -> Result<()> {
        Python::attach(|py| {
            let list = |tensors: &[TensorRef<'_>]| -> PyResult<Bound<'_, PyList>> {
                let list = PyList::empty(py);
                for t in tensors {
                    // SAFETY: the plan's memory lives until the run is over; the callback keeps no tensor.
                    list.append(unsafe { self.exchange.borrow(py, t, self.device) }?)?;
                }
                Ok(list)
            };
            let done = list(inputs).and_then(|inputs| {
                let outputs = list(outputs)?;
                self.callback.call1(py, (call.payload.as_str(), inputs, symbols.to_vec(), outputs))
            });
            done.map(|_| ()).map_err(|e| {
                let text = format!("{}: {e}", call.name);
                self.raised = Some(e);
                Error::new(ErrorKind::Device, text).at(&call.location)
            })
        })
    }
}
