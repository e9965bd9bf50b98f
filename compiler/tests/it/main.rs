//! Integration tests of the compiler: one binary, because linking against MLIR takes long.

mod gpu_kernels;
mod interp_cases;
mod interp_graph;
mod loop_emission;
mod tensor_equivalence;
mod tensor_lowering;
