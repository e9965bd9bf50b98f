//! ONNX: model files to graph-dialect functions.
//!
//! Reading is in [`model`] and [`tensor`], the walk over the graph in [`importer`], an operator's translation behind its
//! row in [`table`]. What is written goes through [`emit::Emit`], so that translations can be tested without MLIR.

mod conv;
pub mod diagnostic;
pub mod emit;
mod facts;
mod gather;
mod graph;
pub mod importer;
mod linear;
pub mod model;
pub mod node;
mod norm;
mod ops;
mod pointwise;
mod reduce;
mod shape;
mod shape_values;
pub mod table;
pub mod tensor;
#[cfg(test)]
mod tests;

#[allow(missing_docs, clippy::all)]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

pub use diagnostic::Diagnostic;
pub use graph::to_module;
pub use importer::import;
pub use model::Model;
