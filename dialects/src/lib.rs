//! Strata's MLIR dialects: `graph` (tensor programs with symbolic dimensions) and `loop` (collectives of scheduled loop
//! nests), the table that holds the meaning of every graph op, and the registration of all dialects the compiler uses.

pub mod affine;
pub mod attr;
pub mod build;
pub mod decompose;
mod forward;
pub mod ops;
pub mod reference;
pub mod register;
pub mod scalar;
pub mod spec;
pub mod tool;
pub mod types;
pub mod view;

pub use attr::Attr;
pub use build::Builder;
pub use reference::RefTensor;
pub use register::{context, register};
pub use spec::{Lowering, OpSpec, Violation};
pub use types::TensorType;
pub use view::OpView;
