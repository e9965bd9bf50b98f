//! Integration tests of the compiler: one binary, because linking against MLIR takes long.

mod check_semantics;
mod cpu_kernels;
mod end_to_end;
mod gpu_kernels;
mod index_checks;
mod interp_cases;
mod interp_graph;
mod interp_loops;
mod loop_emission;
mod math;
mod online;
mod reduced_faults;
mod sorts;
mod split_reductions;
mod strided;
mod support;
mod tensor_equivalence;
mod tensor_lowering;
mod tiles;
