//! Artifacts: a compiled function in one self-contained file.
//!
//! [`format`] has the layout. The same artifact always has the same bytes.

mod bake;
mod constants;
mod format;

pub use constants::Constants;
pub use format::{FORMAT_VERSION, MAGIC};

use crate::error::{Error, Result};
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A compiled function: plan, kernels, constants, and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// What to do.
    pub plan: Plan,
    /// Machine code; [`Kernel::image`](crate::plan::Kernel::image) indexes it.
    pub images: Vec<Image>,
    /// Bytes that [`Place::Constant`](crate::plan::Place::Constant) points into.
    pub constants: Constants,
    /// Where it came from.
    pub metadata: Metadata,
}

/// Machine code for one or more kernels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What `bytes` holds.
    pub kind: ImageKind,
    /// The machine that it is for: `x86-64-v3`, `sm_90a`. Informative for PTX.
    pub target: String,
    /// The code.
    pub bytes: Vec<u8>,
}

/// What an [`Image`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ImageKind {
    /// A position-independent relocatable ELF object for x86-64.
    ElfX86_64,
    /// PTX text, compiled by the driver when it is loaded.
    Ptx,
    /// A CUDA binary.
    Cubin,
}

impl ImageKind {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ElfX86_64 => "elf-x86_64",
            Self::Ptx => "ptx",
            Self::Cubin => "cubin",
        }
    }
}

impl fmt::Display for ImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where an artifact came from; kept as JSON in the file. Holds no clock and no path of the building machine unless the
/// compiler puts it there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The compiler's name and version.
    pub compiler: String,
    /// The source's name: `digits.onnx`, `GraphModule`.
    pub source: String,
    /// The options it was compiled with.
    pub options: BTreeMap<String, String>,
    /// Anything else that a tool wants to find again.
    pub notes: BTreeMap<String, String>,
}

impl Artifact {
    /// Writes the file (through a temporary one beside it, so that no reader sees half of it).
    pub fn write(&self, path: &Path) -> Result<()> {
        crate::files::write_atomically(path, &self.to_bytes()?)
    }

    /// Reads a file; the constants stay mapped.
    pub fn read(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(|e| Error::io("open the artifact", path, &e))?;
        if file.metadata().map_err(|e| Error::io("read the artifact", path, &e))?.len() == 0 {
            return Self::from_bytes(&[]).map_err(|e| e.at(path.display()));
        }
        // SAFETY: artifacts are replaced by rename and never written in place, so the mapping does not change.
        let map =
            unsafe { memmap2::Mmap::map(&file) }.map_err(|e| Error::io("map the artifact", path, &e))?;
        format::decode_mapped(map).map_err(|e| e.at(path.display()))
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        format::encode(self)
    }

    /// An artifact from a file's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        format::decode(bytes)
    }
}
