//! Every pass, one line each, in the order of the pipeline.

use crate::driver::pass::Pass;
use crate::driver::test_passes;

/// Every pass of Strata's own. A new pass is one file, one line here, one lit test of the same name.
pub static PASSES: &[&Pass] = &[
    &crate::graph::decompose_composites::PASS,
    &crate::graph::legalize_library_calls::PASS,
    &crate::graph::drop_index_checks::PASS,
    &crate::graph::fuse_epilogues::PASS,
    &crate::graph::widen_sums::PASS,
    &crate::graph::split_reductions::PASS,
    &crate::graph::fuse::PASS,
    &crate::graph::outline_kernels::PASS,
    &crate::tensor::graph_to_linalg::PASS,
    &crate::loops::linalg_to_loops::PASS,
    &crate::gpu::loop_to_gpu::PASS,
    &crate::gpu::math_to_nvvm::PASS,
    &crate::cpu::expand_math::PASS,
    &crate::cpu::loop_to_cpu::PASS,
];

/// The pass of that name; those of the driver's own tests are found too.
pub fn lookup(name: &str) -> Option<&'static Pass> {
    PASSES.iter().copied().chain(test_passes::all()).find(|p| p.name == name)
}
