//! The constant section: owned while compiling, mapped when read from a file.

use crate::aligned::AlignedBytes;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes of constants, each part aligned to 64. Cheap to clone.
#[derive(Clone)]
pub struct Constants(Storage);

#[derive(Clone)]
enum Storage {
    Owned(Arc<AlignedBytes>),
    Mapped(Arc<memmap2::Mmap>, Range<usize>),
}

impl Constants {
    /// No constants.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the bytes of a constant; returns the offset for [`Place::Constant`](crate::plan::Place::Constant).
    pub fn push(&mut self, bytes: &[u8]) -> u64 {
        if let Storage::Mapped(..) = self.0 {
            self.0 = Storage::Owned(Arc::new(AlignedBytes::from(&**self)));
        }
        match &mut self.0 {
            Storage::Owned(b) => Arc::make_mut(b).push_aligned(bytes) as u64,
            Storage::Mapped(..) => unreachable!("made owned above"),
        }
    }

    pub(super) fn mapped(map: Arc<memmap2::Mmap>, range: Range<usize>) -> Self {
        Self(Storage::Mapped(map, range))
    }
}

impl Default for Constants {
    fn default() -> Self {
        Self(Storage::Owned(Arc::default()))
    }
}

impl From<&[u8]> for Constants {
    fn from(bytes: &[u8]) -> Self {
        Self(Storage::Owned(Arc::new(bytes.into())))
    }
}

impl Deref for Constants {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Storage::Owned(b) => b,
            Storage::Mapped(map, range) => &map[range.clone()],
        }
    }
}

impl PartialEq for Constants {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Constants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Constants({} bytes)", self.len())
    }
}
