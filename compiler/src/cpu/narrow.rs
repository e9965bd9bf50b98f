//! bf16 and f16 to and from wider floats by bit arithmetic: LLVM would call a library.

use crate::kernel::Val;
use crate::math::{Cmp, Emit};
use melior::ir::{Type, ValueLike};
use strata_dialects::build::{element_type, with_element};

fn integers<'c>(e: &Emit<'c>, op: &str, a: Val<'c>, ty: Type<'c>) -> Val<'c> {
    e.b.value(&format!("arith.{op}"), &[a], ty, &[])
}

/// `v` as `e.ty` (f32 or f64); `None` where LLVM has an instruction.
pub fn extend<'c>(e: &Emit<'c>, v: Val<'c>, f16c: bool) -> Option<Val<'c>> {
    let from = element_type(v.r#type());
    let half = from == e.b.ty("f16");
    if from != e.b.ty("bf16") && (!half || f16c) {
        return None;
    }
    let single = e.typed(with_element(e.ty, e.b.ty("f32")));
    let raw = integers(e, "bitcast", v, with_element(e.ty, e.b.ty("i16")));
    let wide = integers(e, "extui", raw, single.int_ty());
    let value =
        if half { half_to_single(&single, wide) } else { single.of_bits(single.int("shli", wide, 16)) };
    Some(if e.double() { integers(e, "extf", value, e.ty) } else { value })
}

fn half_to_single<'c>(e: &Emit<'c>, bits: Val<'c>) -> Val<'c> {
    // Exponent and mantissa in place, off by the difference of the biases, which a product corrects also for subnormals.
    let magnitude = e.int("shli", e.int("andi", bits, 0x7fff), 13);
    let value = e.mul(e.of_bits(magnitude), e.c(f64::exp2(112.0)));
    let special = e.of_bits(e.int("ori", magnitude, 0x7f80_0000));
    let is_special = e.b.cmpi(5, magnitude, e.ic(0x0f80_0000));
    let value = e.select(is_special, special, value);
    let sign = e.int("shli", e.int("andi", bits, 0x8000), 16);
    e.of_bits(e.ints("ori", e.bits(value), sign))
}

/// `v` (f32 or f64) rounded to `e.ty`; `None` where LLVM has an instruction, or the type is no narrow float.
pub fn truncate<'c>(e: &Emit<'c>, v: Val<'c>, f16c: bool) -> Option<Val<'c>> {
    let to = element_type(e.ty);
    let half = to == e.b.ty("f16");
    if to != e.b.ty("bf16") && !half {
        return None;
    }
    let double = element_type(v.r#type()) == e.b.ty("f64");
    if half && f16c && !double {
        return None;
    }
    let single = e.typed(with_element(e.ty, e.b.ty("f32")));
    let v = if double { round_to_odd(e, v) } else { v };
    let bits = if half { single_to_half(&single, v) } else { single_to_bf16(&single, v) };
    let raw = integers(e, "trunci", bits, with_element(e.ty, e.b.ty("i16")));
    Some(integers(e, "bitcast", raw, e.ty))
}

/// An integer as `e.ty` by way of f32; `None` where `e.ty` is no narrow float.
pub fn from_integer<'c>(e: &Emit<'c>, op: &str, v: Val<'c>, f16c: bool) -> Option<Val<'c>> {
    let to = element_type(e.ty);
    if to != e.b.ty("bf16") && to != e.b.ty("f16") {
        return None;
    }
    let single = e.b.value(op, &[v], with_element(e.ty, e.b.ty("f32")), &[]);
    truncate(e, single, f16c).or_else(|| Some(integers(e, "truncf", single, e.ty)))
}

/// f64 to f32, inexact results with an odd mantissa: a second rounding then gives what one alone would have.
fn round_to_odd<'c>(e: &Emit<'c>, v: Val<'c>) -> Val<'c> {
    let d = e.typed(v.r#type());
    let s = e.typed(with_element(e.ty, e.b.ty("f32")));
    let near = integers(e, "truncf", v, s.ty);
    let back = integers(e, "extf", near, d.ty);
    let bits = s.bits(near);
    // Towards zero first, then the last bit set.
    let away = d.cmp(Cmp::Gt, d.abs(back), d.abs(v));
    let cut = s.select(away, s.int("subi", bits, 1), bits);
    let odd = s.int("ori", cut, 1);
    let inexact = d.ints_bool("andi", d.cmp(Cmp::Ne, back, v), d.cmp(Cmp::Eq, v, v));
    s.of_bits(s.select(inexact, odd, bits))
}

fn single_to_bf16<'c>(e: &Emit<'c>, v: Val<'c>) -> Val<'c> {
    let bits = e.bits(v);
    let odd = e.int("andi", e.int("shrui", bits, 16), 1);
    let rounded = e.int("shrui", e.ints("addi", e.int("addi", bits, 0x7fff), odd), 16);
    let nan = e.int("ori", e.int("shrui", bits, 16), 0x40);
    e.select(e.cmp(Cmp::Nan, v, v), nan, rounded)
}

fn single_to_half<'c>(e: &Emit<'c>, v: Val<'c>) -> Val<'c> {
    let a = e.abs(v);
    let bits = e.bits(a);
    // Normal results: rebias and round to even on the 13 bits that fall off.
    let odd = e.int("andi", e.int("shrui", bits, 13), 1);
    let rebased = e.int("addi", bits, 0xfff - (112i64 << 23));
    let normal = e.int("shrui", e.ints("addi", rebased, odd), 13);
    // Subnormal results: the sum with 1/2 has its last bit where f16 has its own.
    let aligned = e.add(a, e.c(0.5));
    let subnormal = e.int("subi", e.bits(aligned), i64::from(0.5f32.to_bits()));
    let small = e.cmp(Cmp::Lt, a, e.c(f64::exp2(-14.0)));
    let value = e.select(small, subnormal, normal);
    // From 65520 on everything rounds to infinity.
    let value = e.select(e.cmp(Cmp::Ge, a, e.c(65520.0)), e.ic(0x7c00), value);
    let nan = e.int("ori", e.int("andi", e.int("shrui", bits, 13), 0x3ff), 0x7e00);
    let value = e.select(e.cmp(Cmp::Nan, v, v), nan, value);
    let sign = e.int("andi", e.int("shrui", e.bits(v), 16), 0x8000);
    e.ints("ori", value, sign)
}
