//! Conversions between f32 and the 8-bit floats, in integer ops on their bits: no target but the newest has instructions for them, and
//! LLVM expands none.

use super::cmpi;
use crate::build::BodyBuilder;
use melior::ir::Value;
use strata_runtime::DType;

/// Numbers of a format: see `strata_runtime::float8`.
struct Format {
    fraction: i64,
    bias: i64,
    /// The smallest magnitude that is no finite number.
    special: i64,
    /// What a number becomes that is too large.
    overflow: i64,
}

fn format(dtype: DType) -> Format {
    match dtype {
        DType::F8E4M3 => Format { fraction: 3, bias: 7, special: 0x7f, overflow: 0x7f },
        _ => Format { fraction: 2, bias: 15, special: 0x7c, overflow: 0x7c },
    }
}

/// Exponents of f32.
const BIAS: i64 = 127;
const FRACTION: i64 = 23;

/// The value in f32, exactly.
pub(super) fn emit_decode<'c, 'a>(b: &BodyBuilder<'c, 'a>, x: Value<'c, 'a>, from: DType) -> Value<'c, 'a> {
    let f = format(from);
    let (i32s, f32s) = (b.like(x, DType::I32), b.like(x, DType::F32));
    let bits = b.b.value("arith.extui", &[x], i32s, &[]);
    let int = |v| b.int(bits, v);
    let op = |name: &str, x, y| b.b.value(name, &[x, y], i32s, &[]);
    let is = |predicate, x, y| b.compare("arith.cmpi", predicate, x, y);
    let magnitude = op("arith.andi", bits, int(0x7f));
    let moved = op("arith.shli", magnitude, int(FRACTION - f.fraction));
    let normal = op("arith.addi", moved, int((BIAS - f.bias) << FRACTION));
    // Without the implied bit a number is its fraction in units. (A product of an f32 that is itself so small would do as well, where
    // the processor is not told to take such numbers for zero.)
    let units = b.b.value("arith.sitofp", &[magnitude], f32s, &[]);
    let unit = b.float(units, 2f64.powi((1 - f.bias - f.fraction) as i32));
    let small = b.b.value("arith.mulf", &[units, unit], f32s, &[]);
    let small = b.b.value("arith.bitcast", &[small], i32s, &[]);
    let finite = b.select(is(cmpi::ULT, magnitude, int(1 << f.fraction)), small, normal);
    // Infinities have no fraction.
    let special =
        if from == DType::F8E4M3 { int(0x7fc0_0000) } else { op("arith.ori", moved, int(0x7f80_0000)) };
    let value = b.select(is(cmpi::ULT, magnitude, int(f.special)), finite, special);
    let sign = op("arith.shli", op("arith.andi", bits, int(0x80)), int(24));
    b.b.value("arith.bitcast", &[op("arith.ori", value, sign)], f32s, &[])
}

/// An f32 rounded to nearest, ties to even.
pub(super) fn emit_encode<'c, 'a>(b: &BodyBuilder<'c, 'a>, x: Value<'c, 'a>, to: DType) -> Value<'c, 'a> {
    let f = format(to);
    let (i32s, f32s) = (b.like(x, DType::I32), b.like(x, DType::F32));
    let bits = b.b.value("arith.bitcast", &[x], i32s, &[]);
    let int = |v| b.int(bits, v);
    let op = |name: &str, x, y| b.b.value(name, &[x, y], i32s, &[]);
    let is = |predicate, x, y| b.compare("arith.cmpi", predicate, x, y);
    let magnitude = op("arith.andi", bits, int(0x7fff_ffff));
    let dropped = FRACTION - f.fraction;
    // Half a unit, less one where the last bit that stays is even; a carry moves on into the exponent.
    let odd = op("arith.andi", op("arith.shrui", magnitude, int(dropped)), int(1));
    let bias = ((f.bias - BIAS) << FRACTION) + (1 << (dropped - 1)) - 1;
    let normal = op("arith.addi", op("arith.addi", magnitude, int(bias)), odd);
    let normal = op("arith.shrui", normal, int(dropped));
    // Small numbers are units: adding a number whose last place is a unit leaves them in its last bits, rounded.
    let magic = (BIAS + 1 - f.bias + dropped) << FRACTION;
    let magic_value = b.b.value("arith.bitcast", &[int(magic)], f32s, &[]);
    let small = b.b.value("arith.bitcast", &[magnitude], f32s, &[]);
    let small = b.b.value("arith.addf", &[small, magic_value], f32s, &[]);
    let small = op("arith.subi", b.b.value("arith.bitcast", &[small], i32s, &[]), int(magic));
    let least = (BIAS + 1 - f.bias) << FRACTION;
    let finite = b.select(is(cmpi::ULT, magnitude, int(least)), small, normal);
    // The first magnitude that no rounding could bring back, and f32's infinity.
    let limit = (BIAS - f.bias + (0x80 >> f.fraction)) << FRACTION;
    let fits = op("arith.minui", finite, int(f.overflow));
    let large = b.select(is(cmpi::ULT, magnitude, int(limit)), fits, int(f.overflow));
    let value = b.select(is(cmpi::UGT, magnitude, int(0x7f80_0000)), int(0x7f), large);
    let sign = op("arith.shrui", op("arith.andi", bits, int(i64::from(i32::MIN))), int(24));
    b.b.value("arith.trunci", &[op("arith.ori", value, sign)], b.like(x, to), &[])
}
