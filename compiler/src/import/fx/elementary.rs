//! Elementary functions that are compositions of the dialect's, and functions of signs and bits.

use super::calc::{In, Num, binary, calculate, fitted, unary};
use super::lower::{Cx, Many, Refusal, wide};
use super::model::Node;
use super::table::{Entry, one};
use std::f64::consts::{LN_2, PI};
use strata_runtime::DType;

pub const TABLE: &[Entry] = &[
    ("aten.acos", |cx, n| unary(cx, n, "self", In::Wide, |x| cofactor(x).op2("atan2", x))),
    ("aten.asin", |cx, n| unary(cx, n, "self", In::Wide, |x| x.op2("atan2", cofactor(x)))),
    ("aten.atan", |cx, n| unary(cx, n, "self", In::Wide, |x| x.op2("atan2", x.c(1.0)))),
    ("aten.atan2", |cx, n| binary(cx, n, OPERANDS, In::Wide, |y, x| y.op2("atan2", x))),
    ("aten.acosh", |cx, n| unary(cx, n, "self", In::Wide, acosh)),
    ("aten.asinh", |cx, n| unary(cx, n, "self", In::Wide, asinh)),
    ("aten.atanh", |cx, n| unary(cx, n, "self", In::Wide, atanh)),
    ("aten.cosh", |cx, n| unary(cx, n, "self", In::Wide, cosh)),
    ("aten.sinh", |cx, n| unary(cx, n, "self", In::Wide, sinh)),
    ("aten.hypot", |cx, n| binary(cx, n, OPERANDS, In::Double, hypot)),
    ("aten.copysign", |cx, n| binary(cx, n, OPERANDS, In::Same, |x, y| x.copysign(y))),
    ("aten.signbit", signbit),
    ("aten.fmax", |cx, n| binary(cx, n, OPERANDS, In::Same, |x, y| number_of(x, y, "max"))),
    ("aten.fmin", |cx, n| binary(cx, n, OPERANDS, In::Same, |x, y| number_of(x, y, "min"))),
    ("aten.ldexp", |cx, n| binary(cx, n, OPERANDS, In::Same, |x, k| x * k.op("exp2"))),
    ("aten.frexp", frexp),
    ("aten.nextafter", nextafter),
    ("aten.angle", |cx, n| {
        unary(cx, n, "self", In::Wide, |x| x.lt(0.0).pick(x.c(PI), x.is_nan().pick(x, 0.0)))
    }),
    ("aten.bitwise_left_shift", |cx, n| binary(cx, n, OPERANDS, In::Same, |x, k| x.op2("shift_left", k))),
    ("aten.bitwise_right_shift", |cx, n| binary(cx, n, OPERANDS, In::Same, |x, k| x.op2("shift_right", k))),
    ("aten.__lshift__", shift_left),
    ("aten.__rshift__", shift_right),
];

const OPERANDS: [&str; 2] = ["self", "other"];

/// `sqrt(1 - x²)`, without cancellation at 1.
fn cofactor<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    ((x.c(1.0) - x) * (x + 1.0)).sqrt()
}

/// `ln(x + sqrt(x² - 1))`, of `t = x - 1`; for large x `ln 2x`.
fn acosh<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let t = x - 1.0;
    let near = (t + (t * (t + 2.0)).sqrt()).log1p();
    let y = x.gt(1e9).pick(x.log() + LN_2, near);
    y.or_if(x.lt(1.0), f64::NAN)
}

/// `ln(a + sqrt(a² + 1))` of `a = |x|` as `log1p(a + a²/(1 + sqrt(a² + 1)))`; for large a `ln 2a`.
fn asinh<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let a = x.abs();
    let z = a * a;
    let near = (a + z / ((z + 1.0).sqrt() + 1.0)).log1p();
    a.gt(1e9).pick(a.log() + LN_2, near).copysign(x)
}

/// `½ ln((1 + a)/(1 - a))` of `a = |x|` as `½ log1p(2a/(1 - a))`.
fn atanh<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let a = x.abs();
    (((a + a) / (a.c(1.0) - a)).log1p() * 0.5).copysign(x)
}

/// `e^a / 2` in two factors, for a near the end of the range of `e^a`.
fn half_exp<'x, 'c, 'a>(a: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let half = (a * 0.5).exp();
    half * 0.5 * half
}

/// `(e^a + e^-a) / 2`.
fn cosh<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let a = x.abs();
    let e = a.exp();
    a.gt(80.0).pick(half_exp(a), e * 0.5 + e.c(0.5) / e)
}

/// `(e^a - e^-a) / 2` as `(t + t/(t + 1)) / 2`, `t = expm1(a)`.
fn sinh<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let a = x.abs();
    let t = a.op("expm1");
    a.gt(80.0).pick(half_exp(a), (t + t / (t + 1.0)) * 0.5).copysign(x)
}

/// `m sqrt(1 + (n/m)²)` of the larger and the smaller magnitude; infinite where one of them is, even beside a NaN.
fn hypot<'x, 'c, 'a>(x: Num<'x, 'c, 'a>, y: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let (a, b) = (x.abs(), y.abs());
    let (m, n) = (a.max(b), a.min(b));
    let q = n / m.eq(0.0).pick(m.c(1.0), m);
    let y = m * (q * q + 1.0).sqrt();
    y.or_if(a.eq(f64::INFINITY) | b.eq(f64::INFINITY), f64::INFINITY)
}

/// The larger or smaller, of which a NaN is neither.
fn number_of<'x, 'c, 'a>(x: Num<'x, 'c, 'a>, y: Num<'x, 'c, 'a>, op: &str) -> Num<'x, 'c, 'a> {
    let both = x.op2(op, y);
    if !x.dtype().is_float() {
        return both;
    }
    x.is_nan().pick(y, y.is_nan().pick(x, both))
}

/// The integer type with the bits of a float type.
fn integer_of(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::I64 } else { DType::I32 }
}

fn signbit<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let dtype = cx.ty(x).dtype;
    if !dtype.is_float() {
        return one(calculate(cx, [x], |[x]| x.lt(0.0))?);
    }
    let x = cx.cast(x, wide(dtype))?;
    one(calculate(cx, [x], |[x]| x.bits(integer_of(x.dtype())).lt(0.0))?)
}

/// `x = m · 2^k` with ½ ≤ |m| < 1, from the bits; subnormal numbers by a power of two first. Of 0 and what is not finite, k is 0.
fn frexp<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (out, exponent) = (n.result(0)?.dtype, n.result(1)?.dtype);
    let d = wide(out);
    let x = cx.cast(cx.tensor(n, "self")?, d)?;
    let (mantissa, bias, smallest, up) = if d == DType::F64 {
        (52, 1022, f64::MIN_POSITIVE, 54.0)
    } else {
        (23, 126, f64::from(f32::MIN_POSITIVE), 25.0)
    };
    let mask: i64 = (2 * (bias + 1) + 1) << mantissa;
    let m = calculate(cx, [x], |[x]| {
        let b = normal_bits(x, smallest, f64::exp2(up));
        let b = (b & b.int(!mask)) | b.int(bias << mantissa);
        outside(x).pick(x, b.bits(d))
    })?;
    let k = calculate(cx, [x], |[x]| {
        let b = normal_bits(x, smallest, f64::exp2(up));
        let k = (b & b.int(mask)).op2("shift_right", b.int(mantissa)) - b.int(bias);
        let k = x.abs().lt(smallest).pick(k - b.int(up as i64), k);
        k.or_if(outside(x), 0.0)
    })?;
    Ok(vec![Some(cx.cast(m, out)?), Some(cx.cast(k, exponent)?)])
}

fn outside<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    x.eq(0.0) | x.is_nan() | x.abs().eq(f64::INFINITY)
}

/// The bits of x, multiplied by `up` if its magnitude is below `smallest`.
fn normal_bits<'x, 'c, 'a>(x: Num<'x, 'c, 'a>, smallest: f64, up: f64) -> Num<'x, 'c, 'a> {
    x.abs().lt(smallest).pick(x * up, x).bits(integer_of(x.dtype()))
}

/// The neighbour of x on the side of y: one more or less in the bits, which of a bf16 are the upper half of those of an f32.
fn nextafter<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let out = n.result(0)?.dtype;
    let (step, smallest) = match out {
        DType::F64 => (1, f64::from_bits(1)),
        DType::F32 => (1, f64::from(f32::from_bits(1))),
        DType::BF16 => (1 << 16, f64::from(f32::from_bits(1 << 16))),
        other => return Err(Refusal(format!("the neighbour of an {other}"))),
    };
    let [x, y] = fitted(cx, n, OPERANDS, wide(out))?;
    let next = calculate(cx, [x, y], |[x, y]| {
        let b = x.bits(integer_of(x.dtype()));
        let away = y.gt(x).op2("xor", x.lt(0.0));
        let moved = away.pick(b + b.int(step), b - b.int(step)).bits(x.dtype());
        let moved = x.eq(0.0).pick(x.c(smallest).copysign(y), moved);
        let moved = x.eq(y).pick(y, moved);
        (x.is_nan() | y.is_nan()).pick(x + y, moved)
    })?;
    one(cx.cast(next, out)?)
}

/// Of integers a shift, of floats a product with a power of two.
fn shift_left<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    if n.result(0)?.dtype.is_float() {
        return binary(cx, n, OPERANDS, In::Same, |x, k| x * k.op("exp2"));
    }
    binary(cx, n, OPERANDS, In::Same, |x, k| x.op2("shift_left", k))
}

fn shift_right<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    if n.result(0)?.dtype.is_float() {
        return binary(cx, n, OPERANDS, In::Same, |x, k| x / k.op("exp2"));
    }
    binary(cx, n, OPERANDS, In::Same, |x, k| x.op2("shift_right", k))
}
