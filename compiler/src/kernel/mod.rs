//! What the two back ends share: building ops, turning a loop-level function into straight code on pointers, and LLVM.

pub mod affine;
pub mod builder;
pub mod llvm;
pub mod metadata;
pub mod signature;
pub mod upstream;
pub mod walk;

pub use builder::{Builder, Val};
