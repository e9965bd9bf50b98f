//! Loop level to PTX.

mod barriers;
pub mod codegen;
mod legal;
pub mod loop_to_gpu;
pub mod math_to_nvvm;
pub mod ptxas;
mod reduce;
