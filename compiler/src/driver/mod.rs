//! The one pass runner: passes, pipelines, phases, traces, reproducers.

pub mod bisect;
pub mod child;
pub mod diagnostics;
pub mod expected;
pub mod observe;
pub mod pass;
pub mod phase;
pub mod pipeline;
pub mod planted;
pub mod reduce;
pub mod reference;
pub mod registry;
pub mod report;
pub mod reproducer;
pub mod run;
pub mod semantics;
pub mod session;
pub mod step;
pub mod test_passes;
pub mod trace;
pub mod upstream;
pub mod view;
