//! Strata's runtime: plans, artifacts, devices, guards, events. It links neither MLIR nor LLVM.

pub mod dtype;
pub mod plan;
pub mod sym;

pub use dtype::DType;
