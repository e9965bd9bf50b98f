//! The one pass runner: passes, pipelines, phases, traces, reproducers.

pub mod diagnostics;
pub mod expected;
pub mod observe;
pub mod pass;
pub mod pipeline;
pub mod registry;
pub mod run;
pub mod session;
pub mod step;
pub mod test_passes;
pub mod upstream;
