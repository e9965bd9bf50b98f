//! Streams of our own, and marks in streams.

use super::driver::{Context, handle};
use super::error::{check, failure};
use crate::device::Stream;
use crate::error::{ErrorKind, Result};
use cudarc::driver::sys::{self, CUevent, CUresult, CUstream};
use std::sync::Arc;

/// A stream of our own, for programs that have none. It does not wait for the legacy default stream.
#[derive(Debug)]
pub struct OwnedStream {
    context: Arc<Context>,
    stream: Stream,
}

impl OwnedStream {
    /// A new stream.
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        let _entered = context.enter()?;
        let mut raw: CUstream = std::ptr::null_mut();
        // SAFETY: the context is current.
        let code =
            unsafe { sys::cuStreamCreate(&mut raw, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32) };
        check(code, || "creating a stream".into())?;
        Ok(Self { context: context.clone(), stream: Stream(raw as usize as u64) })
    }

    /// The stream, for as long as this lives.
    pub fn stream(&self) -> Stream {
        self.stream
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: ours; the driver finishes queued work first.
            let _ = unsafe { sys::cuStreamDestroy_v2(handle(self.stream)) };
        }
    }
}

/// A mark in a stream, with a time.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: as for streams.
unsafe impl Send for Event {}
// SAFETY: as for streams.
unsafe impl Sync for Event {}

impl Event {
    /// A new event that has not been recorded.
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        let _entered = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current.
        check(unsafe { sys::cuEventCreate(&mut raw, 0) }, || "creating an event".into())?;
        Ok(Self { context: context.clone(), raw })
    }

    /// Queues the mark in `stream`, which is live.
    pub fn record(&self, stream: Stream) -> Result<()> {
        let _entered = self.context.enter()?;
        // SAFETY: both live.
        check(unsafe { sys::cuEventRecord(self.raw, handle(stream)) }, || "recording an event".into())
    }

    /// Waits for the mark.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.context.enter()?;
        // SAFETY: live.
        check(unsafe { sys::cuEventSynchronize(self.raw) }, || "waiting for an event".into())
    }

    /// Milliseconds from `start` to this, both recorded and passed.
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        type Elapsed = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;
        let what = || "measuring between events".to_string();
        let _entered = self.context.enter()?;
        // cudarc binds the newest entry point only, which drivers before 12.8 lack; this one has the same meaning.
        // SAFETY: the driver is loaded and the signature is the documented one.
        let elapsed = unsafe { sys::culib().get::<Elapsed>(b"cuEventElapsedTime\0") };
        let elapsed = elapsed.map_err(|e| failure(ErrorKind::Device, what(), e, "install a newer driver"))?;
        let mut milliseconds = 0.0;
        // SAFETY: both live.
        check(unsafe { elapsed(&mut milliseconds, start.raw, self.raw) }, what)?;
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: ours.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}
