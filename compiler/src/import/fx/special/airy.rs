//! Airy's function.

use super::on;
use super::tables::{AIRY_DECAY, AIRY_FAR, AIRY_LOW, AIRY_MIDDLE, AIRY_P, AIRY_Q};
use crate::import::fx::calc::{In, Num, unary};
use crate::import::fx::table::Entry;
use std::f64::consts::SQRT_2;

pub const TABLE: &[Entry] = &[("aten.special_airy_ai", |cx, n| unary(cx, n, "x", In::Double, airy))];

/// `ζ = ⅔ |x|^(3/2)`, below at -8 and at 2.
const AT_8: f64 = 15.084_944_665_313_014;
const AT_2: f64 = 1.885_618_083_164_126_7;

/// Polynomials from -8 to 2; from there `e^-ζ / x^¼` times polynomials in 1/ζ, ζ = ⅔ x^(3/2); below -8
/// `(P cos(ζ - π/4) + Q sin(ζ - π/4)) / |x|^¼`. NaN at infinity, as in PyTorch.
fn airy<'x, 'c, 'a>(x: Num<'x, 'c, 'a>) -> Num<'x, 'c, 'a> {
    let a = x.abs();
    let root = a.sqrt();
    let (zeta, quarter) = (a * root * (2.0 / 3.0), root.sqrt());
    let r = zeta.recip();
    let decay = r.lt(0.125).pick(on(r, 0.0, 0.125, AIRY_FAR), on(r, 0.125, 1.0 / AT_2, AIRY_DECAY));
    let above = decay * (-zeta).exp() / quarter;
    let z = r * r;
    let end = 1.0 / (AT_8 * AT_8);
    let (p, q) = (on(z, 0.0, end, AIRY_P), on(z, 0.0, end, AIRY_Q) * r);
    let (sin, cos) = (zeta.sin(), zeta.cos());
    let below = (p * (sin + cos) + q * (sin - cos)) / (quarter * SQRT_2);
    let middle = x.lt(-3.0).pick(on(x, -8.0, -3.0, AIRY_LOW), on(x, -3.0, 2.0, AIRY_MIDDLE));
    let y = x.lt(-8.0).pick(below, x.gt(2.0).pick(above, middle));
    y.or_if(a.eq(f64::INFINITY), f64::NAN)
}
