//! Helpers that the pointwise rows share: evaluation and bodies of one element.

mod float8;

use crate::build::BodyBuilder;
use crate::reference::Scalar;
use melior::ir::Value;
use strata_runtime::DType;

/// MLIR's numbers of `arith.cmpf` predicates.
pub mod cmpf {
    /// Equal, and ordered.
    pub const OEQ: i64 = 1;
    /// Greater, and ordered.
    pub const OGT: i64 = 2;
    /// Greater or equal, and ordered.
    pub const OGE: i64 = 3;
    /// Less, and ordered.
    pub const OLT: i64 = 4;
    /// Less or equal, and ordered.
    pub const OLE: i64 = 5;
    /// Ordered: neither is NaN.
    pub const ORD: i64 = 7;
    /// Less, or unordered.
    pub const ULT: i64 = 11;
    /// Not equal, or unordered.
    pub const UNE: i64 = 13;
    /// Unordered: one is NaN.
    pub const UNO: i64 = 14;
}

/// MLIR's numbers of `arith.cmpi` predicates.
pub mod cmpi {
    /// Equal.
    pub const EQ: i64 = 0;
    /// Not equal.
    pub const NE: i64 = 1;
    /// Signed less.
    pub const SLT: i64 = 2;
    /// Signed less or equal.
    pub const SLE: i64 = 3;
    /// Signed greater.
    pub const SGT: i64 = 4;
    /// Signed greater or equal.
    pub const SGE: i64 = 5;
    /// Unsigned less.
    pub const ULT: i64 = 6;
    /// Unsigned less or equal.
    pub const ULE: i64 = 7;
    /// Unsigned greater.
    pub const UGT: i64 = 8;
    /// Unsigned greater or equal.
    pub const UGE: i64 = 9;
}

/// A float function of one element.
pub fn float1(x: &[Scalar], f: fn(f64) -> f64) -> Scalar {
    Scalar::F(f(x[0].f()))
}

/// One element by two functions: for floats, for integers.
pub fn both2(x: &[Scalar], f: fn(f64, f64) -> f64, g: fn(i64, i64) -> i64) -> Scalar {
    match (x[0], x[1]) {
        (Scalar::F(a), Scalar::F(b)) => Scalar::F(f(a, b)),
        (a, b) => Scalar::I(g(a.i(), b.i())),
    }
}

/// Emits a float op on the wide type and rounds back.
pub fn emit_float<'c, 'a>(
    b: &BodyBuilder<'c, 'a>,
    x: Value<'c, 'a>,
    f: impl Fn(Value<'c, 'a>) -> Value<'c, 'a>,
) -> Value<'c, 'a> {
    let dtype = b.dtype(x);
    b.narrow(f(b.wide(x)), dtype)
}

/// Emits an op with two operands: a float op on the wide type, or an integer op.
pub fn emit2<'c, 'a>(
    b: &BodyBuilder<'c, 'a>,
    x: &[Value<'c, 'a>],
    float: impl Fn(Value<'c, 'a>, Value<'c, 'a>) -> Value<'c, 'a>,
    int: impl Fn(Value<'c, 'a>, Value<'c, 'a>) -> Value<'c, 'a>,
) -> Value<'c, 'a> {
    let dtype = b.dtype(x[0]);
    if dtype.is_float() { b.narrow(float(b.wide(x[0]), b.wide(x[1])), dtype) } else { int(x[0], x[1]) }
}

/// The value of a conversion between element types. Float to integer truncates and saturates; NaN becomes 0.
pub fn eval_cast(x: Scalar, to: DType) -> Scalar {
    match (x, to.is_float()) {
        (Scalar::F(f), true) => Scalar::F(f),
        (Scalar::I(i), true) => Scalar::F(i as f64),
        (Scalar::I(i), false) if to == DType::I1 => Scalar::I(i64::from(i != 0)),
        (Scalar::I(i), false) => Scalar::I(to.wrap(i)),
        (Scalar::F(f), false) => Scalar::I(match to {
            DType::I1 => i64::from(f != 0.0),
            DType::I16 => f as i16 as i64,
            DType::I8 => f as i8 as i64,
            DType::U8 => f as u8 as i64,
            DType::I32 => f as i32 as i64,
            _ => f as i64,
        }),
    }
}

/// Emits a conversion with the meaning of [`eval_cast`]; `x` holds elements of `from` as they are stored.
pub fn emit_cast<'c, 'a>(b: &BodyBuilder<'c, 'a>, x: Value<'c, 'a>, from: DType, to: DType) -> Value<'c, 'a> {
    if from == to {
        return x;
    }
    if from.is_float8() {
        return emit_cast(b, float8::emit_decode(b, x, from), DType::F32, to);
    }
    if to.is_float8() {
        return float8::emit_encode(b, emit_cast(b, x, from, DType::F32), to);
    }
    let ty = b.like(x, to);
    match (from.is_float(), to.is_float()) {
        (true, true) => {
            // Between f16 and bf16 there is no direct conversion: go through f32.
            let wide = b.wide(x);
            let wide_dtype = b.dtype(wide);
            if wide_dtype == to {
                wide
            } else if to == DType::F64 {
                b.b.value("arith.extf", &[wide], ty, &[])
            } else if wide_dtype == DType::F64 && to == DType::F32 {
                b.b.value("arith.truncf", &[wide], ty, &[])
            } else {
                b.narrow(wide, to)
            }
        }
        (false, false) => match (from, to) {
            (_, DType::I1) => {
                let zero = b.int(x, 0);
                b.compare("arith.cmpi", cmpi::NE, x, zero)
            }
            _ if from != DType::I1 && from.size() == to.size() => x,
            (DType::I1 | DType::U8, _) => b.b.value("arith.extui", &[x], ty, &[]),
            _ if from.size() < to.size() => b.b.value("arith.extsi", &[x], ty, &[]),
            _ => b.b.value("arith.trunci", &[x], ty, &[]),
        },
        (false, true) => {
            let via = if to == DType::F64 { DType::F64 } else { DType::F32 };
            let op = if matches!(from, DType::I1 | DType::U8) { "arith.uitofp" } else { "arith.sitofp" };
            let wide = b.b.value(op, &[x], b.like(x, via), &[]);
            b.narrow(wide, to)
        }
        (true, false) => {
            let x = b.wide(x);
            if to == DType::I1 {
                let zero = b.float(x, 0.0);
                return b.compare("arith.cmpf", cmpf::UNE, x, zero);
            }
            if to == DType::U8 {
                // 0 to 255 in the wider type; what is out of its range stays out of this one's.
                let wide = emit_cast(b, x, b.dtype(x), DType::I32);
                let wide =
                    b.binary("arith.minsi", b.binary("arith.maxsi", wide, b.int(wide, 0)), b.int(wide, 255));
                return b.b.value("arith.trunci", &[wide], ty, &[]);
            }
            let bits = 8 * to.size() as i32;
            let (low, high) = (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1));
            let (low_v, high_v) = (b.float(x, low), b.float(x, high));
            let too_high = b.compare("arith.cmpf", cmpf::OGE, x, high_v);
            let too_low = b.compare("arith.cmpf", cmpf::OLT, x, low_v);
            let nan = b.compare("arith.cmpf", cmpf::UNO, x, x);
            let zero = b.float(x, 0.0);
            // fptosi is undefined outside of the range: convert 0 there, then choose.
            let safe = b.select(too_high, zero, x);
            let safe = b.select(too_low, zero, safe);
            let safe = b.select(nan, zero, safe);
            let int = b.b.value("arith.fptosi", &[safe], ty, &[]);
            let (min, max) = if bits == 64 { (i64::MIN, i64::MAX) } else { (low as i64, high as i64 - 1) };
            let int = b.select(too_high, b.int(int, max), int);
            b.select(too_low, b.int(int, min), int)
        }
    }
}

/// The error function.
pub fn erf(x: f64) -> f64 {
    libm::erf(x)
}

/// `a ^ b` for integers; negative exponents give the truncated quotient 1 / a^|b|.
pub fn int_pow(a: i64, b: i64) -> i64 {
    match (a, b) {
        (_, 0) => 1,
        (1, _) => 1,
        (-1, b) => {
            if b % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, b) if b < 0 => 0,
        (a, b) => {
            let (mut base, mut e, mut out) = (a, b, 1i64);
            while e > 0 {
                if e & 1 == 1 {
                    out = out.wrapping_mul(base);
                }
                base = base.wrapping_mul(base);
                e >>= 1;
            }
            out
        }
    }
}
