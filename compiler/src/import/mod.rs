//! Front ends: what reads a model in a foreign format and writes graph-dialect IR.

pub mod fx;
pub mod onnx;
