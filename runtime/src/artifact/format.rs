//! The file layout.
//!
//! ```text
//! offset  size  what
//!      0     8  magic "STRATA\r\n" (a text-mode transfer breaks it visibly)
//!      8     4  format version, little endian
//!     12     4  number of sections
//!     16     8  length of the file
//!     24    32  blake3 of the bytes 0..24 and of the section table
//!     56     8  zero
//!     64  64*n  section table: kind u32, zero u32, offset u64, length u64, zero u64, blake3 of the section
//!      …        sections, each at a multiple of 64, zeros between
//! ```
//! Sections, each exactly once, in this order: metadata (JSON), plan (postcard), images (postcard), constants (raw).

use super::{Artifact, Constants, Image};
use crate::error::{Error, ErrorKind, Result, bail, err};
use std::ops::Range;
use std::sync::Arc;

/// The first eight bytes of an artifact.
pub const MAGIC: [u8; 8] = *b"STRATA\r\n";
/// The version of the file format. Any change to the layout or to the plan's types raises it.
pub const FORMAT_VERSION: u32 = 4;

const ALIGN: usize = 64;
const HEADER: usize = 64;
const ENTRY: usize = 64;
const SECTIONS: [(u32, &str); 4] = [(1, "metadata"), (2, "plan"), (3, "images"), (4, "constants")];

fn encoding_failed(what: &str, e: impl std::fmt::Display) -> Error {
    err!(Artifact, "cannot encode the {what}: {e}").next("report this as a bug, with the program")
}

pub(super) fn encode(a: &Artifact) -> Result<Vec<u8>> {
    let sections: [&[u8]; 4] = [
        &serde_json::to_vec_pretty(&a.metadata).map_err(|e| encoding_failed("metadata", e))?,
        &postcard::to_allocvec(&a.plan).map_err(|e| encoding_failed("plan", e))?,
        &postcard::to_allocvec(&a.images).map_err(|e| encoding_failed("images", e))?,
        &a.constants,
    ];
    let mut out = vec![0; HEADER + ENTRY * sections.len()];
    for (i, (bytes, (kind, _))) in sections.into_iter().zip(SECTIONS).enumerate() {
        out.resize(out.len().next_multiple_of(ALIGN), 0);
        let offset = out.len();
        out.extend_from_slice(bytes);
        let entry = &mut out[HEADER + ENTRY * i..][..ENTRY];
        entry[..4].copy_from_slice(&kind.to_le_bytes());
        entry[8..16].copy_from_slice(&(offset as u64).to_le_bytes());
        entry[16..24].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        entry[32..].copy_from_slice(blake3::hash(bytes).as_bytes());
    }
    let len = out.len() as u64;
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&(sections.len() as u32).to_le_bytes());
    out[16..24].copy_from_slice(&len.to_le_bytes());
    let sum = header_sum(&out);
    out[24..56].copy_from_slice(sum.as_bytes());
    Ok(out)
}

fn header_sum(file: &[u8]) -> blake3::Hash {
    let mut h = blake3::Hasher::new();
    h.update(&file[..24]);
    h.update(&file[56..HEADER + ENTRY * SECTIONS.len()]);
    h.finalize()
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}

const AGAIN: &str = "compile the artifact again, or copy it again from where it was made";

/// Checks everything about the file but the meaning of its sections; returns where they are.
fn sections(b: &[u8]) -> Result<[Range<usize>; 4]> {
    if b.len() < 8 || b[..8] != MAGIC {
        let what = if b.is_empty() { "is empty" } else { "does not begin with the artifact's magic" };
        return Err(err!(Artifact, "not a Strata artifact: the file {what}")
            .next("pass a file that `strata compile` wrote"));
    }
    let cut = || err!(Artifact, "the artifact is cut short: {} bytes", b.len()).next(AGAIN);
    if b.len() < 12 {
        return Err(cut());
    }
    let version = u32_at(b, 8);
    if version != FORMAT_VERSION {
        let next = if version > FORMAT_VERSION {
            "run it with a newer Strata, or compile it again with this one"
        } else {
            "compile it again with this Strata"
        };
        return Err(err!(
            Artifact,
            "the artifact has format version {version}; this runtime reads version {FORMAT_VERSION}"
        )
        .next(next));
    }
    if b.len() < HEADER + ENTRY * SECTIONS.len() {
        return Err(cut());
    }
    if header_sum(b).as_bytes() != &b[24..56] || u32_at(b, 12) as usize != SECTIONS.len() {
        return Err(
            err!(Artifact, "the artifact's header is corrupt: its checksum does not match").next(AGAIN)
        );
    }
    if u64_at(b, 16) != b.len() as u64 {
        return Err(err!(Artifact, "the artifact has {} bytes, its header says {}", b.len(), u64_at(b, 16))
            .next(AGAIN));
    }
    let mut out: [Range<usize>; 4] = Default::default();
    for (i, (kind, name)) in SECTIONS.into_iter().enumerate() {
        let entry = &b[HEADER + ENTRY * i..][..ENTRY];
        let (offset, len) = (u64_at(entry, 8), u64_at(entry, 16));
        let end = offset.checked_add(len).filter(|&e| e <= b.len() as u64);
        let (Some(end), true) = (end, offset % ALIGN as u64 == 0 && u32_at(entry, 0) == kind) else {
            return Err(err!(Artifact, "the artifact's section '{name}' lies outside the file").next(AGAIN));
        };
        out[i] = offset as usize..end as usize;
        if blake3::hash(&b[out[i].clone()]).as_bytes() != &entry[32..] {
            return Err(err!(
                Artifact,
                "the artifact's section '{name}' is corrupt: its checksum does not match"
            )
            .next(AGAIN));
        }
    }
    Ok(out)
}

fn decode_parts(b: &[u8], s: &[Range<usize>; 4], constants: Constants) -> Result<Artifact> {
    let bad = |name: &str, e: String| {
        Error::new(ErrorKind::Artifact, format!("the artifact's section '{name}' does not decode: {e}"))
            .next("compile it again with this Strata")
    };
    let metadata = serde_json::from_slice(&b[s[0].clone()]).map_err(|e| bad("metadata", e.to_string()))?;
    let plan: crate::plan::Plan =
        postcard::from_bytes(&b[s[1].clone()]).map_err(|e| bad("plan", e.to_string()))?;
    let images: Vec<Image> =
        postcard::from_bytes(&b[s[2].clone()]).map_err(|e| bad("images", e.to_string()))?;
    if let Some(k) = plan.kernels.iter().find(|k| k.image as usize >= images.len()) {
        bail!(Artifact, "kernel '{}' is in image {}, but the artifact has {}", k.name, k.image, images.len());
    }
    Ok(Artifact { plan, images, constants, metadata })
}

pub(super) fn decode(b: &[u8]) -> Result<Artifact> {
    let s = sections(b)?;
    let constants = Constants::from(&b[s[3].clone()]);
    decode_parts(b, &s, constants)
}

pub(super) fn decode_mapped(map: memmap2::Mmap) -> Result<Artifact> {
    let map = Arc::new(map);
    let s = sections(&map)?;
    // A mapping begins at a page, so the constants' alignment in the file is their alignment in memory.
    let constants = Constants::mapped(map.clone(), s[3].clone());
    decode_parts(&map, &s, constants)
}
