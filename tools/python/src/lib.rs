//! The extension module of the Python package `strata`: the compile server's client and the runtime, on PyTorch's memory.
//!
//! PyTorch is met through its C functions ([`torch`], [`peek`]) and, for what these do not show, its DLPack exchange table ([`dlpack`]): tensors
//! are read, allocated and wrapped by function pointers, without attribute access. The package's Python half serialises FX graphs; AOTAutograd calls
//! [`graph::Compiled`] itself.

mod cache;
mod call;
mod dlpack;
mod export;
mod fault;
mod graph;
mod host;
mod layouts;
mod memory;
mod peek;
mod server;
mod spec;
mod torch;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::Ordering;
use strata_runtime::error::ErrorKind;
use strata_runtime::events::{Event, EventKind, emit as emit_event, events as stream};

pyo3::create_exception!(
    strata_native,
    StrataError,
    pyo3::exceptions::PyRuntimeError,
    "An error of the compiler or the runtime: text, kind, next step."
);

/// A runtime error as a Python exception; `kind` and `next_step` are its second and third argument. An index out of range is what it is
/// everywhere in Python.
fn raise(e: &strata_runtime::Error) -> PyErr {
    if e.kind() == ErrorKind::Index {
        return PyIndexError::new_err(e.to_string());
    }
    StrataError::new_err((e.to_string(), format!("{:?}", e.kind()), e.next_step().to_owned()))
}

/// Events by kind since the last reset.
#[pyfunction]
fn counters(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let out = PyDict::new(py);
    for (name, n) in stream().counters() {
        out.set_item(name, n)?;
    }
    out.set_item("calls", call::CALLS.load(Ordering::Relaxed))?;
    out.set_item("cache_hits", cache::HITS.load(Ordering::Relaxed))?;
    Ok(out)
}

/// Forgets events and their counters.
#[pyfunction]
fn reset_events() {
    stream().clear();
    call::CALLS.store(0, Ordering::Relaxed);
    cache::HITS.store(0, Ordering::Relaxed);
}

/// The events since the last reset.
#[pyfunction]
fn events(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let convert = |e: &Event| {
        let d = PyDict::new(py);
        d.set_item("kind", e.kind.name())?;
        d.set_item("reason", &e.reason)?;
        d.set_item("location", &e.location)?;
        d.set_item("cost", &e.cost)?;
        d.set_item("next_step", &e.next_step)?;
        Ok(d)
    };
    stream().all().iter().map(convert).collect()
}

/// Emits an event of a kind by its name in `STRATA_LOGS`.
#[pyfunction]
fn emit(kind: &str, reason: &str, location: &str, next_step: &str) -> PyResult<()> {
    let known = EventKind::ALL.into_iter().find(|k| k.name() == kind);
    let kind = known
        .ok_or_else(|| pyo3::exceptions::PyValueError::new_err(format!("no event is called '{kind}'")))?;
    emit_event(Event::new(kind, reason).at(location).next(next_step));
    Ok(())
}

#[pymodule]
fn strata_native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("StrataError", m.py().get_type::<StrataError>())?;
    m.add_class::<graph::Compiled>()?;
    m.add_class::<export::Loaded>()?;
    for f in [
        wrap_pyfunction!(cache::cache_has_entries, m)?,
        wrap_pyfunction!(cache::cache_get, m)?,
        wrap_pyfunction!(cache::cache_put, m)?,
        wrap_pyfunction!(counters, m)?,
        wrap_pyfunction!(reset_events, m)?,
        wrap_pyfunction!(events, m)?,
        wrap_pyfunction!(emit, m)?,
        wrap_pyfunction!(export::export, m)?,
        wrap_pyfunction!(export::load, m)?,
        wrap_pyfunction!(server::start_server, m)?,
        wrap_pyfunction!(server::server_pid, m)?,
        wrap_pyfunction!(server::stop_server, m)?,
        wrap_pyfunction!(server::abort_server, m)?,
        wrap_pyfunction!(graph::compile, m)?,
        wrap_pyfunction!(dlpack::use_exchange_table, m)?,
        wrap_pyfunction!(torch::use_torch, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
