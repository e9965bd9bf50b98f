//! What a row of the op table holds.

use crate::build::{BodyBuilder, Builder};
use crate::reference::{RefTensor, Rounding, Scalar};
use crate::types::TensorType;
use crate::view::OpView;
use melior::ir::Value;

/// A broken constraint of an op: which one, and how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} [{constraint}]")]
pub struct Violation {
    /// The constraint's label in the op's reference page: `C1`, `C2`, ….
    pub constraint: &'static str,
    /// What is wrong, with the values found.
    pub message: String,
}

impl Violation {
    /// A violation as an error.
    pub fn err<T>(constraint: &'static str, message: impl Into<String>) -> Result<T, Self> {
        Err(Self { constraint, message: message.into() })
    }
}

/// What folding an op gives.
pub enum Fold {
    /// One of its operands.
    Operand(usize),
    /// A constant.
    Constant(RefTensor),
}

/// Infers the result types from operands and attributes, checking the constraints on the way.
pub type Infer = fn(&OpView) -> Result<Vec<TensorType>, Violation>;
/// Evaluates the op on concrete tensors; all sizes in the view are numbers.
pub type Eval = fn(&OpView, &[RefTensor], Rounding) -> Result<Vec<RefTensor>, String>;
/// Folds the op, given the operands that are constants.
pub type FoldFn = fn(&OpView, &[Option<RefTensor>]) -> Option<Fold>;
/// One element of a pointwise op.
pub type PointwiseEval = fn(&OpView, &[Scalar]) -> Scalar;
/// Emits one element of a pointwise op as `arith` and `math` ops, in the element types of the operands.
pub type PointwiseBody = for<'c, 'a> fn(&BodyBuilder<'c, 'a>, &OpView, &[Value<'c, 'a>]) -> Value<'c, 'a>;
/// Rewrites a composite in simpler graph ops.
pub type Decompose =
    for<'c, 'a> fn(&Builder<'c, 'a>, &OpView, &[Value<'c, 'a>]) -> Result<Vec<Value<'c, 'a>>, Violation>;

/// How an op gets to the tensor level.
pub enum Lowering {
    /// Element by element; all operands have the result's shape.
    Pointwise {
        /// Its meaning on one element.
        eval: PointwiseEval,
        /// Its body.
        body: PointwiseBody,
    },
    /// By a case of the graph-to-linalg lowering (`compiler/src/tensor/`).
    Structural,
    /// By rewriting in simpler graph ops first.
    Composite(Decompose),
    /// Not at all: it stays in the entry function and becomes part of the plan.
    Plan,
}

/// A numbered constraint, as in the op's reference page.
pub struct Constraint(pub &'static str, pub &'static str);

/// A row of the op table.
pub struct OpSpec {
    /// The name with the dialect: `graph.exp`.
    pub name: &'static str,
    /// What the op computes, in a sentence or a formula.
    pub semantics: &'static str,
    /// StableHLO's op, where there is one.
    pub stablehlo: Option<&'static str>,
    /// ATen's op, where there is one.
    pub aten: Option<&'static str>,
    /// Its constraints.
    pub constraints: &'static [Constraint],
    /// Inference; for an op that states its result types, a check that returns them.
    pub infer: Infer,
    /// Folding beyond constant operands. (Pointwise ops fold constants by themselves.)
    pub fold: Option<FoldFn>,
    /// Evaluation; `None` for pointwise ops, which have it in `lowering`, composites, which decompose, and plan ops.
    pub eval: Option<Eval>,
    /// The way down.
    pub lowering: Lowering,
}

impl OpSpec {
    /// The name without the dialect.
    pub fn mnemonic(&self) -> &'static str {
        self.name.strip_prefix("graph.").unwrap_or(self.name)
    }

    /// Whether the op works element by element.
    pub fn is_pointwise(&self) -> bool {
        matches!(self.lowering, Lowering::Pointwise { .. })
    }

    /// Evaluates the op; `None` where it has no evaluation of its own (composites, calls).
    pub fn evaluate(
        &self,
        view: &OpView,
        operands: &[RefTensor],
        rounding: Rounding,
    ) -> Option<Result<Vec<RefTensor>, String>> {
        if let Lowering::Pointwise { eval, .. } = self.lowering {
            let ty = &view.results[0];
            let shape = ty.static_shape()?;
            let mut row = Vec::with_capacity(operands.len());
            return Some(Ok(vec![RefTensor::generate(ty.dtype, &shape, rounding, |i| {
                row.clear();
                row.extend(operands.iter().map(|t| t.get(i)));
                eval(view, &row)
            })]));
        }
        self.eval.map(|f| f(view, operands, rounding))
    }
}

impl std::fmt::Debug for OpSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
