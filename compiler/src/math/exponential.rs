//! exp, exp2, expm1, log, log1p, tanh, erf, powf.

use super::tables::*;
use super::{Cmp, Emit};
use crate::kernel::Val;
use melior::ir::ValueLike;
use std::f64::consts::{LN_2, LOG2_E};
use strata_dialects::build::element_type;

/// `x = n·ln2 + r`: `e^r - 1` and `n`, for `x` in the range where `n` is an exponent (or NaN).
fn reduced_expm1<'c>(e: &Emit<'c>, x: Val<'c>) -> (Val<'c>, Val<'c>) {
    let ([high, low], p) = if e.double() { (LN2_64, EXPM1_64) } else { (LN2_32, EXPM1_32) };
    let (nf, n) = e.nearest(e.mul(x, e.c(LOG2_E)));
    let r = e.fma(nf, e.c(-high), x);
    let r = e.fma(nf, e.c(-low), r);
    (polynomial_expm1(e, r, p), n)
}

/// `e^r - 1` for |r| ≤ ln2/2.
fn polynomial_expm1<'c>(e: &Emit<'c>, r: Val<'c>, p: &[f64]) -> Val<'c> {
    let q = e.mul(e.poly(r, p), e.mul(r, r));
    e.add(r, q)
}

/// `y · 2^n` in two steps, so that results below the normal range are rounded once and those above become infinite.
fn scale<'c>(e: &Emit<'c>, y: Val<'c>, n: Val<'c>) -> Val<'c> {
    let half = e.int("shrsi", n, 1);
    let rest = e.ints("subi", n, half);
    e.mul(e.mul(y, e.exp2_int(half)), e.exp2_int(rest))
}

/// Whether the GPU's approximations may be used.
fn fast(e: &Emit<'_>) -> bool {
    !e.double() && e.hw.is_fast()
}

/// `e^x`.
pub fn exp<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    if fast(e) {
        return e.intrinsic("llvm.nvvm.ex2.approx.ftz.f", &[e.mul(x, e.c(LOG2_E))]);
    }
    let x = if e.double() { e.clamp(x, -746.0, 710.0) } else { e.clamp(x, -104.0, 89.0) };
    let (q, n) = reduced_expm1(e, x);
    scale(e, e.add(q, e.c(1.0)), n)
}

/// `2^x`.
pub fn exp2<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    if fast(e) {
        return e.intrinsic("llvm.nvvm.ex2.approx.ftz.f", &[x]);
    }
    let x = if e.double() { e.clamp(x, -1077.0, 1025.0) } else { e.clamp(x, -151.0, 129.0) };
    let (nf, n) = e.nearest(x);
    let r = e.mul(e.sub(x, nf), e.c(LN_2));
    let q = polynomial_expm1(e, r, if e.double() { EXPM1_64 } else { EXPM1_32 });
    scale(e, e.add(q, e.c(1.0)), n)
}

/// `e^x - 1`.
pub fn expm1<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    let cut = if e.double() { e.clamp(x, -40.0, 710.0) } else { e.clamp(x, -20.0, 89.0) };
    let (q, n) = reduced_expm1(e, cut);
    // 2·(q·2^(n-1) + (2^(n-1) - 1/2)): the power stays in range up to the largest result.
    let s = e.exp2_int(e.int("subi", n, 1));
    let half = e.fma(q, s, e.sub(s, e.c(0.5)));
    let y = e.add(half, half);
    let tiny = e.c(if e.double() { 1e-17 } else { 1e-8 });
    e.select(e.cmp(Cmp::Lt, e.abs(x), tiny), x, y)
}

/// `ln x`.
pub fn log<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    let double = e.double();
    let mantissa = if double { 52 } else { 23 };
    // Below the normal range, by a power of two first.
    let (smallest, up) =
        if double { (f64::MIN_POSITIVE, 54.0) } else { (f64::from(f32::MIN_POSITIVE), 25.0) };
    let small = e.cmp(Cmp::Lt, x, e.c(smallest));
    let scaled = e.select(small, e.mul(x, e.c(f64::exp2(up))), x);
    let bits = e.bits(scaled);
    // x = m · 2^k with m from sqrt(1/2) to sqrt(2).
    let root = if double {
        std::f64::consts::FRAC_1_SQRT_2.to_bits() as i64
    } else {
        i64::from(std::f32::consts::FRAC_1_SQRT_2.to_bits())
    };
    let k = e.int("shrsi", e.int("subi", bits, root), mantissa);
    let m = e.of_bits(e.ints("subi", bits, e.int("shli", k, mantissa)));
    let kf = e.b.value("arith.sitofp", &[k], e.ty, &[]);
    let kf = e.select(small, e.sub(kf, e.c(up)), kf);
    let f = e.sub(m, e.c(1.0));
    let s = e.div(f, e.add(f, e.c(2.0)));
    let z = e.mul(s, s);
    let twice = e.mul(e.add(z, z), e.poly(z, if double { LOG_64 } else { LOG_32 }));
    let half = e.mul(e.mul(f, f), e.c(0.5));
    let [high, low] = if double { LN2_64 } else { LN2_32 };
    // ln m = f - (half - s·(half + twice)), and k·ln2, smallest terms first.
    let t = e.fma(s, e.add(half, twice), e.mul(kf, e.c(low)));
    let t = e.sub(f, e.sub(half, t));
    let y = e.fma(kf, e.c(high), t);
    let y = e.select(e.cmp(Cmp::Eq, x, e.c(f64::INFINITY)), x, y);
    let outside = e.select(e.cmp(Cmp::Eq, x, e.c(0.0)), e.c(f64::NEG_INFINITY), e.c(f64::NAN));
    e.select(e.cmp(Cmp::Gt, x, e.c(0.0)), y, outside)
}

/// `ln(1 + x)`: the rounding error of the sum is undone by a quotient.
pub fn log1p<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    let one = e.c(1.0);
    let u = e.add(x, one);
    let y = e.mul(log(e, u), e.div(x, e.sub(u, one)));
    let y = e.select(e.cmp(Cmp::Eq, u, one), x, y);
    e.select(e.cmp(Cmp::Eq, x, e.c(f64::INFINITY)), x, y)
}

/// `tanh x`.
pub fn tanh<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    let a = e.abs(x);
    if fast(e) {
        // Both forms are odd by themselves: no sign to take off and put back, in a function that decides the speed of a GELU.
        let z = e.mul(x, x);
        let near = e.fma(e.mul(e.poly(z, TANH_32), z), x, x);
        let power = e.intrinsic("llvm.nvvm.ex2.approx.ftz.f", &[e.mul(x, e.c(2.0 * LOG2_E))]);
        let part = e.intrinsic("llvm.nvvm.rcp.approx.ftz.f", &[e.add(power, e.c(1.0))]);
        let far = e.fma(part, e.c(-2.0), e.c(1.0));
        return e.select(e.cmp(Cmp::Lt, a, e.c(0.6)), near, far);
    }
    let cut = e.clamp(a, 0.0, if e.double() { 20.0 } else { 10.0 });
    let t = expm1(e, e.add(cut, cut));
    e.with_sign(e.div(t, e.add(t, e.c(2.0))), x)
}

/// `erf x`.
pub fn erf<'c>(e: &Emit<'c>, x: Val<'c>) -> Val<'c> {
    let a = e.abs(x);
    let z = e.mul(x, x);
    let (near, limit, log_erfc) = if e.double() {
        let cut = e.clamp(a, 1.0, 6.0);
        let middle = e.poly(e.sub(cut, e.c(2.0)), LERFC_64_NEAR);
        let far = e.poly(e.sub(cut, e.c(4.5)), LERFC_64_FAR);
        (ERF_64, 1.0, e.select(e.cmp(Cmp::Lt, cut, e.c(3.0)), middle, far))
    } else {
        (ERF_32, 0.925, e.poly(e.clamp(a, 0.92, 4.0), LERFC_32))
    };
    let near = e.fma(e.poly(z, near), a, a);
    let far = e.sub(e.c(1.0), exp(e, log_erfc));
    e.with_sign(e.select(e.cmp(Cmp::Lt, a, e.c(limit)), near, far), x)
}

/// `x^y`. In f64 inside for f32, so that the product with `y` costs no accuracy.
pub fn powf<'c>(e: &Emit<'c>, x: Val<'c>, y: Val<'c>) -> Val<'c> {
    let wide = e.typed(e.like("f64"));
    let narrow = element_type(x.r#type()) != e.b.ty("f64");
    let widen = |v: Val<'c>| if narrow { e.b.value("arith.extf", &[v], wide.ty, &[]) } else { v };
    let a = e.abs(x);
    let product = wide.mul(widen(y), log(&wide, widen(a)));
    let mut r = exp(&wide, product);
    if narrow {
        r = e.b.value("arith.truncf", &[r], e.ty, &[]);
    }
    let one = e.c(1.0);
    let zero = e.c(0.0);
    // |x| = 1 gives 1 also for an infinite y.
    let unit = e.cmp(Cmp::Eq, a, one);
    let number = e.cmp(Cmp::Eq, y, y);
    r = e.select(e.ints_bool("andi", unit, number), one, r);
    // A negative base has the parity of an integer exponent, and no other exponent.
    let whole = super::rounding::floor(e, y);
    let is_whole = e.cmp(Cmp::Eq, whole, y);
    let halved = e.mul(y, e.c(0.5));
    let is_even = e.cmp(Cmp::Eq, super::rounding::floor(e, halved), halved);
    let sign_set = e.b.cmpi(2, e.bits(x), e.ic(0));
    let odd = e.ints_bool("andi", is_whole, e.not(is_even));
    let flip = e.ints_bool("andi", sign_set, odd);
    r = e.select(flip, e.neg(r), r);
    let finite_negative =
        e.ints_bool("andi", e.cmp(Cmp::Lt, x, zero), e.cmp(Cmp::Gt, x, e.c(f64::NEG_INFINITY)));
    let undefined = e.ints_bool("andi", finite_negative, e.not(is_whole));
    r = e.select(undefined, e.c(f64::NAN), r);
    // x^0 and 1^y are 1 even for NaN; NaN and the undefined case else stay.
    r = e.select(e.cmp(Cmp::Nan, x, y), e.add(x, y), r);
    let trivial = e.ints_bool("ori", e.cmp(Cmp::Eq, y, zero), e.cmp(Cmp::Eq, x, one));
    e.select(trivial, one, r)
}
