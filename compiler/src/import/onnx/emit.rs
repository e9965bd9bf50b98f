//! What the importer writes to: a function under construction, one graph op after another.
//!
//! The importer knows the type of everything it writes, so an implementation may infer the types again and compare,
//! or take them as they are.

use super::diagnostic::Result;
use super::tensor::Tensor;
use std::fmt;
use strata_dialects::TensorType;
use strata_runtime::sym::{Expr, Symbol};

/// `[s0, 1, 8, 8]`.
pub struct ShapeText<'a>(pub &'a [Expr]);

impl fmt::Display for ShapeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

/// A value of the function under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value(pub u32);

/// An attribute of a graph op.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// An integer.
    Int(i64),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text for people.
    Text(&'static str),
    /// A case of an enumeration, such as a comparison's direction.
    Keyword(&'static str),
    /// Sizes or positions that may hold symbols.
    Dims(Vec<Expr>),
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(i) => write!(f, "{i}"),
            Self::Ints(v) => write!(f, "{v:?}"),
            Self::Float(x) => write!(f, "{x:?}"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Text(t) => write!(f, "{t:?}"),
            Self::Keyword(k) => f.write_str(k),
            Self::Dims(v) => write!(f, "{}", ShapeText(v)),
        }
    }
}

/// The function under construction. Every op of the importer has one result.
pub trait Emit {
    /// Begins the function: its symbols and its arguments. Called once, first.
    fn begin(
        &mut self,
        name: &str,
        symbols: &[Symbol],
        arguments: &[(String, TensorType)],
    ) -> Result<Vec<Value>>;

    /// Adds a constant.
    fn constant(&mut self, tensor: &Tensor, at: &str) -> Result<Value>;

    /// Adds an op of the graph dialect. `at` is the ONNX node it comes from.
    fn op(
        &mut self,
        name: &'static str,
        operands: &[Value],
        attributes: &[(&'static str, Attr)],
        result: &TensorType,
        at: &str,
    ) -> Result<Value>;

    /// Ends the function with its named results. `symbols` are those of [`Self::begin`], with what the ops demand of them.
    fn finish(&mut self, symbols: &[Symbol], results: &[(String, Value)]) -> Result<()>;
}
