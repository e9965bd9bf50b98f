//! Strata's runtime: plans, artifacts, devices, guards, events. It links neither MLIR nor LLVM.

pub mod aligned;
pub mod artifact;
pub mod device;
pub mod dtype;
pub mod error;
pub mod exec;
pub mod files;
pub mod plan;
pub mod sym;
pub mod tensor;
#[cfg(test)]
mod testing;

pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use tensor::HostTensor;
