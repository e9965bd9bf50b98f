//! The gamma function's family.

use super::power;
use crate::import::fx::calc::{In, Num, binary, calculate, unary};
use crate::import::fx::lower::{Cx, Many, Refusal};
use crate::import::fx::model::Node;
use crate::import::fx::table::{Entry, one};
use std::f64::consts::PI;
use strata_runtime::DType;

pub const TABLE: &[Entry] = &[
    ("aten.lgamma", |cx, n| unary(cx, n, "self", In::Double, lgamma)),
    ("aten.digamma", |cx, n| unary(cx, n, "self", In::Double, digamma)),
    ("aten.polygamma", polygamma),
    ("aten.special_zeta", |cx, n| {
        binary(cx, n, ["self", "other"], In::Double, |s, q| zeta(Order::Any(s), q))
    }),
];

/// Bernoulli's numbers `B2, B4, …`.
const BERNOULLI: [f64; 12] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174_611.0 / 330.0,
    854_513.0 / 138.0,
    -236_364_091.0 / 2730.0,
];

/// From here on asymptotic series are accurate; arguments below move up by as much, with the recurrence.
const FAR: f64 = 9.0;

/// `Σ B2k f(k) z^(k-1)`, as coefficients of z.
fn series(terms: usize, f: impl Fn(f64) -> f64) -> Vec<f64> {
    (0..terms).rev().map(|i| BERNOULLI[i] * f((i + 1) as f64)).collect()
}

/// `sin πx`, of the distance to the nearest integer.
fn sin_pi<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    ((x - x.round()) * PI).sin()
}

/// Stirling: `(x - ½) ln x - x + ½ ln 2π + Σ B2k / (2k (2k-1) x^(2k-1))` from 9 on; below, `ln Γ(x) = ln Γ(x + 9) - ln(x (x+1) … (x+8))`;
/// for x < ½, `ln Γ(x) = ln(π / |sin πx|) - ln Γ(1 - x)`. Infinite at 0, -1, ….
fn lgamma<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let reflected = x.lt(0.5);
    let a = reflected.pick(x.c(1.0) - x, x);
    let near = a.lt(FAR);
    let product = (1..FAR as i32).fold(a, |p, k| p * (a + f64::from(k)));
    let y = near.pick(a + FAR, a);
    let r = y.recip();
    let correction = r * (r * r).poly(&series(8, |k| 1.0 / (2.0 * k * (2.0 * k - 1.0))));
    // y (ln y - 1) - ½ ln y does not overflow before the result does.
    let log = y.log();
    let far = y * (log - 1.0) - log * 0.5 + (2.0 * PI).ln() / 2.0 + correction;
    let value = near.pick(far - product.log(), far);
    let mirror = (sin_pi(x).abs().recip() * PI).log() - value;
    let value = reflected.pick(mirror, value);
    // Exact zeros, which the difference misses by a unit in the 16th digit.
    let value = value.or_if(x.eq(1.0) | x.eq(2.0), 0.0);
    let pole = x.le(0.0) & x.eq(x.floor());
    value.or_if(pole | x.abs().eq(f64::INFINITY), f64::INFINITY)
}

/// `ln x - 1/2x - Σ B2k / (2k x^2k)` from 9 on; below, `ψ(x) = ψ(x + 9) - Σ 1/(x + k)`; for x < ½, `ψ(x) = ψ(1 - x) - π/tan πx`.
/// At 0 infinite with the opposite sign of the zero, at negative integers NaN.
fn digamma<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let reflected = x.lt(0.5);
    let a = reflected.pick(x.c(1.0) - x, x);
    let near = a.lt(FAR);
    let sum = (1..FAR as i32).fold(a.recip(), |s, k| s + (a + f64::from(k)).recip());
    let y = near.pick(a + FAR, a);
    let r = y.recip();
    let z = r * r;
    let far = y.log() - r * 0.5 - z * z.poly(&series(8, |k| 1.0 / (2.0 * k)));
    let value = near.pick(far - sum, far);
    let angle = (x - x.round()) * PI;
    let value = reflected.pick(value - angle.cos() / angle.sin() * PI, value);
    let value = value.or_if(x.lt(0.0) & x.eq(x.floor()), f64::NAN);
    x.eq(0.0).pick(value.c(f64::INFINITY).copysign(-x), value)
}

/// The exponent of a zeta function.
#[derive(Clone, Copy)]
enum Order<'x, 'c, 'a> {
    /// A constant above 1.
    Whole(u32),
    Any(Num<'x, 'c, 'a>),
}

impl<'x, 'c, 'a> Order<'x, 'c, 'a> {
    /// `a^-s`, of a > 0.
    fn inverse_power(self, a: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
        match self {
            Self::Whole(s) => power(a.recip(), s),
            Self::Any(s) => (-s * a.log()).exp(),
        }
    }

    fn number(self, like: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
        match self {
            Self::Whole(s) => like.c(f64::from(s)),
            Self::Any(s) => s,
        }
    }
}

/// `Σ (q + k)^-s` for q > 0 by Euler and Maclaurin: nine terms, then with `a = q + 9`
/// `a^-s (a/(s-1) + ½ + Σ B2k/(2k)! s (s+1) … (s+2k-2) a^(1-2k))`.
fn hurwitz<'x, 'c, 'a>(order: Order<'x, 'c, 'a>, q: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let first = order.inverse_power(q);
    let sum = (1..FAR as i32).fold(first, |sum, k| sum + order.inverse_power(q + f64::from(k)));
    let a = q + FAR;
    let (s, r) = (order.number(q), a.recip());
    let mut tail = a / (s - 1.0) + 0.5;
    let (mut factor, mut factorial) = (s * r, 2.0);
    for (i, b) in BERNOULLI.iter().enumerate() {
        let k = (2 * i) as f64;
        tail = tail + factor * (b / factorial);
        factor = factor * r * r * (s + (k + 1.0)) * (s + (k + 2.0));
        factorial *= (k + 3.0) * (k + 4.0);
    }
    sum + order.inverse_power(a) * tail
}

/// Hurwitz's zeta function. For negative q and a whole s, with f = q - floor q, the terms below 0 are those of another zeta function:
/// `ζ(s, q) = ζ(s, f) + (-1)^s (ζ(s, 1 - f) - ζ(s, 1 - q))`. As in PyTorch: infinite for s = 1 and for q = 0, -1, …; NaN for s < 1 and for
/// other negative q where s is not whole.
fn zeta<'x, 'c, 'a>(order: Order<'x, 'c, 'a>, q: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let below = q.lt(0.0);
    let f = q - q.floor();
    let first = hurwitz(order, below.pick(f, q));
    let mirror = hurwitz(order, q.c(1.0) - f) - hurwitz(order, below.pick(q.c(1.0) - q, q + 1.0));
    let pole = q.le(0.0) & q.eq(q.floor());
    match order {
        Order::Whole(s) => {
            let value = below.pick(if s.is_multiple_of(2) { first + mirror } else { first - mirror }, first);
            value.or_if(pole, f64::INFINITY)
        }
        Order::Any(s) => {
            let even = (s * 0.5).eq((s * 0.5).floor());
            let value = below.pick(even.pick(first + mirror, first - mirror), first);
            let value = value.or_if(below & !s.eq(s.floor()), f64::NAN);
            value.or_if(pole, f64::INFINITY).or_if(s.lt(1.0), f64::NAN).or_if(s.eq(1.0), f64::INFINITY)
        }
    }
}

/// The n-th derivative of digamma: `(-1)^(n+1) n! ζ(n + 1, x)`.
fn polygamma<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let order = n.int("n")?;
    if order == 0 {
        return unary(cx, n, "self", In::Double, digamma);
    }
    let order = u32::try_from(order)
        .ok()
        .filter(|n| *n <= 100)
        .ok_or_else(|| Refusal(format!("the derivative of order {order} of digamma")))?;
    let factorial: f64 = (1..=order).map(f64::from).product();
    let x = cx.cast(cx.tensor(n, "self")?, DType::F64)?;
    let sign = if order % 2 == 1 { 1.0 } else { -1.0 };
    let y = calculate(cx, [x], |[x]| zeta(Order::Whole(order + 1), x) * (sign * factorial))?;
    one(cx.cast(y, n.result(0)?.dtype)?)
}
