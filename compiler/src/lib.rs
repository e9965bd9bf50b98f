//! Strata's compiler: from ONNX or PyTorch graphs down to kernels and plans. See `ARCHITECTURE.md` for the levels.

pub mod compile;
pub mod cpu;
pub mod driver;
pub mod element;
pub mod gpu;
pub mod graph;
pub mod import;
pub mod interp;
pub mod ir;
pub mod kernel;
pub mod loops;
pub mod math;
pub mod serve;
pub mod source;
pub mod target;
pub mod tensor;
