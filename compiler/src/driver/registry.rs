//! Every pass, one line each, in the order of the pipeline.

use crate::driver::pass::Pass;

/// Every pass of Strata's own. A new pass is one file, one line here, one lit test of the same name.
pub static PASSES: &[&Pass] = &[&crate::loops::linalg_to_loops::PASS];

/// The pass of that name.
pub fn lookup(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|p| p.name == name).copied()
}
