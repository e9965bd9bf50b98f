//! Formulas: numbers with operators, each of which appends a graph op.

use super::lower::{Cx, Many, One, Refusal, direction, wide};
use super::model::Node;
use super::operand::Operand;
use super::table::one;
use melior::ir::Value;
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};
use strata_dialects::reference::Scalar;
use strata_dialects::{Attr, TensorType};
use strata_runtime::DType;

/// Where the ops of a formula go, and the first that was refused.
pub struct Calc<'x, 'c, 'a> {
    cx: &'x Cx<'c, 'a>,
    refused: RefCell<Option<Refusal>>,
}

/// A tensor in a formula.
#[derive(Clone, Copy)]
pub struct Num<'x, 'c, 'a> {
    calc: &'x Calc<'x, 'c, 'a>,
    /// Nothing after a refusal.
    value: Option<Value<'c, 'a>>,
}

/// A formula of one number.
pub type Formula1 = for<'x, 'c, 'a> fn(Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a>;
/// A formula of two numbers of one type.
pub type Formula2 = for<'x, 'c, 'a> fn(Num<'x, 'c, 'a>, Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a>;

/// The value of a formula over tensors of one shape.
pub fn calculate<'c, 'a, const N: usize>(
    cx: &Cx<'c, 'a>,
    operands: [Value<'c, 'a>; N],
    formula: impl for<'x> FnOnce([Num<'x, 'c, 'a>; N]) -> Num<'x, 'c, 'a>,
) -> One<'c, 'a> {
    let calc = Calc { cx, refused: RefCell::new(None) };
    let value = formula(operands.map(|v| Num { calc: &calc, value: Some(v) })).value;
    value.ok_or_else(|| calc.refused.take().unwrap_or_else(|| "a formula without value".into()))
}

/// In what type a formula is computed.
#[derive(Clone, Copy, PartialEq)]
pub enum In {
    /// The result's, f32 where that is narrower.
    Wide,
    /// f64, rounded once to the result's type.
    Double,
    /// The result's.
    Same,
}

impl In {
    fn dtype(self, out: DType) -> DType {
        match self {
            Self::Wide => wide(out),
            Self::Double => DType::F64,
            Self::Same => out,
        }
    }
}

/// An op with the operand `key` by a formula.
pub fn unary<'c, 'a>(cx: &Cx<'c, 'a>, n: &Node, key: &str, how: In, f: Formula1) -> Many<'c, 'a> {
    let out = n.result(0)?.dtype;
    let x = cx.cast(cx.tensor(n, key)?, how.dtype(out))?;
    one(cx.cast(calculate(cx, [x], |[x]| f(x))?, out)?)
}

/// An op with two operands, tensors or numbers, by a formula.
pub fn binary<'c, 'a>(cx: &Cx<'c, 'a>, n: &Node, keys: [&str; 2], how: In, f: Formula2) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let [x, y] = fitted(cx, n, keys, how.dtype(out.dtype))?;
    one(cx.cast(calculate(cx, [x, y], |[x, y]| f(x, y))?, out.dtype)?)
}

/// Two operands in an element type and the shape of the result.
pub fn fitted<'c, 'a>(
    cx: &Cx<'c, 'a>,
    n: &Node,
    keys: [&str; 2],
    dtype: DType,
) -> Result<[Value<'c, 'a>; 2], Refusal> {
    let shape = &n.result(0)?.shape;
    Ok([cx.fit(&cx.operand(n, keys[0])?, dtype, shape)?, cx.fit(&cx.operand(n, keys[1])?, dtype, shape)?])
}

impl<'x, 'c, 'a> Num<'x, 'c, 'a> {
    fn keep(self, result: One<'c, 'a>) -> Self {
        let value = match result {
            Ok(v) => Some(v),
            Err(why) => {
                self.calc.refused.borrow_mut().get_or_insert(why);
                None
            }
        };
        Self { value, ..self }
    }

    fn with(self, others: &[Self], f: impl FnOnce(&Cx<'c, 'a>, &[Value<'c, 'a>]) -> One<'c, 'a>) -> Self {
        let values: Option<Vec<_>> = std::iter::once(&self).chain(others).map(|n| n.value).collect();
        match values {
            Some(v) => self.keep(f(self.calc.cx, &v)),
            None => Self { value: None, ..self },
        }
    }

    /// A graph op of one operand.
    pub fn op(self, name: &str) -> Self {
        self.with(&[], |cx, v| cx.op(name, v))
    }

    /// A graph op of two operands.
    pub fn op2(self, name: &str, other: Self) -> Self {
        self.with(&[other], |cx, v| cx.op(name, v))
    }

    /// The element type.
    pub fn dtype(self) -> DType {
        self.value.map_or(DType::F64, |v| self.calc.cx.ty(v).dtype)
    }

    /// A constant of this type.
    pub fn c(self, value: f64) -> Self {
        self.with(&[], |cx, v| cx.like(v[0], value))
    }

    /// An integer constant of this type; all its bits count.
    pub fn int(self, value: i64) -> Self {
        self.with(&[], |cx, v| {
            let ty = cx.ty(v[0]);
            cx.fit(&Operand::Number(Scalar::I(value)), ty.dtype, &ty.shape)
        })
    }

    /// The same bits in another element type.
    pub fn bits(self, dtype: DType) -> Self {
        self.with(&[], |cx, v| {
            let ty = TensorType { dtype, shape: cx.ty(v[0]).shape };
            Ok(cx.b.graph_as("bitcast", v, &[], &[ty])?[0])
        })
    }

    /// A polynomial, the coefficient of the highest power first.
    pub fn poly(self, coefficients: &[f64]) -> Self {
        self.with(&[], |cx, v| {
            Ok(cx.b.graph1("polynomial", v, &[("coefficients", Attr::Floats(coefficients.to_vec()))])?)
        })
    }

    fn compare(self, direction: i32, other: Self) -> Self {
        self.with(&[other], |cx, v| cx.compare(direction, v[0], v[1]))
    }

    /// `self < other`.
    pub fn lt(self, other: impl AsNum<'x, 'c, 'a>) -> Self {
        self.compare(direction::LT, other.of(self))
    }

    /// `self <= other`.
    pub fn le(self, other: impl AsNum<'x, 'c, 'a>) -> Self {
        self.compare(direction::LE, other.of(self))
    }

    /// `self > other`.
    pub fn gt(self, other: impl AsNum<'x, 'c, 'a>) -> Self {
        self.compare(direction::GT, other.of(self))
    }

    /// `self == other`.
    pub fn eq(self, other: impl AsNum<'x, 'c, 'a>) -> Self {
        self.compare(direction::EQ, other.of(self))
    }

    /// Whether it is NaN.
    pub fn is_nan(self) -> Self {
        self.compare(direction::NE, self)
    }

    /// `self ? yes : no`.
    pub fn pick(self, yes: Self, no: impl AsNum<'x, 'c, 'a>) -> Self {
        let no = no.of(yes);
        self.with(&[yes, no], |cx, v| cx.op("select", v))
    }

    /// A constant where the condition holds.
    pub fn or_if(self, condition: Self, value: f64) -> Self {
        condition.pick(self.c(value), self)
    }

    /// The smaller; NaN if either is.
    pub fn min(self, other: impl AsNum<'x, 'c, 'a>) -> Self {
        self.op2("min", other.of(self))
    }

    /// The larger; NaN if either is.
    pub fn max(self, other: impl AsNum<'x, 'c, 'a>) -> Self {
        self.op2("max", other.of(self))
    }

    /// `|x|` with the sign of the other.
    pub fn copysign(self, other: Self) -> Self {
        self.op2("copysign", other)
    }

    /// Magnitude.
    pub fn abs(self) -> Self {
        self.op("abs")
    }

    /// Square root.
    pub fn sqrt(self) -> Self {
        self.op("sqrt")
    }

    /// `e^x`.
    pub fn exp(self) -> Self {
        self.op("exp")
    }

    /// `ln x`.
    pub fn log(self) -> Self {
        self.op("log")
    }

    /// `ln(1 + x)`.
    pub fn log1p(self) -> Self {
        self.op("log1p")
    }

    /// `sin x`.
    pub fn sin(self) -> Self {
        self.op("sin")
    }

    /// `cos x`.
    pub fn cos(self) -> Self {
        self.op("cos")
    }

    /// The nearest integer, ties to even.
    pub fn round(self) -> Self {
        self.op("round")
    }

    /// The next integer below.
    pub fn floor(self) -> Self {
        self.op("floor")
    }

    /// `1 / x`.
    pub fn recip(self) -> Self {
        self.c(1.0) / self
    }
}

/// What can stand beside a number in a formula.
pub trait AsNum<'x, 'c, 'a> {
    /// As a number of the type of `like`.
    fn of(self, like: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a>;
}

impl<'x, 'c, 'a> AsNum<'x, 'c, 'a> for Num<'x, 'c, 'a> {
    fn of(self, _: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
        self
    }
}

impl<'x, 'c, 'a> AsNum<'x, 'c, 'a> for f64 {
    fn of(self, like: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
        like.c(self)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:literal),*) => {$(
        impl<'x, 'c, 'a, T: AsNum<'x, 'c, 'a>> $trait<T> for Num<'x, 'c, 'a> {
            type Output = Self;
            fn $method(self, other: T) -> Self {
                self.op2($op, other.of(self))
            }
        }
    )*};
}

operators!(Add add "add", Sub sub "sub", Mul mul "mul", Div div "div", BitAnd bitand "and", BitOr bitor "or");

impl Neg for Num<'_, '_, '_> {
    type Output = Self;
    fn neg(self) -> Self {
        self.op("neg")
    }
}

impl Not for Num<'_, '_, '_> {
    type Output = Self;
    fn not(self) -> Self {
        self.op("not")
    }
}
