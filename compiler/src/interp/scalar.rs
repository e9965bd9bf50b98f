//! One evaluator of the scalar ops of `arith`, `math`, `index` and `affine`, on one element at a time. The tensor and the loop
//! interpreters share it.

use super::affine::Affine;
use std::cmp::Ordering;
use strata_dialects::reference::{RefTensor, Rounding, Scalar};
use strata_runtime::DType;

/// An element without its type: the bits of a float64, or a sign-extended integer (`i1`: 0 or 1, `index`: 64 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell(pub u64);

impl Cell {
    /// A float.
    pub fn of_f(x: f64) -> Self {
        Self(x.to_bits())
    }

    /// An integer.
    pub fn of_i(x: i64) -> Self {
        Self(x as u64)
    }

    /// The float.
    pub fn f(self) -> f64 {
        f64::from_bits(self.0)
    }

    /// The integer.
    pub fn i(self) -> i64 {
        self.0 as i64
    }

    /// From an element of a reference tensor.
    pub fn of(x: Scalar) -> Self {
        match x {
            Scalar::F(x) => Self::of_f(x),
            Scalar::I(x) => Self::of_i(x),
        }
    }

    /// As an element of `dtype`.
    pub fn scalar(self, dtype: DType) -> Scalar {
        if dtype.is_float() { Scalar::F(self.f()) } else { Scalar::I(self.i()) }
    }
}

/// What a scalar op computes.
#[derive(Clone, Debug)]
pub(super) enum Function {
    Float1(fn(f64) -> f64),
    Float2(fn(f64, f64) -> f64),
    Fma,
    /// A float and an integer exponent.
    FloatInt(fn(f64, i64) -> f64),
    Int1(fn(i64, DType) -> i64),
    /// `None` where the result is undefined.
    Int2(fn(i64, i64, DType) -> Option<i64>),
    CompareFloat(u8),
    CompareInt(u8),
    Select,
    FloatToInt(Sign),
    IntToFloat(Sign),
    Extend(Sign),
    Wrap,
    Round,
    Bitcast,
    /// The smallest or largest of the map's results; one result is itself.
    Apply(Vec<Affine>, bool),
}

/// How an integer's bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Signed,
    Unsigned,
}

/// A decoded scalar op: the same function on every lane of its operands.
#[derive(Clone, Debug)]
pub struct ScalarOp {
    pub(super) function: Function,
    /// Element type of the operands (of the alternatives, for a selection).
    pub(super) from: DType,
    /// Element type of the result.
    pub(super) to: DType,
    /// Whether float results are rounded to `to`.
    pub(super) round: bool,
}

/// The integer as a two's complement number of its width: `i1` is 0 or -1.
pub(super) fn signed(x: i64, dtype: DType) -> i64 {
    if dtype == DType::I1 { -x } else { x }
}

/// The integer as a natural number of its width.
pub(super) fn unsigned(x: i64, dtype: DType) -> u64 {
    match dtype {
        DType::I1 => x as u64 & 1,
        DType::I8 => x as u8 as u64,
        DType::I16 => x as u16 as u64,
        DType::I32 => x as u32 as u64,
        _ => x as u64,
    }
}

/// Bits of an integer type.
pub(super) fn width(dtype: DType) -> i64 {
    if dtype == DType::I1 { 1 } else { 8 * dtype.size() as i64 }
}

impl ScalarOp {
    /// Evaluates one lane. An error is an undefined result, such as a division by zero.
    #[inline]
    pub fn eval(&self, x: &[Cell]) -> Result<Cell, &'static str> {
        let float = |v: f64| Cell::of_f(if self.round { self.to.round(v) } else { v });
        let int = |v: i64| Cell::of_i(self.to.wrap(v));
        Ok(match &self.function {
            Function::Float2(f) => float(f(x[0].f(), x[1].f())),
            Function::Float1(f) => float(f(x[0].f())),
            Function::Int2(f) => {
                int(f(x[0].i(), x[1].i(), self.from)
                    .ok_or("the result of an integer op is undefined here")?)
            }
            Function::Int1(f) => int(f(x[0].i(), self.from)),
            Function::Fma => {
                let (a, b, c) = (x[0].f(), x[1].f(), x[2].f());
                // In f32 the sum is rounded once; through f64 it would be twice.
                if self.round && self.to == DType::F32 {
                    Cell::of_f((a as f32).mul_add(b as f32, c as f32) as f64)
                } else {
                    float(a.mul_add(b, c))
                }
            }
            Function::FloatInt(f) => float(f(x[0].f(), x[1].i())),
            Function::CompareFloat(p) => Cell::of_i(i64::from(compare_float(*p, x[0].f(), x[1].f()))),
            Function::CompareInt(p) => Cell::of_i(i64::from(compare_int(*p, x[0].i(), x[1].i(), self.from))),
            Function::Select => {
                if x[0].i() != 0 {
                    x[1]
                } else {
                    x[2]
                }
            }
            Function::FloatToInt(Sign::Signed) => Cell::of_i(match self.to {
                DType::I1 => i64::from(x[0].f() != 0.0),
                DType::I8 => x[0].f() as i8 as i64,
                DType::I16 => x[0].f() as i16 as i64,
                DType::I32 => x[0].f() as i32 as i64,
                _ => x[0].f() as i64,
            }),
            Function::FloatToInt(Sign::Unsigned) => int(match self.to {
                DType::I1 => i64::from(x[0].f() != 0.0),
                DType::I8 => x[0].f() as u8 as i64,
                DType::I16 => x[0].f() as u16 as i64,
                DType::I32 => x[0].f() as u32 as i64,
                _ => x[0].f() as u64 as i64,
            }),
            Function::IntToFloat(sign) => match (sign, self.round && self.to == DType::F32) {
                (Sign::Signed, true) => Cell::of_f(signed(x[0].i(), self.from) as f32 as f64),
                (Sign::Signed, false) => float(signed(x[0].i(), self.from) as f64),
                (Sign::Unsigned, true) => Cell::of_f(unsigned(x[0].i(), self.from) as f32 as f64),
                (Sign::Unsigned, false) => float(unsigned(x[0].i(), self.from) as f64),
            },
            Function::Extend(Sign::Signed) => int(signed(x[0].i(), self.from)),
            Function::Extend(Sign::Unsigned) => int(unsigned(x[0].i(), self.from) as i64),
            Function::Wrap => int(x[0].i()),
            Function::Round => float(x[0].f()),
            Function::Bitcast => {
                Cell::of(RefTensor::scalar(self.from, x[0].scalar(self.from)).bitcast(self.to).get(0))
            }
            Function::Apply(maps, largest) => {
                let mut best: Option<i64> = None;
                for m in maps {
                    let v =
                        m.eval(x).ok_or("an affine expression divides by a number that is not positive")?;
                    best = Some(best.map_or(v, |b| if *largest { b.max(v) } else { b.min(v) }));
                }
                Cell::of_i(best.ok_or("an affine map without results")?)
            }
        })
    }

    /// An op that combines two elements of a type, for reductions: `add`, `mul`, `max`, `min`, `and`, `or`, `xor`; max and min of
    /// floats give NaN where one is NaN, those of integers are signed.
    pub fn combiner(kind: &str, dtype: DType, rounding: Rounding) -> Option<Self> {
        let function = match (kind, dtype.is_float()) {
            ("add", true) => Function::Float2(|a, b| a + b),
            ("mul", true) => Function::Float2(|a, b| a * b),
            ("max" | "maximumf", true) => Function::Float2(maximum),
            ("min" | "minimumf", true) => Function::Float2(minimum),
            ("maxnumf", true) => Function::Float2(f64::max),
            ("minnumf", true) => Function::Float2(f64::min),
            ("add", false) => Function::Int2(|a, b, _| Some(a.wrapping_add(b))),
            ("mul", false) => Function::Int2(|a, b, _| Some(a.wrapping_mul(b))),
            ("max" | "maxsi", false) => {
                Function::Int2(|a, b, d| Some(if signed(a, d) >= signed(b, d) { a } else { b }))
            }
            ("min" | "minsi", false) => {
                Function::Int2(|a, b, d| Some(if signed(a, d) <= signed(b, d) { a } else { b }))
            }
            ("maxui", false) => {
                Function::Int2(|a, b, d| Some(if unsigned(a, d) >= unsigned(b, d) { a } else { b }))
            }
            ("minui", false) => {
                Function::Int2(|a, b, d| Some(if unsigned(a, d) <= unsigned(b, d) { a } else { b }))
            }
            ("and", false) => Function::Int2(|a, b, _| Some(a & b)),
            ("or", false) => Function::Int2(|a, b, _| Some(a | b)),
            ("xor", false) => Function::Int2(|a, b, _| Some(a ^ b)),
            _ => return None,
        };
        Some(Self { function, from: dtype, to: dtype, round: rounding == Rounding::Exact })
    }
}

/// The larger; NaN if either is NaN; +0 is larger than -0.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_positive() { a } else { b }
    } else {
        a.max(b)
    }
}

/// The smaller; NaN if either is NaN; -0 is smaller than +0.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { a } else { b }
    } else {
        a.min(b)
    }
}

/// `arith.cmpf` by MLIR's number of the predicate.
fn compare_float(predicate: u8, a: f64, b: f64) -> bool {
    let order = a.partial_cmp(&b);
    match predicate {
        0 => false,
        1 => order == Some(Ordering::Equal),
        2 => order == Some(Ordering::Greater),
        3 => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        4 => order == Some(Ordering::Less),
        5 => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        6 => matches!(order, Some(Ordering::Less | Ordering::Greater)),
        7 => order.is_some(),
        8 => matches!(order, None | Some(Ordering::Equal)),
        9 => matches!(order, None | Some(Ordering::Greater)),
        10 => order != Some(Ordering::Less),
        11 => matches!(order, None | Some(Ordering::Less)),
        12 => order != Some(Ordering::Greater),
        13 => order != Some(Ordering::Equal),
        14 => order.is_none(),
        _ => true,
    }
}

/// `arith.cmpi` by MLIR's number of the predicate.
fn compare_int(predicate: u8, a: i64, b: i64, dtype: DType) -> bool {
    let (s, t) = (signed(a, dtype), signed(b, dtype));
    let (u, v) = (unsigned(a, dtype), unsigned(b, dtype));
    match predicate {
        0 => a == b,
        1 => a != b,
        2 => s < t,
        3 => s <= t,
        4 => s > t,
        5 => s >= t,
        6 => u < v,
        7 => u <= v,
        8 => u > v,
        _ => u >= v,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(function: Function, dtype: DType, round: bool) -> ScalarOp {
        ScalarOp { function, from: dtype, to: dtype, round }
    }

    #[test]
    fn exact_rounds_every_op_and_float64_none() {
        let x = [Cell::of_f(1.0), Cell::of_f(1e-9)];
        let add = |round| op(Function::Float2(|a, b| a + b), DType::F32, round).eval(&x).map(Cell::f);
        assert_eq!(add(true), Ok(1.0));
        assert_eq!(add(false), Ok(1.0 + 1e-9));
    }

    #[test]
    fn i1_is_minus_one_where_the_sign_counts() {
        let x = [Cell::of_i(1), Cell::of_i(0)];
        assert_eq!(op(Function::CompareInt(2), DType::I1, true).eval(&x), Ok(Cell::of_i(1)));
        assert_eq!(op(Function::CompareInt(6), DType::I1, true).eval(&x), Ok(Cell::of_i(0)));
        let add = ScalarOp::combiner("add", DType::I1, Rounding::Exact).expect("known");
        assert_eq!(add.eval(&[Cell::of_i(1), Cell::of_i(1)]), Ok(Cell::of_i(0)));
    }

    #[test]
    fn nan_and_zeros_in_extrema() {
        assert!(maximum(f64::NAN, 1.0).is_nan());
        assert!(minimum(1.0, f64::NAN).is_nan());
        assert!(maximum(-0.0, 0.0).is_sign_positive());
        assert!(minimum(0.0, -0.0).is_sign_negative());
    }

    #[test]
    fn a_fused_multiply_add_rounds_once() {
        let a = 1.0 + f32::EPSILON as f64;
        let x = [Cell::of_f(a), Cell::of_f(a), Cell::of_f(-1.0)];
        let f = |round| op(Function::Fma, DType::F32, round).eval(&x).map(Cell::f);
        assert_eq!(f(true), Ok((a as f32).mul_add(a as f32, -1.0) as f64));
    }
}
