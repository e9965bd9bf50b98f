//! Building the bodies of pointwise ops.

use super::{Builder, element_type, with_element};
use crate::types::{dtype_of, dtype_to_mlir};
use melior::ir::{Attribute, Type, Value, ValueLike};
use strata_runtime::DType;

/// Emits the body of a pointwise op: `arith` and `math` on scalars, or on vectors of them (all values then have one length).
///
/// Floats narrower than 32 bits are extended to f32 for arithmetic and truncated at the end, so that each op rounds once in its
/// own type. `fast` marks the conversions `fastmath<contract>`, which lets later folding keep f32 between fused ops.
#[derive(Clone, Copy)]
pub struct BodyBuilder<'c, 'a> {
    /// Where ops go.
    pub b: Builder<'c, 'a>,
    /// Whether conversions may be folded away between fused ops (default numerics), or not (`strict`).
    pub fast: bool,
}

impl<'c, 'a> BodyBuilder<'c, 'a> {
    /// The element type of a scalar or vector value.
    pub fn dtype(&self, v: Value<'c, 'a>) -> DType {
        dtype_of(element_type(v.r#type())).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The type with the same vector length as `like` and elements of `dtype` as they are stored.
    pub fn like(&self, like: Value<'c, 'a>, dtype: DType) -> Type<'c> {
        with_element(like.r#type(), dtype_to_mlir(self.b.context, dtype.storage()))
    }

    fn fastmath(&self) -> Vec<(&'static str, Attribute<'c>)> {
        if self.fast { vec![("fastmath", self.b.attr("#arith.fastmath<contract>"))] } else { vec![] }
    }

    /// An op with one operand of the same type as its result.
    pub fn unary(&self, name: &str, x: Value<'c, 'a>) -> Value<'c, 'a> {
        self.b.value(name, &[x], x.r#type(), &self.flags(name))
    }

    /// An op with two operands of the same type as its result.
    pub fn binary(&self, name: &str, x: Value<'c, 'a>, y: Value<'c, 'a>) -> Value<'c, 'a> {
        self.b.value(name, &[x, y], x.r#type(), &self.flags(name))
    }

    /// Contraction into fused multiply-adds is allowed in the default numerics only; integer ops have no such flag.
    fn flags(&self, name: &str) -> Vec<(&'static str, Attribute<'c>)> {
        let float = name.starts_with("math.") && !name.ends_with('i') || name.ends_with('f');
        if float { self.fastmath() } else { vec![] }
    }

    /// A float constant of the type of `like`.
    pub fn float(&self, like: Value<'c, 'a>, x: f64) -> Value<'c, 'a> {
        self.b.float(x, like.r#type())
    }

    /// An integer constant of the type of `like`.
    pub fn int(&self, like: Value<'c, 'a>, x: i64) -> Value<'c, 'a> {
        self.b.int(x, like.r#type())
    }

    /// `arith.cmpf` / `arith.cmpi` with MLIR's number of the predicate.
    pub fn compare(&self, name: &str, predicate: i64, x: Value<'c, 'a>, y: Value<'c, 'a>) -> Value<'c, 'a> {
        self.b.compare(name, predicate, x, y)
    }

    /// `arith.select`.
    pub fn select(&self, c: Value<'c, 'a>, x: Value<'c, 'a>, y: Value<'c, 'a>) -> Value<'c, 'a> {
        self.b.select(c, x, y)
    }

    /// Conversion between element types: floats round to nearest even, float to integer truncates towards zero and saturates,
    /// anything to `i1` compares with zero.
    pub fn cast(&self, x: Value<'c, 'a>, to: DType) -> Value<'c, 'a> {
        self.convert(x, self.dtype(x), to)
    }

    /// The same where `x` holds elements of a type that the value's own type does not tell ([`DType::storage`]).
    pub fn convert(&self, x: Value<'c, 'a>, from: DType, to: DType) -> Value<'c, 'a> {
        crate::scalar::emit_cast(self, x, from, to)
    }

    /// `x` in the type that arithmetic happens in: f32 for f16 and bf16, itself otherwise.
    pub fn wide(&self, x: Value<'c, 'a>) -> Value<'c, 'a> {
        match self.dtype(x) {
            DType::F16 | DType::BF16 => {
                self.b.value("arith.extf", &[x], self.like(x, DType::F32), &self.fastmath())
            }
            _ => x,
        }
    }

    /// An element of `dtype` in the type that its sums are kept in ([`DType::accumulator`]).
    pub fn widened(&self, x: Value<'c, 'a>, dtype: DType) -> Value<'c, 'a> {
        if dtype.storage() == dtype { self.wide(x) } else { self.convert(x, dtype, dtype.accumulator()) }
    }

    /// `x` rounded to `dtype`, if it is wider.
    pub fn narrow(&self, x: Value<'c, 'a>, dtype: DType) -> Value<'c, 'a> {
        let from = self.dtype(x);
        if from == dtype.storage() {
            return x;
        }
        if dtype.storage() != dtype {
            return self.convert(x, from, dtype);
        }
        self.b.value("arith.truncf", &[x], self.like(x, dtype), &self.fastmath())
    }
}
