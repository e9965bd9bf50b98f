//! Writing files that other processes may read at the same time.

use crate::error::{Error, Result};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file through a temporary one in the same folder and a rename, so that a reader sees all of it or none.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |what: &'static str| move |e: std::io::Error| Error::io(what, path, &e);
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(io("create the folder of the file"))?;
    // The usual rights, which the umask narrows; a temporary file's would keep everybody else out.
    let rights = std::fs::Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().permissions(rights).tempfile_in(folder);
    let mut file = file.map_err(io("create a file"))?;
    file.write_all(bytes).map_err(io("write the file"))?;
    file.persist(path).map_err(|e| Error::io("put the file in place", path, &e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_has_the_usual_rights() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/folder/x");
        write_atomically(&path, b"long content").unwrap();
        write_atomically(&path, b"short").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"short");
        let plain = dir.path().join("plain");
        std::fs::write(&plain, b"").unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
