//! CUDA graphs: work of a stream recorded once and replayed with one call.

use super::driver::{Context, handle};
use super::error::check;
use crate::device::Stream;
use crate::error::Result;
use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUstreamCaptureMode};
use std::sync::Arc;

/// Recorded work. Replays with the addresses and sizes it was recorded with, which have to stay valid.
#[derive(Debug)]
pub struct Graph {
    context: Arc<Context>,
    executable: CUgraphExec,
    nodes: usize,
}

// SAFETY: graph handles may be used from any thread with the context current.
unsafe impl Send for Graph {}

/// A graph that is still being put together; freed when dropped.
struct Template(CUgraph);

impl Drop for Template {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: ours, and executables do not need it.
            let _ = unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}

impl Graph {
    /// Records what `work` queues in `stream` instead of running it. `stream` must not be the legacy default stream, and
    /// `work` must have run before, so that kernels, plans and scratch memory exist: recording cannot allocate or wait.
    pub fn record(context: &Arc<Context>, stream: Stream, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let _entered = context.enter()?;
        // Thread-local: other threads (an embedder's allocator) may go on allocating.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: a live stream.
        check(unsafe { sys::cuStreamBeginCapture_v2(handle(stream), mode) }, || {
            "starting to record a CUDA graph".into()
        })?;
        let done = work();
        let mut graph = std::ptr::null_mut();
        // SAFETY: recording was started above, and ends also where the work failed.
        let code = unsafe { sys::cuStreamEndCapture(handle(stream), &mut graph) };
        let template = Template(graph);
        done?;
        check(code, || "recording a CUDA graph".into())?;
        let mut nodes = 0;
        // SAFETY: a live graph; null asks for the number only.
        check(unsafe { sys::cuGraphGetNodes(template.0, std::ptr::null_mut(), &mut nodes) }, || {
            "counting the nodes of a CUDA graph".into()
        })?;
        let mut executable = std::ptr::null_mut();
        // SAFETY: a live graph.
        check(unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, template.0, 0) }, || {
            format!("making a CUDA graph of {nodes} nodes executable")
        })?;
        Ok(Self { context: context.clone(), executable, nodes })
    }

    /// How many kernels, copies and fills it holds.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Queues the recorded work.
    ///
    /// # Safety
    /// All memory that the work uses must still be what it was at recording.
    pub unsafe fn launch(&self, stream: Stream) -> Result<()> {
        let _entered = self.context.enter()?;
        // SAFETY: by this function's contract.
        check(unsafe { sys::cuGraphLaunch(self.executable, handle(stream)) }, || {
            format!("replaying a CUDA graph of {} nodes", self.nodes)
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: ours; the driver keeps what still runs.
            let _ = unsafe { sys::cuGraphExecDestroy(self.executable) };
        }
    }
}
