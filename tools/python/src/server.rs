//! The compile server of this process.

use crate::raise;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use strata_runtime::client::protocol::Op;
use strata_runtime::client::{Client, ClientOptions};

/// The client with the process that it belongs to: a forked child starts a server of its own.
static CLIENT: Mutex<Option<(u32, Arc<Client>)>> = Mutex::new(None);

/// The client; the first call says where the server is.
pub fn client(server: Option<PathBuf>) -> Arc<Client> {
    let mut slot = CLIENT.lock().unwrap_or_else(|e| e.into_inner());
    let here = std::process::id();
    match slot.as_ref() {
        Some((process, client)) if *process == here => return client.clone(),
        // The parent's: its pipes and its child are not ours to close.
        Some((_, client)) => std::mem::forget(client.clone()),
        None => {}
    }
    let client = Arc::new(Client::new(ClientOptions { server, ..ClientOptions::default() }));
    *slot = Some((here, client.clone()));
    client
}

/// Starts the server without waiting for it.
#[pyfunction]
#[pyo3(signature = (server=None))]
pub fn start_server(py: Python<'_>, server: Option<PathBuf>) -> PyResult<()> {
    py.detach(|| client(server).start()).map_err(|e| raise(&e))
}

/// The server's process number, if it runs.
#[pyfunction]
pub fn server_pid() -> Option<u32> {
    client(None).process_id()
}

/// Ends the server; the next compilation starts another.
#[pyfunction]
pub fn stop_server(py: Python<'_>) {
    let slot = CLIENT.lock().unwrap_or_else(|e| e.into_inner()).take();
    if let Some((process, client)) = slot {
        if process == std::process::id() {
            py.detach(|| client.shutdown());
        } else {
            std::mem::forget(client);
        }
    }
}

/// Makes the server abort, for tests of what follows.
#[pyfunction]
pub fn abort_server(py: Python<'_>) -> String {
    match py.detach(|| client(None).request(Op::Abort)) {
        Ok(_) => "the server answered".into(),
        Err(e) => e.to_string(),
    }
}
