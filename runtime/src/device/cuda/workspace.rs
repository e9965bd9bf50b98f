//! Scratch memory for library calls: one piece a stream, made once.

use super::driver::Context;
use super::memory::Fixed;
use crate::device::{DevicePtr, Stream};
use crate::error::Result;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Bytes that a library call may use.
pub const WORKSPACE_BYTES: usize = 64 << 20;

/// The pieces. Work of different streams runs at the same time, so each stream has its own.
#[derive(Debug, Default)]
pub struct Workspaces(Mutex<BTreeMap<Stream, Fixed>>);

impl Workspaces {
    /// [`WORKSPACE_BYTES`] bytes for work in `stream`.
    pub fn of(&self, context: &Arc<Context>, stream: Stream) -> Result<DevicePtr> {
        let mut pieces = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(piece) = pieces.get(&stream) {
            return Ok(piece.ptr());
        }
        let piece = Fixed::new(context, WORKSPACE_BYTES)
            .map_err(|e| e.at("the scratch memory of matrix products and convolutions"))?;
        let ptr = piece.ptr();
        pieces.insert(stream, piece);
        Ok(ptr)
    }
}
