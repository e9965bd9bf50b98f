//! sin and cos.

use super::tables::*;
use super::{Cmp, Emit};
use crate::kernel::Val;

/// `sin x` (`shift` 0) or `cos x` (`shift` 1).
///
/// f32: reduced in f64 up to 2^20, above with as many bits of 2/π as it takes. f64: reduced with π/2 in three parts, so accurate up to
/// about 2^30; an argument above that loses a bit for every doubling.
pub fn sin_cos<'c>(e: &Emit<'c>, x: Val<'c>, shift: i64) -> Val<'c> {
    let (r, quadrant) = if e.double() {
        reduce_double(e, x)
    } else {
        let wide = e.typed(e.like("f64"));
        let xd = e.b.value("arith.extf", &[x], wide.ty, &[]);
        let (r, n) = reduce_double(&wide, xd);
        let (large_r, large_n) = reduce_large(e, x);
        let large = wide.cmp(Cmp::Gt, wide.abs(xd), wide.c(1_048_576.0));
        let r = wide.select(large, large_r, r);
        let n = wide.select(large, large_n, n);
        let narrow = e.b.value("arith.truncf", &[r], e.ty, &[]);
        (narrow, e.b.value("arith.trunci", &[n], e.int_ty(), &[]))
    };
    let quadrant = e.int("addi", quadrant, shift);
    let z = e.mul(r, r);
    let (sin, cos) = if e.double() { (SIN_64, COS_64) } else { (SIN_32, COS_32) };
    let s = e.fma(e.mul(e.poly(z, sin), z), r, r);
    let half = e.mul(z, e.c(0.5));
    // 1 - z/2 loses low bits, which are added again.
    let w = e.sub(e.c(1.0), half);
    let lost = e.sub(e.sub(e.c(1.0), w), half);
    let c = e.add(w, e.fma(e.mul(z, z), e.poly(z, cos), lost));
    let swap = e.b.cmpi(1, e.int("andi", quadrant, 1), e.ic(0));
    let y = e.select(swap, c, s);
    let negative = e.b.cmpi(1, e.int("andi", quadrant, 2), e.ic(0));
    let y = e.select(negative, e.neg(y), y);
    // Infinite arguments: NaN. The difference is NaN for NaN too.
    let defined = e.cmp(Cmp::Lt, e.abs(x), e.c(f64::INFINITY));
    let y = e.select(defined, y, e.sub(x, x));
    if shift == 0 { e.select(e.cmp(Cmp::Eq, x, e.c(0.0)), x, y) } else { y }
}

/// `x = n·π/2 + r` in f64: `r` and `n`.
fn reduce_double<'c>(e: &Emit<'c>, x: Val<'c>) -> (Val<'c>, Val<'c>) {
    let (nf, n) = e.nearest(e.mul(x, e.c(std::f64::consts::FRAC_2_PI)));
    let mut r = x;
    for part in HALF_PI {
        r = e.fma(nf, e.c(-part), r);
    }
    (r, n)
}

/// The same for a large f32: its integer mantissa times a window of the bits of 2/π, modulo 4. `r` in f64, `n` in i64.
fn reduce_large<'c>(e: &Emit<'c>, x: Val<'c>) -> (Val<'c>, Val<'c>) {
    let w = e.typed(e.like("f64"));
    let bits = e.bits(x);
    let exponent = e.int("andi", e.int("shrui", bits, 23), 255);
    let mantissa = e.int("ori", e.int("andi", bits, 0x007f_ffff), 0x0080_0000);
    let long = |v: Val<'c>| e.b.value("arith.extui", &[v], w.int_ty(), &[]);
    let (mantissa, exponent) = (long(mantissa), long(exponent));
    // |x| = mantissa · 2^shift. Product bits above 2^2 are multiples of 4 and fall off, so the window starts `shift - 2` bits after
    // the point; for this branch shift ≥ -3, and a word of zeros stands before the point.
    let shift = w.int("subi", exponent, 150);
    let start = w.int("addi", shift, 30);
    let start = w.ints("maxsi", start, w.ic(0));
    let word = w.int("shrui", start, 5);
    let inside = w.int("andi", start, 31);
    let pick = |k: usize| {
        // Words are numbered with the zero word first; exponents reach word 4.
        let at = |i: usize| w.ic(if i == 0 { 0 } else { TWO_OVER_PI[i - 1] });
        let mut v = at(k + 4);
        for i in (0..4).rev() {
            v = w.select(e.b.cmpi(0, word, w.ic(i as i64)), at(k + i), v);
        }
        v
    };
    let words = [pick(0), pick(1), pick(2), pick(3)];
    let join = |high: Val<'c>, low: Val<'c>| {
        let both = w.ints("ori", w.int("shli", high, 32), low);
        let moved = w.ints("shli", both, inside);
        w.int("shrui", moved, 32)
    };
    let (a, b, c) = (join(words[0], words[1]), join(words[1], words[2]), join(words[2], words[3]));
    // mantissa · 0.abc · 2^2 modulo 4, as a fraction of 2^64.
    let high = w.int("shli", w.ints("muli", mantissa, a), 32);
    let middle = w.ints("muli", mantissa, b);
    let low = w.int("shrui", w.ints("muli", mantissa, c), 32);
    let p = w.ints("addi", w.ints("addi", high, middle), low);
    // The nearest quarter turn, and what is left as a signed fraction.
    let n = w.int("shrui", w.ints("addi", p, w.ic(1 << 61)), 62);
    let rest = w.ints("subi", p, w.int("shli", n, 62));
    let rest = w.b.value("arith.sitofp", &[rest], w.ty, &[]);
    let r = w.mul(rest, w.c(std::f64::consts::FRAC_PI_2 / 4_611_686_018_427_387_904.0));
    let negative = e.b.cmpi(2, bits, e.ic(0));
    let r = w.select(negative, w.neg(r), r);
    let n = w.select(negative, w.ints("subi", w.ic(0), n), n);
    (r, n)
}
