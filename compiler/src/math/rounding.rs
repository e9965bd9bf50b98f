//! floor, ceil, trunc, round-half-even without instructions for them, absolute values and integer powers.

use super::{Cmp, Emit};
use crate::kernel::Val;
use melior::ir::ValueLike;

/// The nearest integer, halves to even.
pub fn round_even<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    // Above 2^23 (2^52) every float is an integer; below, adding that much rounds to one.
    let limit = e.c(if e.double() { 4_503_599_627_370_496.0 } else { 8_388_608.0 });
    let a = e.abs(x);
    let rounded = e.with_sign(e.sub(e.add(a, limit), limit), x);
    e.select(e.cmp(Cmp::Lt, a, limit), rounded, x)
}

/// The largest integer not above `x`.
pub fn floor<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    let r = round_even(e, x);
    let above = e.cmp(Cmp::Gt, r, x);
    let y = e.select(above, e.sub(r, e.c(1.0)), r);
    keep_zero_sign(e, y, x)
}

/// The smallest integer not below `x`.
pub fn ceil<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    let r = round_even(e, x);
    let below = e.cmp(Cmp::Lt, r, x);
    let y = e.select(below, e.add(r, e.c(1.0)), r);
    keep_zero_sign(e, y, x)
}

/// The integer part.
pub fn trunc<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    e.with_sign(floor(e, e.abs(x)), x)
}

/// A zero result has the sign of the argument.
fn keep_zero_sign<'c>(e: &Emit<'c>, y: Val<'c>, x: Val<'c>) -> Val<'c> {
    e.select(e.cmp(Cmp::Eq, y, e.c(0.0)), e.with_sign(e.c(0.0), x), y)
}

/// `|x|` of signed integers.
pub fn absi<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    let zero = e.b.int(0, x.r#type());
    let negative = e.b.value("arith.subi", &[zero, x], x.r#type(), &[]);
    e.b.value("arith.maxsi", &[x, negative], x.r#type(), &[])
}

/// `x^n` of integers, wrapping. A negative exponent gives 1/x^|n| cut to an integer: 1 or -1 for those bases, else 0.
pub fn ipowi<'c>(e: &Emit<'c>, x: Val<'c>, n: Val<'c>, bits: i64) -> Val<'c> {
    let ty = x.r#type();
    let int = |op: &str, a: Val<'c>, b: Val<'c>| e.b.value(&format!("arith.{op}"), &[a, b], ty, &[]);
    let c = |v: i64| e.b.int(v, ty);
    let (mut result, mut base) = (c(1), x);
    for bit in 0..bits - 1 {
        let set = e.b.cmpi(1, int("andi", n, c(1 << bit)), c(0));
        result = e.b.select(set, int("muli", result, base), result);
        base = int("muli", base, base);
    }
    let odd = e.b.cmpi(1, int("andi", n, c(1)), c(0));
    let minus = e.b.select(odd, c(-1), c(1));
    let reciprocal = e.b.select(e.b.cmpi(0, x, c(-1)), minus, c(0));
    let reciprocal = e.b.select(e.b.cmpi(0, x, c(1)), c(1), reciprocal);
    e.b.select(e.b.cmpi(2, n, c(0)), reciprocal, result)
}
