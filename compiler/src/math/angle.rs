//! atan2.

use super::tables::{ATAN_32, ATAN_64, QUARTER_PI_32, QUARTER_PI_64};
use super::{Cmp, Emit};
use crate::kernel::Val;

/// The angle of the point (x, y).
///
/// `t`, the smaller magnitude by the larger, is brought below tan(π/8) by `atan t = π/4 + atan((t - 1)/(t + 1))`, written on numerator and
/// denominator, so that one division does both. What is left is an odd polynomial, and a multiple of π/4 in two parts.
pub fn atan2<'c>(e: &Emit<'c>, y: Val<'c>, x: Val<'c>) -> Val<'c> {
    let (polynomial, [high, low]) =
        if e.double() { (ATAN_64, QUARTER_PI_64) } else { (ATAN_32, QUARTER_PI_32) };
    let (zero, one, infinity) = (e.c(0.0), e.c(1.0), e.c(f64::INFINITY));
    let (a, b) = (e.abs(y), e.abs(x));
    let steep = e.cmp(Cmp::Gt, a, b);
    let (n, d) = (e.select(steep, b, a), e.select(steep, a, b));
    // Two infinities count as equal numbers, and two zeros as a point on the axis.
    let endless = e.ints_bool("andi", e.cmp(Cmp::Eq, a, b), e.cmp(Cmp::Eq, a, infinity));
    let (n, d) = (e.select(endless, one, n), e.select(endless, one, d));
    let d = e.select(e.cmp(Cmp::Eq, d, zero), one, d);
    // The sum below must not overflow.
    let (large, factor) = if e.double() { (1e300, f64::exp2(-64.0)) } else { (1e30, f64::exp2(-32.0)) };
    let factor = e.select(e.cmp(Cmp::Gt, d, e.c(large)), e.c(factor), one);
    let (n, d) = (e.mul(n, factor), e.mul(d, factor));
    let diagonal = e.cmp(Cmp::Gt, n, e.mul(d, e.c(std::f64::consts::SQRT_2 - 1.0)));
    let t = e.div(e.select(diagonal, e.sub(n, d), n), e.select(diagonal, e.add(n, d), d));
    let z = e.mul(t, t);
    let p = e.fma(e.mul(e.poly(z, polynomial), z), t, t);
    // angle = m·π/4 ± p.
    let m = e.select(diagonal, one, zero);
    let (m, p) = (e.select(steep, e.sub(e.c(2.0), m), m), e.select(steep, e.neg(p), p));
    let left = e.negative(x);
    let (m, p) = (e.select(left, e.sub(e.c(4.0), m), m), e.select(left, e.neg(p), p));
    let angle = e.fma(m, e.c(high), e.fma(m, e.c(low), p));
    e.with_sign(angle, y)
}
