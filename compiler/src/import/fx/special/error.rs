//! The error function's family.

use super::on;
use super::tables::{ERFCX, ERFINV_0, ERFINV_1, ERFINV_2, ERFINV_3};
use crate::import::fx::calc::{In, Num, unary};
use crate::import::fx::table::Entry;
use std::f64::consts::SQRT_2;
use strata_runtime::DType;

pub const TABLE: &[Entry] = &[
    ("aten.erfc", |cx, n| unary(cx, n, "self", In::Double, erfc)),
    ("aten.special_erfcx", |cx, n| unary(cx, n, "self", In::Double, erfcx)),
    ("aten.erfinv", |cx, n| unary(cx, n, "self", In::Double, erfinv)),
    ("aten.special_ndtri", |cx, n| unary(cx, n, "self", In::Double, ndtri)),
];

/// `e^(a²) erfc a` for a ≥ 0: a polynomial in (a - 4)/(a + 4), by `1 + 2a`.
fn scaled<'x, 'c, 'a>(a: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    (a.c(1.0) - a.c(8.0) / (a + 4.0)).poly(ERFCX) / (a + a + 1.0)
}

/// `e^(±a²)`: the square in two parts, the first exact.
fn exp_square<'x, 'c, 'a>(a: Num<'x, 'c, 'a>, sign: f64) -> Num<'x, 'c, 'a> {
    let b = a.bits(DType::I64);
    let high = (b & b.int(!0x07ff_ffff)).bits(DType::F64);
    let rest = (a - high) * (a + high) * sign;
    let main = (high * high * sign).exp();
    // An infinite a has no rest.
    let rest = rest.or_if(a.eq(f64::INFINITY), 0.0);
    main * rest.exp()
}

/// `1 - erf x`: `e^(-x²) erfcx x` for x ≥ 0, else 2 minus that of -x.
pub fn erfc<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let a = x.abs();
    let y = scaled(a) * exp_square(a, -1.0);
    x.lt(0.0).pick(y.c(2.0) - y, y)
}

/// `e^(x²) erfc x`; for negative x `2 e^(x²)` minus that of -x.
pub fn erfcx<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let a = x.abs();
    let y = scaled(a);
    x.lt(0.0).pick(exp_square(a, 1.0) * 2.0 - y, y)
}

/// `erfinv(x)/x` of `w = -ln(1 - x²)`, in four pieces.
fn inverse<'x, 'c, 'a>(w: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let s = w.sqrt();
    let y = s.lt(8.0).pick(on(s, 4.0, 8.0, ERFINV_2), on(s, 8.0, 27.5, ERFINV_3));
    let y = s.lt(4.0).pick(on(s, 5f64.sqrt(), 4.0, ERFINV_1), y);
    w.lt(5.0).pick(on(w, 0.0, 5.0, ERFINV_0), y)
}

/// The x of which the error function is given.
fn erfinv<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let y = x * inverse(-((x.c(1.0) - x) * (x + 1.0)).log());
    y.or_if(x.eq(1.0), f64::INFINITY).or_if(x.eq(-1.0), f64::NEG_INFINITY)
}

/// `sqrt 2 erfinv(2p - 1)`, where `1 - (2p - 1)² = 4p(1 - p)`.
fn ndtri<'x, 'c, 'a>(p: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let y = (p + p - 1.0) * SQRT_2 * inverse(-(p * (p.c(1.0) - p) * 4.0).log());
    y.or_if(p.eq(0.0), f64::NEG_INFINITY).or_if(p.eq(1.0), f64::INFINITY)
}
