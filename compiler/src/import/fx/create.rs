//! Tensors made from numbers.

use super::lower::{Cx, Many, Refusal};
use super::model::Node;
use super::operand::Operand;
use super::table::{Entry, one};
use strata_dialects::reference::Scalar;
use strata_runtime::DType;

pub const TABLE: &[Entry] = &[
    ("aten.full", |cx, n| filled(cx, n, "fill_value")),
    ("aten.full_like", |cx, n| filled(cx, n, "fill_value")),
    ("aten.new_full", |cx, n| filled(cx, n, "fill_value")),
    ("aten.fill", |cx, n| filled(cx, n, "value")),
    ("aten.scalar_tensor", |cx, n| filled(cx, n, "s")),
    ("aten.zeros", |cx, n| constant(cx, n, 0)),
    ("aten.zeros_like", |cx, n| constant(cx, n, 0)),
    ("aten.new_zeros", |cx, n| constant(cx, n, 0)),
    ("aten.ones", |cx, n| constant(cx, n, 1)),
    ("aten.ones_like", |cx, n| constant(cx, n, 1)),
    ("aten.new_ones", |cx, n| constant(cx, n, 1)),
    // What is in fresh memory is not said: zeros are as good, and the same each time.
    ("aten.empty", |cx, n| constant(cx, n, 0)),
    ("aten.empty_like", |cx, n| constant(cx, n, 0)),
    ("aten.empty_strided", |cx, n| constant(cx, n, 0)),
    ("aten.new_empty", |cx, n| constant(cx, n, 0)),
    ("aten.new_empty_strided", |cx, n| constant(cx, n, 0)),
    ("aten.empty_permuted", |cx, n| constant(cx, n, 0)),
    ("aten.arange", arange),
    ("prims.iota", arange),
];

fn filled<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, key: &str) -> Many<'c, 'a> {
    let out = n.result(0)?;
    one(cx.fit(&cx.operand(n, key)?, out.dtype, &out.shape)?)
}

fn constant<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, value: i64) -> Many<'c, 'a> {
    let out = n.result(0)?;
    one(cx.fit(&Operand::Number(Scalar::I(value)), out.dtype, &out.shape)?)
}

/// `start + i · step`, in the result's type; floats narrower than f32 are computed in f32.
fn arange<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let get = |key: &str, default: i64| -> Result<Operand<'c, 'a>, Refusal> {
        if n.has(key) { cx.operand(n, key) } else { Ok(Operand::Number(Scalar::I(default))) }
    };
    let (start, step) = (get("start", 0)?, get("step", 1)?);
    let d = super::lower::wide(if out.dtype == DType::I1 {
        return Err("a range of truth values".into());
    } else {
        out.dtype
    });
    let mut x = cx.cast(cx.iota(&out.shape, 0)?, d)?;
    if !matches!(step, Operand::Number(Scalar::I(1))) {
        x = cx.op("mul", &[x, cx.fit(&step, d, &out.shape)?])?;
    }
    if !matches!(start, Operand::Number(Scalar::I(0))) {
        x = cx.op("add", &[x, cx.fit(&start, d, &out.shape)?])?;
    }
    one(cx.cast(x, out.dtype)?)
}
