//! Operands that are tensors or numbers, and PyTorch's rules for their common type.

use super::lower::{Cx, One, Refusal};
use super::model::{Arg, Node};
use melior::ir::Value;
use strata_dialects::reference::Scalar;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// A tensor or a number.
#[derive(Clone)]
pub enum Operand<'c, 'a> {
    /// A tensor.
    Tensor(Value<'c, 'a>),
    /// A float or an integer.
    Number(Scalar),
    /// A truth value.
    Bool(bool),
    /// An integer that is a size.
    Size(Expr),
}

impl<'c, 'a> Operand<'c, 'a> {
    /// Whether it is no tensor.
    pub fn is_number(&self) -> bool {
        !matches!(self, Self::Tensor(_))
    }
}

impl<'c, 'a> Cx<'c, 'a> {
    /// The operand `key`.
    pub fn operand(&self, n: &Node, key: &str) -> Result<Operand<'c, 'a>, Refusal> {
        Ok(match n.args.get(key) {
            Some(Arg::Int(i)) => Operand::Number(Scalar::I(*i)),
            Some(Arg::Float(x)) => Operand::Number(Scalar::F(*x)),
            Some(Arg::Bool(b)) => Operand::Bool(*b),
            Some(Arg::Size(e)) => Operand::Size(e.clone()),
            _ => Operand::Tensor(self.tensor(n, key)?),
        })
    }

    /// The operand in an element type, repeated to a shape.
    pub fn fit(&self, o: &Operand<'c, 'a>, dtype: DType, shape: &[Expr]) -> One<'c, 'a> {
        let value = match o {
            Operand::Tensor(v) => *v,
            Operand::Number(s) => self.scalar(dtype, *s)?,
            Operand::Bool(b) => self.scalar(dtype, Scalar::I(i64::from(*b)))?,
            Operand::Size(e) => self.size(e)?,
        };
        self.expand(value, dtype, shape)
    }

    /// The type in which operands meet: tensors with dimensions decide over those without, tensors over numbers, unless a
    /// later one is of a higher category.
    pub fn common_type(&self, operands: &[Operand<'c, 'a>]) -> DType {
        let (mut dimensioned, mut zero, mut number) = (None, None, None);
        let join = |slot: &mut Option<DType>, d: DType| *slot = Some(slot.map_or(d, |s| promote(s, d)));
        for o in operands {
            match o {
                Operand::Tensor(v) => {
                    let ty = self.ty(*v);
                    join(if ty.rank() > 0 { &mut dimensioned } else { &mut zero }, ty.dtype);
                }
                Operand::Number(Scalar::F(_)) => join(&mut number, DType::F32),
                Operand::Number(Scalar::I(_)) | Operand::Size(_) => join(&mut number, DType::I64),
                Operand::Bool(_) => join(&mut number, DType::I1),
            }
        }
        combine(dimensioned, combine(zero, number)).unwrap_or(DType::F32)
    }
}

fn category(d: DType) -> u8 {
    match d {
        DType::I1 => 0,
        d if d.is_float() => 2,
        _ => 1,
    }
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    match (higher, lower) {
        (Some(h), Some(l)) if category(l) > category(h) => Some(promote(h, l)),
        (Some(h), _) => Some(h),
        (None, l) => l,
    }
}

/// The smallest type that holds both.
pub fn promote(a: DType, b: DType) -> DType {
    use DType::*;
    match (category(a), category(b)) {
        (x, y) if x > y => a,
        (x, y) if x < y => b,
        (2, _) => match (a, b) {
            (F64, _) | (_, F64) => F64,
            (F32, _) | (_, F32) | (F16, BF16) | (BF16, F16) => F32,
            _ => a,
        },
        // The smallest with a sign that holds both.
        _ if (a == U8) != (b == U8) && a.size() == b.size() => I16,
        _ if a.size() >= b.size() => a,
        _ => b,
    }
}
