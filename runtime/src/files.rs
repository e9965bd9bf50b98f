//! Writing files that other processes may read at the same time.

use crate::error::{Error, Result};
use std::io::Write;
use std::path::Path;

/// Writes a file through a temporary one in the same folder and a rename, so that a reader sees all of it or none.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |what: &'static str| move |e: std::io::Error| Error::io(what, path, &e);
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(io("create the folder of the file"))?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(io("create a file"))?;
    file.write_all(bytes).map_err(io("write the file"))?;
    file.persist(path).map_err(|e| Error::io("put the file in place", path, &e.error))?;
    Ok(())
}
