//! Ops on the bits of elements: shifts, reinterpretation, signs.

use crate::build::BodyBuilder;
use crate::ops::pointwise::{FLOATS, row, same};
use crate::ops::stated;
use crate::reference::{RefTensor, Scalar};
use crate::scalar::{both2, cmpi, emit2};
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
        return Violation::err(
            "C2",
            format!("is not defined on {}; defined on integers but i1", first.dtype),
        );
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
    let dtype = view.operands[0].dtype;
    // Beyond its bits a number has copies of its sign, and those without a sign zeros.
    let most = if dtype == DType::U8 { bits(dtype) } else { bits(dtype) - 1 };
    Scalar::I(a >> if (0..=most).contains(&n) { n } else { most })
}

/// Whether an amount is one that the shift instructions define.
fn in_range<'c, 'a>(b: &BodyBuilder<'c, 'a>, n: Value<'c, 'a>) -> Value<'c, 'a> {
    // Read as unsigned, negative amounts are large.
    b.compare("arith.cmpi", cmpi::ULT, n, b.int(n, bits(b.dtype(n))))
}

fn emit_left<'c, 'a>(b: &BodyBuilder<'c, 'a>, x: Value<'c, 'a>, n: Value<'c, 'a>) -> Value<'c, 'a> {
    let (inside, zero) = (in_range(b, n), b.int(n, 0));
    b.select(inside, b.binary("arith.shli", x, b.select(inside, n, zero)), zero)
}

fn emit_right<'c, 'a>(
    b: &BodyBuilder<'c, 'a>,
    dtype: DType,
    x: Value<'c, 'a>,
    n: Value<'c, 'a>,
) -> Value<'c, 'a> {
    if dtype == DType::U8 {
        let (inside, zero) = (in_range(b, n), b.int(n, 0));
        return b.select(inside, b.binary("arith.shrui", x, b.select(inside, n, zero)), zero);
    }
    let last = b.int(n, bits(b.dtype(n)) - 1);
    b.binary("arith.shrsi", x, b.select(in_range(b, n), n, last))
}

fn bitcast_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let result = stated(view, 1)?;
    let (from, to) = (&view.operands[0], &result[0]);
    if from.shape != to.shape {
        return Violation::err("C1", format!("changes the shape: {from} to {to}"));
    }
    let bits = from.dtype != DType::I1 && to.dtype != DType::I1 && from.dtype.size() == to.dtype.size();
    if from.dtype != to.dtype && !bits {
        return Violation::err(
            "C2",
            format!(
                "is not defined from {} to {}; defined between types of one size, but i1",
                from.dtype, to.dtype
            ),
        );
    }
    Ok(result)
}

fn bitcast(view: &OpView, x: &[Scalar]) -> Scalar {
    RefTensor::scalar(view.operands[0].dtype, x[0]).bitcast(view.results[0].dtype).get(0)
}

pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        constraints: &[
            Constraint("C1", "operand and result have one shape"),
            Constraint("C2", "the element types have one size; i1 has none but itself"),
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
                if b.dtype(x[0]) == to.storage() {
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
            "`floor(x / 2^n)`; where n is negative or not below the number of bits, 0 or, for negative x, -1. `ui8` has no negative x.",
            (Some("shift_right_arithmetic"), Some("bitwise_right_shift.Tensor")),
            shift_infer,
            shift_right,
            |b, view, x| emit_right(b, view.operands[0].dtype, x[0], x[1]),
        )
    },
];

const SHIFT: &[Constraint] = &[
    Constraint("C1", "operands and result have one type"),
    Constraint("C2", "the element type is an integer, but not i1"),
];
