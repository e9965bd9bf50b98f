//! Bessel functions of order 0 and 1, of all kinds.

use super::tables::*;
use super::{EULER, on};
use crate::import::fx::calc::{In, Num, unary};
use crate::import::fx::table::Entry;
use std::f64::consts::{FRAC_2_PI, PI};

pub const TABLE: &[Entry] = &[
    ("aten.i0", |cx, n| unary(cx, n, "self", In::Double, |x| i(0, x, false))),
    ("aten.special_i0e", |cx, n| unary(cx, n, "self", In::Double, |x| i(0, x, true))),
    ("aten.special_i1", |cx, n| unary(cx, n, "self", In::Double, |x| i(1, x, false))),
    ("aten.special_i1e", |cx, n| unary(cx, n, "self", In::Double, |x| i(1, x, true))),
    ("aten.special_modified_bessel_i0", |cx, n| unary(cx, n, "self", In::Double, |x| i(0, x, false))),
    ("aten.special_modified_bessel_i1", |cx, n| unary(cx, n, "self", In::Double, |x| i(1, x, false))),
    ("aten.special_modified_bessel_k0", |cx, n| unary(cx, n, "self", In::Double, |x| k(0, x, false))),
    ("aten.special_modified_bessel_k1", |cx, n| unary(cx, n, "self", In::Double, |x| k(1, x, false))),
    ("aten.special_scaled_modified_bessel_k0", |cx, n| unary(cx, n, "x", In::Double, |x| k(0, x, true))),
    ("aten.special_scaled_modified_bessel_k1", |cx, n| unary(cx, n, "x", In::Double, |x| k(1, x, true))),
    ("aten.special_bessel_j0", |cx, n| unary(cx, n, "self", In::Double, |x| j(0, x))),
    ("aten.special_bessel_j1", |cx, n| unary(cx, n, "self", In::Double, |x| j(1, x))),
    ("aten.special_bessel_y0", |cx, n| unary(cx, n, "self", In::Double, |x| y(0, x))),
    ("aten.special_bessel_y1", |cx, n| unary(cx, n, "self", In::Double, |x| y(1, x))),
    ("aten.special_spherical_bessel_j0", |cx, n| unary(cx, n, "x", In::Double, spherical_j0)),
];

/// Up to here J, Y and I are power series.
const NEAR: f64 = 8.0;

/// Coefficients `c(k) / (k! (k + order)!)` of `Σ … z^k`, the highest power first.
fn factorials(order: u32, terms: u32, c: impl Fn(u32) -> f64) -> Vec<f64> {
    let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>();
    (0..terms).rev().map(|k| c(k) / (factorial(k) * factorial(k + order))).collect()
}

/// `1 + ½ + … + 1/n`.
fn harmonic(n: u32) -> f64 {
    (1..=n).map(|k| 1.0 / f64::from(k)).sum()
}

fn alternating(k: u32) -> f64 {
    if k.is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// `(x/2)^order`.
fn leading<'x, 'c, 'a>(order: u32, x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    if order == 0 { x.c(1.0) } else { x * 0.5 }
}

/// Terms of a power series up to [`NEAR`]: `16^k / k!²` vanishes beside 1.
const TERMS: u32 = 30;

/// I: `(x/2)^n Σ (x²/4)^k / (k! (k+n)!)` up to 8; from there `e^|x| / sqrt |x|` times a polynomial in 1/|x|. `scaled`: times `e^-|x|`.
fn i<'x, 'c, 'a>(order: u32, x: Num<'x, 'c, 'a>, scaled: bool) -> Num<'x, 'c, 'a> {
    let a = x.abs();
    let near_a = a.min(NEAR);
    let near = leading(order, near_a) * (near_a * near_a * 0.25).poly(&factorials(order, TERMS, |_| 1.0));
    let far = on(a.recip(), 0.0, 1.0 / NEAR, if order == 0 { I0E } else { I1E }) / a.sqrt();
    let below = a.le(NEAR);
    let y = if scaled {
        below.pick(near * (-a).exp(), far)
    } else {
        // In two factors, so that it is infinite only where the result is.
        let half = (a * 0.5).exp();
        below.pick(near, (far * half) * half).or_if(a.eq(f64::INFINITY), f64::INFINITY)
    };
    if order == 1 { y.copysign(x) } else { y }
}

/// K: up to 2 by I and a series, `K0 = -(ln(x/2) + γ) I0 + Σ H_k z^k / k!²` and
/// `K1 = 1/x + ln(x/2) I1 - x/4 Σ (ψ(k+1) + ψ(k+2)) z^k / (k! (k+1)!)`, z = x²/4; from there `e^-x / sqrt x` times polynomials in 1/x.
/// `scaled`: times `e^x`. Infinite at 0, NaN below.
fn k<'x, 'c, 'a>(order: u32, x: Num<'x, 'c, 'a>, scaled: bool) -> Num<'x, 'c, 'a> {
    const LAST: u32 = 16;
    let z = x * x * 0.25;
    let log = (x * 0.5).log();
    let i = leading(order, x) * z.poly(&factorials(order, LAST, |_| 1.0));
    let near = if order == 0 {
        z.poly(&factorials(0, LAST, harmonic)) - (log + EULER) * i
    } else {
        let psi = |k| harmonic(k) + harmonic(k + 1) - 2.0 * EULER;
        x.recip() + log * i - x * 0.25 * z.poly(&factorials(1, LAST, psi))
    };
    let r = x.recip();
    let (middle, far) = if order == 0 { (K0E_MIDDLE, K0E_FAR) } else { (K1E_MIDDLE, K1E_FAR) };
    let beyond = x.lt(8.0).pick(on(r, 0.125, 0.5, middle), on(r, 0.0, 0.125, far)) / x.sqrt();
    let below = x.le(2.0);
    let y = if scaled { below.pick(near * x.exp(), beyond) } else { below.pick(near, beyond * (-x).exp()) };
    y.or_if(x.eq(0.0), f64::INFINITY).or_if(x.lt(0.0), f64::NAN)
}

/// `sqrt(2/πx) (P c - Q s)`, c and s the cosine and sine of `x - π/4 - order π/2 - quarter π/2`.
fn oscillating<'x, 'c, 'a>(order: u32, x: Num<'x, 'c, 'a>, quarter: u32) -> Num<'x, 'c, 'a> {
    let r = x.recip();
    let z = r * r;
    let end = 1.0 / (NEAR * NEAR);
    let (p, q) = if order == 0 { (BESSEL_P0, BESSEL_Q0) } else { (BESSEL_P1, BESSEL_Q1) };
    let (p, q) = (on(z, 0.0, end, p), on(z, 0.0, end, q) * r);
    let (sin, cos) = (x.sin(), x.cos());
    let (plus, minus) = (sin + cos, sin - cos);
    // cos(x - π/4) = plus/√2 and sin(x - π/4) = minus/√2; a quarter turn less makes of (c, s) (s, -c).
    let (c, s) = match (order + quarter) % 4 {
        0 => (plus, minus),
        1 => (minus, -plus),
        _ => (-plus, -minus),
    };
    (p * c - q * s) / (x * PI).sqrt()
}

/// J: `(x/2)^n Σ (-x²/4)^k / (k! (k+n)!)` up to 8, from there by [`oscillating`].
fn j<'x, 'c, 'a>(order: u32, x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let a = x.abs();
    let y = a.le(NEAR).pick(j_series(order, a.min(NEAR)), oscillating(order, a, 0));
    if order == 1 { x.lt(0.0).pick(-y, y) } else { y }
}

fn j_series<'x, 'c, 'a>(order: u32, x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    leading(order, x) * (x * x * 0.25).poly(&factorials(order, TERMS, alternating))
}

/// Y: up to 8 `Y0 = 2/π ((ln(x/2) + γ) J0 - Σ (-z)^k H_k / k!²)` and
/// `Y1 = 2/π ln(x/2) J1 - 2/πx - x/2π Σ (-z)^k (ψ(k+1) + ψ(k+2)) / (k! (k+1)!)`, z = x²/4; from there J with a quarter turn.
/// Minus infinity at 0, NaN below.
fn y<'x, 'c, 'a>(order: u32, x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let a = x.min(NEAR);
    let z = a * a * 0.25;
    let (log, j) = ((a * 0.5).log(), j_series(order, a));
    let near = if order == 0 {
        let sum = z.poly(&factorials(0, TERMS, |k| alternating(k) * harmonic(k)));
        ((log + EULER) * j - sum) * FRAC_2_PI
    } else {
        let psi = |k| alternating(k) * (harmonic(k) + harmonic(k + 1) - 2.0 * EULER);
        (log * j - a.recip() - a * 0.25 * z.poly(&factorials(1, TERMS, psi))) * FRAC_2_PI
    };
    let y = x.le(NEAR).pick(near, oscillating(order, x, 1));
    y.or_if(x.eq(0.0), f64::NEG_INFINITY).or_if(x.lt(0.0), f64::NAN)
}

/// `sin(x)/x`; near 0 `Σ (-x²)^k / (2k+1)!`; 0 at infinity.
fn spherical_j0<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let c: Vec<f64> =
        (0..8u32).rev().map(|k| alternating(k) / (1..=2 * k + 1).map(f64::from).product::<f64>()).collect();
    let y = x.abs().lt(0.5).pick((x * x).poly(&c), x.sin() / x);
    y.or_if(x.abs().eq(f64::INFINITY), 0.0)
}
