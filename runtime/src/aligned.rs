//! Bytes aligned to 64, so that any vector load and any kernel may read them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The alignment of host memory that tensors and constants lie in.
pub const ALIGNMENT: usize = 64;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; ALIGNMENT]);

/// A byte vector of fixed length whose start is aligned to [`ALIGNMENT`].
#[derive(Clone, Default)]
pub struct AlignedBytes {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedBytes {
    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        Self { lines: vec![Line([0; ALIGNMENT]); len.div_ceil(ALIGNMENT)], len }
    }

    /// `len` zero bytes, or `None` where the host has not so much memory.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let mut lines = Vec::new();
        lines.try_reserve_exact(len.div_ceil(ALIGNMENT)).ok()?;
        lines.resize(len.div_ceil(ALIGNMENT), Line([0; ALIGNMENT]));
        Some(Self { lines, len })
    }

    /// Appends `bytes` and then zeros up to a multiple of [`ALIGNMENT`]; returns where `bytes` begins.
    pub fn push_aligned(&mut self, bytes: &[u8]) -> usize {
        let start = self.lines.len() * ALIGNMENT;
        for chunk in bytes.chunks(ALIGNMENT) {
            let mut line = Line([0; ALIGNMENT]);
            line.0[..chunk.len()].copy_from_slice(chunk);
            self.lines.push(line);
        }
        self.len = start + bytes.len();
        start
    }
}

impl From<&[u8]> for AlignedBytes {
    fn from(bytes: &[u8]) -> Self {
        let mut out = Self::zeroed(bytes.len());
        out.copy_from_slice(bytes);
        out
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `lines` holds at least `len` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

impl PartialEq for AlignedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl Eq for AlignedBytes {}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.len)
    }
}

impl Serialize for AlignedBytes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for AlignedBytes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Vec::<u8>::deserialize(d).map(|v| Self::from(v.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_and_pushed_parts_are_aligned() {
        let mut b = AlignedBytes::default();
        assert_eq!(b.push_aligned(&[1; 3]), 0);
        assert_eq!(b.push_aligned(&[2; 65]), 64);
        assert_eq!(b.push_aligned(&[]), 192);
        assert_eq!((b.len(), b[2], b[3], b[64], b[128]), (192, 1, 0, 2, 2));
        assert_eq!(b.as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(AlignedBytes::zeroed(0).len(), 0);
    }

    #[test]
    fn bytes_come_back_from_their_encoded_form() {
        let b = AlignedBytes::from(&[7u8, 0, 255][..]);
        let encoded = postcard::to_allocvec(&b).unwrap();
        assert_eq!(encoded, [3, 7, 0, 255]);
        assert_eq!(postcard::from_bytes::<AlignedBytes>(&encoded).unwrap(), b);
    }
}
