//! Special functions: compositions of the dialect's functions in f64, rounded once to the result's type.
//!
//! Each docstring states the formula. Series have exact coefficients, made here; what has none is a polynomial of `tables`. In f64 the
//! error is some units in the 15th digit (J and Y, whose series cancel towards 8: in the 14th), of the result or, near zeros, of what is
//! usual around them.

mod airy;
mod bessel;
mod chebyshev;
mod error;
mod gamma;
mod tables;

use super::calc::Num;
use super::table::Entry;

/// The ops, by theme.
pub const TABLES: [&[Entry]; 5] = [airy::TABLE, bessel::TABLE, chebyshev::TABLE, error::TABLE, gamma::TABLE];

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

/// A polynomial of `tables`, whose variable runs from -1 to 1 while x runs from `low` to `high`.
fn on<'x, 'c, 'a>(x: Num<'x, 'c, 'a>, low: f64, high: f64, coefficients: &[f64]) -> Num<'x, 'c, 'a> {
    ((x - (low + high) / 2.0) * (2.0 / (high - low))).poly(coefficients)
}

/// `x^n` for a constant n above 0, by squares.
fn power<'x, 'c, 'a>(x: Num<'x, 'c, 'a>, n: u32) -> Num<'x, 'c, 'a> {
    let half = |x| power(x, n / 2);
    match n {
        1 => x,
        n if n.is_multiple_of(2) => half(x * x),
        _ => half(x * x) * x,
    }
}
