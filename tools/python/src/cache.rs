//! Caches of compiled graphs, one a folder.

use crate::raise;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use strata_runtime::Error;
use strata_runtime::cache::{Cache, Key, KeyBuilder};
use strata_runtime::device::cuda::link::CubinCache;

/// Graphs that were found in a cache, since the last reset.
pub static HITS: AtomicU64 = AtomicU64::new(0);

/// Bytes that are kept on disk and in memory.
const BOUNDS: (u64, usize) = (4 << 30, 256 << 20);

/// The cache with a folder: the user's own where none is named, none where it is empty.
pub fn cache(folder: Option<&str>) -> Arc<Cache> {
    static CACHES: Mutex<BTreeMap<Option<PathBuf>, Arc<Cache>>> = Mutex::new(BTreeMap::new());
    let folder = match folder {
        None => Cache::default_folder(),
        Some("") => None,
        Some(text) => Some(PathBuf::from(text)),
    };
    let mut caches = CACHES.lock().unwrap_or_else(|e| e.into_inner());
    let new = || Arc::new(Cache::new(folder.clone(), BOUNDS.0, BOUNDS.1));
    caches.entry(folder.clone()).or_insert_with(new).clone()
}

/// GPU binaries, beside the graphs.
pub struct Cubins(pub Arc<Cache>);

impl CubinCache for Cubins {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        Some(self.0.get(KeyBuilder::new().part("cubin", key).finish())?.to_vec())
    }

    fn put(&self, key: &str, cubin: &[u8]) {
        // In memory in any case; why the disk refuses is said when the graph is kept.
        let _ = self.0.put(KeyBuilder::new().part("cubin", key).finish(), cubin);
    }
}

/// Whether the folder holds anything.
#[pyfunction]
#[pyo3(signature = (folder=None))]
pub fn cache_has_entries(folder: Option<&str>) -> bool {
    cache(folder).has_entries()
}

/// The bytes kept under a key.
#[pyfunction]
#[pyo3(signature = (key, folder=None))]
pub fn cache_get<'py>(
    py: Python<'py>,
    key: &str,
    folder: Option<&str>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let key: Key = key.parse().map_err(|e: Error| raise(&e))?;
    Ok(cache(folder).get(key).map(|bytes| PyBytes::new(py, &bytes)))
}

/// Keeps bytes under a key.
#[pyfunction]
#[pyo3(signature = (key, bytes, folder=None))]
pub fn cache_put(key: &str, bytes: &[u8], folder: Option<&str>) -> PyResult<()> {
    let key: Key = key.parse().map_err(|e: Error| raise(&e))?;
    cache(folder).put(key, bytes).map_err(|e| raise(&e))
}
