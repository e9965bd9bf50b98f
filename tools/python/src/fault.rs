//! What can go wrong in a call.

use pyo3::prelude::*;

/// An error of the runtime, after which PyTorch can run the graph, or what PyTorch raised, which goes to the user as it is.
pub enum Fault {
    Runtime(strata_runtime::Error),
    Raised(PyErr),
}

impl From<strata_runtime::Error> for Fault {
    fn from(e: strata_runtime::Error) -> Self {
        Self::Runtime(e)
    }
}

impl From<PyErr> for Fault {
    fn from(e: PyErr) -> Self {
        Self::Raised(e)
    }
}
