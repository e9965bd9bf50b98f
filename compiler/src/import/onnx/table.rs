//! The operators that are understood: one row each.

use super::diagnostic::{Diagnostic, Result};
use super::importer::{Importer, Operand};
use super::node::Node;
use super::{conv, gather, linear, norm, pointwise, reduce, shape};
use std::fmt::Write;
use std::ops::RangeInclusive;

/// Writes the graph ops for a node; returns the node's outputs, in order.
pub type Translate = fn(&mut Importer<'_>, &Node<'_>) -> Result<Vec<Operand>>;

/// One operator.
pub struct Entry {
    /// The ONNX operator.
    pub op: &'static str,
    /// How many inputs it takes, optional ones counted.
    pub inputs: RangeInclusive<usize>,
    /// The translation.
    pub translate: Translate,
    /// What of the operator is not supported, or how it is written; for the reference page.
    pub note: &'static str,
}

const fn row(op: &'static str, least: usize, most: usize, translate: Translate, note: &'static str) -> Entry {
    Entry { op, inputs: RangeInclusive::new(least, most), translate, note }
}

const MANY: usize = usize::MAX;

/// Every operator, by name.
pub static TABLE: &[Entry] = &[
    row("Abs", 1, 1, pointwise::unary, ""),
    row("Add", 2, 2, pointwise::binary, ""),
    row("And", 2, 2, pointwise::logic, ""),
    row("ArgMax", 1, 1, reduce::arg, "`select_last_index` = 0 only"),
    row("ArgMin", 1, 1, reduce::arg, "`select_last_index` = 0 only"),
    row("AveragePool", 1, 1, conv::average_pool, ""),
    row("BatchNormalization", 5, 5, norm::batch, "inference form only"),
    row("Cast", 1, 1, pointwise::cast, "between the supported element types"),
    row("CastLike", 2, 2, pointwise::cast_like, ""),
    row("Ceil", 1, 1, pointwise::unary, ""),
    row("Clip", 1, 3, pointwise::clip, ""),
    row("Concat", 1, MANY, shape::concat, ""),
    row("Constant", 0, 0, shape::constant, "no strings, no sparse tensors"),
    row("ConstantOfShape", 1, 1, shape::constant_of_shape, "the shape must be known when importing"),
    row("Conv", 2, 3, conv::conv, "1 to 3 spatial dimensions"),
    row("Cos", 1, 1, pointwise::unary, ""),
    row("Div", 2, 2, pointwise::binary, ""),
    row("Dropout", 1, 3, norm::dropout, "inference form only"),
    row("Equal", 2, 2, pointwise::compare, ""),
    row("Erf", 1, 1, pointwise::unary, ""),
    row("Exp", 1, 1, pointwise::unary, ""),
    row("Expand", 2, 2, shape::expand, "the shape must be known when importing"),
    row("Flatten", 1, 1, shape::flatten, ""),
    row("Floor", 1, 1, pointwise::unary, ""),
    row("Gather", 2, 2, gather::gather, ""),
    row("Gelu", 1, 1, pointwise::gelu, ""),
    row("Gemm", 2, 3, linear::gemm, ""),
    row("GlobalAveragePool", 1, 1, conv::global_average_pool, ""),
    row("GlobalMaxPool", 1, 1, conv::global_max_pool, ""),
    row("Greater", 2, 2, pointwise::compare, ""),
    row("GreaterOrEqual", 2, 2, pointwise::compare, ""),
    row("Identity", 1, 1, shape::identity, ""),
    row("LayerNormalization", 2, 3, norm::layer, ""),
    row("LeakyRelu", 1, 1, pointwise::leaky_relu, ""),
    row("Less", 2, 2, pointwise::compare, ""),
    row("LessOrEqual", 2, 2, pointwise::compare, ""),
    row("Log", 1, 1, pointwise::unary, ""),
    row("LogSoftmax", 1, 1, norm::softmax, ""),
    row("MatMul", 2, 2, linear::matmul, ""),
    row("Max", 1, MANY, pointwise::variadic, ""),
    row("MaxPool", 1, 1, conv::max_pool, "first output only"),
    row("Mean", 1, MANY, pointwise::variadic, ""),
    row("Min", 1, MANY, pointwise::variadic, ""),
    row("Mod", 2, 2, pointwise::modulo, ""),
    row("Mul", 2, 2, pointwise::binary, ""),
    row("Neg", 1, 1, pointwise::unary, ""),
    row("Not", 1, 1, pointwise::unary, ""),
    row("Or", 2, 2, pointwise::logic, ""),
    row("Pad", 1, 4, shape::pad, "mode `constant` only"),
    row("Pow", 2, 2, pointwise::pow, ""),
    row("Range", 3, 3, shape::range, "the limits must be known when importing"),
    row("Reciprocal", 1, 1, pointwise::reciprocal, ""),
    row("ReduceL1", 1, 2, reduce::reduce, "the axes must be constant"),
    row("ReduceL2", 1, 2, reduce::reduce, "the axes must be constant"),
    row("ReduceMax", 1, 2, reduce::reduce, "the axes must be constant"),
    row("ReduceMean", 1, 2, reduce::reduce, "the axes must be constant"),
    row("ReduceMin", 1, 2, reduce::reduce, "the axes must be constant"),
    row("ReduceProd", 1, 2, reduce::reduce, "the axes must be constant"),
    row("ReduceSum", 1, 2, reduce::reduce, "the axes must be constant"),
    row("ReduceSumSquare", 1, 2, reduce::reduce, "the axes must be constant"),
    row("Relu", 1, 1, pointwise::relu, ""),
    row("Reshape", 2, 2, shape::reshape, "the shape must be known when importing"),
    row("Round", 1, 1, pointwise::unary, ""),
    row("Shape", 1, 1, shape::shape, ""),
    row("Sigmoid", 1, 1, pointwise::unary, ""),
    row("Sign", 1, 1, pointwise::unary, ""),
    row("Sin", 1, 1, pointwise::unary, ""),
    row("Size", 1, 1, shape::size, ""),
    row("Slice", 1, 5, gather::slice, "the limits must be known when importing"),
    row("Softmax", 1, 1, norm::softmax, ""),
    row("Split", 1, 2, gather::split, "the parts must be constant"),
    row("Sqrt", 1, 1, pointwise::unary, ""),
    row("Squeeze", 1, 2, shape::squeeze, "the axes must be constant"),
    row("Sub", 2, 2, pointwise::binary, ""),
    row("Sum", 1, MANY, pointwise::variadic, ""),
    row("Tanh", 1, 1, pointwise::unary, ""),
    row("Tile", 2, 2, shape::tile, "the repeats must be known when importing"),
    row("Transpose", 1, 1, shape::transpose, ""),
    row("Trilu", 1, 2, shape::trilu, "`k` must be constant"),
    row("Unsqueeze", 1, 2, shape::unsqueeze, "the axes must be constant"),
    row("Where", 3, 3, pointwise::choose, ""),
    row("Xor", 2, 2, pointwise::logic, ""),
];

/// The row of an operator.
pub fn find(op: &str) -> Option<&'static Entry> {
    TABLE.binary_search_by(|e| e.op.cmp(op)).ok().map(|i| &TABLE[i])
}

/// The text of the reference page.
pub fn reference_page() -> String {
    let (first, last) = (super::model::OPSETS.start(), super::model::OPSETS.end());
    let mut page = format!(
        "# ONNX operators\n\n\
         Generated from `compiler/src/import/onnx/table.rs`; `STRATA_BLESS=1 cargo test -p strata-mlir-compiler onnx` rewrites it.\n\n\
         Versions {first} to {last} of the default operator set are read, each operator as its version says. Element types: float, double,\n\
         float16, bfloat16, float8e4m3fn, float8e5m2, int64, int32, int16, int8, uint8, bool. Sizes may be symbolic (`dim_param`); shapes computed from other\n\
         shapes (`Shape`, `Gather`, `Concat`, `Unsqueeze`, arithmetic, …) are followed when importing.\n\n\
         To add an operator: a row in the table, and a function beside it that returns the node's outputs.\n\n\
         | operator | limits |\n|---|---|\n"
    );
    for entry in TABLE {
        let _ = writeln!(page, "| {} | {} |", entry.op, entry.note);
    }
    page
}

/// For a shape or a list of axes that an input gives and that is only known at run time.
pub fn not_known(what: &str) -> Diagnostic {
    Diagnostic::new(format!("{what} is computed from data and not known when importing"))
        .help("make it a constant or a function of input shapes; `onnxsim` or constant folding at export often does")
}
