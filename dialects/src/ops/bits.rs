//! Ops on the bits of elements: shifts, reinterpretation, signs.

use crate::build::BodyBuilder;
use crate::ops::pointwise::{FLOATS, row, same};
use crate::ops::stated;
use crate::reference::Scalar;
use crate::scalar::{both2, emit2};
use crate::spec::{Constraint, Fold, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use melior::ir::Value;
use strata_runtime::DType;

/// Both operands of one integer type; a single bit has nowhere to go.
fn shift_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let first = &view.operands[0];
    if view.operands[1] != *first {
        return Violation::err(
            "C1",
            format!(
                "operand 1 is {}, operand 0 is {first}; broadcasts and casts are explicit",
                view.operands[1]
            ),
        );
    }
    if first.dtype.is_float() || first.dtype == DType::I1 {
        return Violation::err("C2", format!("is not defined on {}; defined on i8, i32, i64", first.dtype));
    }
    Ok(vec![first.clone()])
}

fn bits(dtype: DType) -> i64 {
    8 * dtype.size() as i64
}

fn shift_left(view: &OpView, x: &[Scalar]) -> Scalar {
    let (a, n) = (x[0].i(), x[1].i());
    Scalar::I(if (0..bits(view.operands[0].dtype)).contains(&n) { a.wrapping_shl(n as u32) } else { 0 })
}

fn shift_right(view: &OpView, x: &[Scalar]) -> Scalar {
    let (a, n) = (x[0].i(), x[1].i());
    let last = bits(view.operands[0].dtype) - 1;
    Scalar::I(a >> if (0..=last).contains(&n) { n } else { last })
}

/// Whether an amount is one that the shift instructions define.
fn in_range<'c, 'a>(b: &BodyBuilder<'c, 'a>, n: Value<'c, 'a>) -> Value<'c, 'a> {
    // Read as unsigned, negative amounts are large.
    const ULT: i64 = 6;
    b.compare("arith.cmpi", ULT, n, b.int(n, bits(b.dtype(n))))
}

fn emit_left<'c, 'a>(b: &BodyBuilder<'c, 'a>, x: Value<'c, 'a>, n: Value<'c, 'a>) -> Value<'c, 'a> {
    let (inside, zero) = (in_range(b, n), b.int(n, 0));
    b.select(inside, b.binary("arith.shli", x, b.select(inside, n, zero)), zero)
}

fn emit_right<'c, 'a>(b: &BodyBuilder<'c, 'a>, x: Value<'c, 'a>, n: Value<'c, 'a>) -> Value<'c, 'a> {
    let last = b.int(n, bits(b.dtype(n)) - 1);
    b.binary("arith.shrsi", x, b.select(in_range(b, n), n, last))
}

fn bitcast_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let result = stated(view, 1)?;
    let (from, to) = (&view.operands[0], &result[0]);
    if from.shape != to.shape {
        return Violation::err("C1", format!("changes the shape: {from} to {to}"));
    }
    let pair = [from.dtype, to.dtype];
    let same_size = [[DType::F32, DType::I32], [DType::F64, DType::I64]]
        .iter()
        .any(|kind| pair.iter().all(|d| kind.contains(d)));
    if from.dtype != to.dtype && !same_size {
        return Violation::err(
            "C2",
            format!(
                "is not defined from {} to {}; defined between f32 and i32, f64 and i64",
                from.dtype, to.dtype
            ),
        );
    }
    Ok(result)
}

fn bitcast(view: &OpView, x: &[Scalar]) -> Scalar {
    match (x[0], view.results[0].dtype) {
        (Scalar::F(v), DType::I32) => Scalar::I(i64::from((v as f32).to_bits() as i32)),
        (Scalar::F(v), DType::I64) => Scalar::I(v.to_bits() as i64),
        (Scalar::I(v), DType::F32) => Scalar::F(f64::from(f32::from_bits(v as u32))),
        (Scalar::I(v), DType::F64) => Scalar::F(f64::from_bits(v as u64)),
        (v, _) => v,
    }
}

pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        constraints: &[
            Constraint("C1", "operand and result have one shape"),
            Constraint("C2", "the element types are one, or f32 and i32, or f64 and i64"),
        ],
        fold: Some(|view, _| (view.operands[0] == view.results[0]).then_some(Fold::Operand(0))),
        ..row(
            "graph.bitcast",
            "The same bits in another type of the same size.",
            (Some("bitcast_convert"), Some("view.dtype")),
            bitcast_infer,
            bitcast,
            |b, view, x| {
                let to = view.results[0].dtype;
                if b.dtype(x[0]) == to {
                    return x[0];
                }
                b.b.value("arith.bitcast", &[x[0]], b.like(x[0], to), &[])
            },
        )
    },
    row(
        "graph.copysign",
        "`|x|` with the sign bit of y, that of a zero or a NaN included.",
        (None, Some("copysign.Tensor")),
        same::<FLOATS>,
        |_, x| both2(x, f64::copysign, |a, _| a),
        |b, _, x| emit2(b, x, |u, v| b.binary("math.copysign", u, v), |u, _| u),
    ),
    OpSpec {
        constraints: SHIFT,
        ..row(
            "graph.shift_left",
            "`x * 2^n` modulo the type; 0 where n is negative or not below the number of bits.",
            (Some("shift_left"), Some("bitwise_left_shift.Tensor")),
            shift_infer,
            shift_left,
            |b, _, x| emit_left(b, x[0], x[1]),
        )
    },
    OpSpec {
        constraints: SHIFT,
        ..row(
            "graph.shift_right",
            "`floor(x / 2^n)`; where n is negative or not below the number of bits, 0 or, for negative x, -1.",
            (Some("shift_right_arithmetic"), Some("bitwise_right_shift.Tensor")),
            shift_infer,
            shift_right,
            |b, _, x| emit_right(b, x[0], x[1]),
        )
    },
];

const SHIFT: &[Constraint] = &[
    Constraint("C1", "operands and result have one type"),
    Constraint("C2", "the element type is i8, i32 or i64"),
];
