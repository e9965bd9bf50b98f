//! Chebyshev polynomials of a degree that is itself a tensor, in closed form.

use crate::import::fx::calc::{In, Num, binary};
use crate::import::fx::table::Entry;

pub const TABLE: &[Entry] = &[
    ("aten.special_chebyshev_polynomial_t", |cx, n| {
        binary(cx, n, OPERANDS, In::Double, |x, n| value(Kind::T, x, n))
    }),
    ("aten.special_chebyshev_polynomial_u", |cx, n| {
        binary(cx, n, OPERANDS, In::Double, |x, n| value(Kind::U, x, n))
    }),
    ("aten.special_chebyshev_polynomial_v", |cx, n| {
        binary(cx, n, OPERANDS, In::Double, |x, n| value(Kind::V, x, n))
    }),
    ("aten.special_chebyshev_polynomial_w", |cx, n| {
        binary(cx, n, OPERANDS, In::Double, |x, n| value(Kind::W, x, n))
    }),
    ("aten.special_shifted_chebyshev_polynomial_t", |cx, n| {
        binary(cx, n, OPERANDS, In::Double, |x, n| value(Kind::T, x + x - 1.0, n))
    }),
    ("aten.special_shifted_chebyshev_polynomial_u", |cx, n| {
        binary(cx, n, OPERANDS, In::Double, |x, n| value(Kind::U, x + x - 1.0, n))
    }),
    ("aten.special_shifted_chebyshev_polynomial_v", |cx, n| {
        binary(cx, n, OPERANDS, In::Double, |x, n| value(Kind::V, x + x - 1.0, n))
    }),
    ("aten.special_shifted_chebyshev_polynomial_w", |cx, n| {
        binary(cx, n, OPERANDS, In::Double, |x, n| value(Kind::W, x + x - 1.0, n))
    }),
];

const OPERANDS: [&str; 2] = ["x", "n"];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    T,
    U,
    V,
    W,
}

/// `1 - e^-y`.
fn rest<'x, 'c, 'a>(y: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    -(-y).op("expm1")
}

/// The value at a ≥ 0.
///
/// With a = cos t up to 1: `T = cos nt`, `U = sin (n+1)t / sin t`, `V = cos (n+½)t / cos ½t`, `W = sin (n+½)t / sin ½t`. With a = cosh t from
/// there, the hyperbolic functions instead, with their common factor `e^nt` taken out so that no quotient overflows.
fn at<'x, 'c, 'a>(kind: Kind, a: Num<'x, 'c, 'a>, n: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let inside = a.min(1.0);
    let t = ((inside.c(1.0) - inside) * (inside + 1.0)).sqrt().op2("atan2", inside);
    let m = n + 0.5;
    let circle = match kind {
        Kind::T => (n * t).cos(),
        Kind::U => ((n + 1.0) * t).sin() / t.sin(),
        Kind::V => (m * t).cos() / (t * 0.5).cos(),
        Kind::W => (m * t).sin() / (t * 0.5).sin(),
    };
    let d = a.max(1.0) - 1.0;
    let s = (d + (d * (d + 2.0)).sqrt()).log1p();
    let s = a.gt(1e150).pick(a.log() + std::f64::consts::LN_2, s);
    let growth = (n * s).exp();
    let hyperbola = match kind {
        Kind::T => growth * 0.5 + (-(n * s)).exp() * 0.5,
        Kind::U => growth * rest((n + 1.0) * s * 2.0) / rest(s * 2.0),
        Kind::V => growth * ((-(m * s * 2.0)).exp() + 1.0) / ((-s).exp() + 1.0),
        Kind::W => growth * rest(m * s * 2.0) / rest(s),
    };
    let y = a.lt(1.0).pick(circle, hyperbola);
    let one = a.eq(1.0);
    match kind {
        Kind::T | Kind::V => y.or_if(one, 1.0),
        Kind::U => one.pick(n + 1.0, y),
        Kind::W => one.pick(n + n + 1.0, y),
    }
}

/// The degree is cut to an integer; below 0 the value is 0. At negative x, T and U are even or odd as the degree is, and V and W change places.
fn value<'x, 'c, 'a>(kind: Kind, x: Num<'x, 'c, 'a>, n: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let n = n.lt(0.0).pick(-(-n).floor(), n.floor());
    let a = x.abs();
    let even = (n * 0.5).eq((n * 0.5).floor());
    let mirrored = match kind {
        Kind::V => at(Kind::W, a, n),
        Kind::W => at(Kind::V, a, n),
        same => at(same, a, n),
    };
    let y = x.lt(0.0).pick(even.pick(mirrored, -mirrored), at(kind, a, n));
    // A constant has its value at infinity and at NaN, too.
    y.or_if(n.eq(0.0), 1.0).or_if(n.lt(0.0), 0.0)
}
