//! The remainder of floats, exactly, as C's `fmod`.

use super::{Cmp, Emit};
use crate::kernel::{Builder, Val, kept};
use melior::ir::{Block, BlockLike, BlockRef, Region, RegionLike, Type};
use strata_dialects::build::{element_type, is_vector, lanes, result_of};

/// `x - y·trunc(x / y)` without rounding: the sign of `x`, less than `y` in magnitude.
///
/// Long division in f64, whose exponent range has no subnormal f32. For f64 itself both are scaled up where `y` is subnormal.
pub fn remainder<'c>(e: &Emit<'c>, x: Val<'c>, y: Val<'c>) -> Val<'c> {
    if is_vector(e.ty) {
        let element = element_type(e.ty);
        let parts: Vec<_> = (0..lanes(e.ty))
            .map(|i| {
                let position = e.b.attr(&format!("array<i64: {i}>"));
                let part =
                    |v: Val<'c>| e.b.value("vector.extract", &[v], element, &[("static_position", position)]);
                remainder(&e.typed(element), part(x), part(y))
            })
            .collect();
        return e.b.value("vector.from_elements", &parts, e.ty, &[]);
    }
    let w = e.typed(e.b.ty("f64"));
    let narrow = e.ty != w.ty;
    let widen = |v: Val<'c>| if narrow { e.b.value("arith.extf", &[v], w.ty, &[]) } else { v };
    let (x_wide, y_wide) = (widen(x), widen(y));
    let (mut a, mut b) = (w.abs(x_wide), w.abs(y_wide));
    let small = w.cmp(Cmp::Lt, b, w.c(f64::MIN_POSITIVE));
    let (up, down) = (w.c(f64::exp2(54.0)), w.c(f64::exp2(-54.0)));
    if !narrow {
        a = w.select(small, w.mul(a, up), a);
        b = w.select(small, w.mul(b, up), b);
    }
    let mut r = divide(&w, a, b);
    if !narrow {
        r = w.select(small, w.mul(r, down), r);
    }
    r = w.with_sign(r, x_wide);
    let defined = w.ints_bool(
        "andi",
        w.cmp(Cmp::Lt, w.abs(x_wide), w.c(f64::INFINITY)),
        w.cmp(Cmp::Gt, w.abs(y_wide), w.c(0.0)),
    );
    r = w.select(defined, r, w.c(f64::NAN));
    if narrow { e.b.value("arith.truncf", &[r], e.ty, &[]) } else { r }
}

/// While the rest is not smaller than `b`, takes away the largest `b · 2^k` that fits; each difference is exact.
fn divide<'c>(w: &Emit<'c>, a: Val<'c>, b: Val<'c>) -> Val<'c> {
    let (before, after) = (Region::new(), Region::new());
    let first = kept(before.append_block(Block::new(&[(w.ty, w.b.location)])));
    let second = kept(after.append_block(Block::new(&[(w.ty, w.b.location)])));
    let result: Type<'c> = w.ty;
    let op = w.b.op("scf.while", &[a], &[result], &[], vec![before, after]);
    let argument = |block: BlockRef<'c, 'c>| -> Val<'c> { block.argument(0).expect("just made").into() };

    let c = Emit { b: Builder::at_end(w.b.context, first, w.b.location), ..*w };
    let r = argument(first);
    let large = c.cmp(Cmp::Ge, r, b);
    let finite = c.ints_bool("andi", c.cmp(Cmp::Lt, r, c.c(f64::INFINITY)), c.cmp(Cmp::Gt, b, c.c(0.0)));
    c.b.op("scf.condition", &[c.ints_bool("andi", large, finite), r], &[], &[], vec![]);

    let d = Emit { b: Builder::at_end(w.b.context, second, w.b.location), ..*w };
    let r = argument(second);
    let exponent = |v: Val<'c>| d.int("shli", d.int("shrui", d.bits(v), 52), 52);
    let shift = d.ints("subi", exponent(r), exponent(b));
    let scaled = d.ints("addi", d.bits(b), shift);
    let fits = d.cmp(Cmp::Le, d.of_bits(scaled), r);
    let scaled = d.b.select(fits, scaled, d.int("subi", scaled, 1 << 52));
    d.b.op("scf.yield", &[d.sub(r, d.of_bits(scaled))], &[], &[], vec![]);
    result_of(op, 0)
}
