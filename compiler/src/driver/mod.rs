//! The one pass runner: passes, pipelines, phases, traces, reproducers.

pub mod pass;
pub mod registry;
