//! Strata's runtime: plans, artifacts, devices, guards, events. It links neither MLIR nor LLVM.

pub mod aligned;
pub mod artifact;
pub mod cache;
pub mod client;
pub mod device;
pub mod dispatch;
pub mod dtype;
pub mod error;
pub mod events;
pub mod exec;
pub mod files;
pub mod float8;
pub mod guard;
pub mod plan;
pub mod sym;
pub mod tensor;
#[cfg(test)]
mod testing;

pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use tensor::HostTensor;
