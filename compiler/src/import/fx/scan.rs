//! Running sums, products and extremes.

use super::index::at_least_1d;
use super::lower::{Cx, Many, One, direction, kind};
use super::model::Node;
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::Attr;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] = &[
    ("aten.cumsum", |cx, n| total(cx, n, kind::SUM)),
    ("aten.cumprod", |cx, n| total(cx, n, kind::PROD)),
    ("aten.cummax", |cx, n| extreme(cx, n, kind::MAX)),
    ("aten.cummin", |cx, n| extreme(cx, n, kind::MIN)),
];

fn scan<'c, 'a>(cx: &Cx<'c, 'a>, kind: i32, x: Value<'c, 'a>, dim: usize) -> One<'c, 'a> {
    Ok(cx.b.graph1("scan", &[x], &[("kind", Attr::Enum(kind)), ("dim", Attr::Int(dim as i64))])?)
}

fn total<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, kind: i32) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let x = cx.cast(cx.tensor(n, "self")?, out.dtype)?;
    if out.shape.contains(&Expr::from(0)) {
        return one(x);
    }
    let x = at_least_1d(cx, x)?;
    let dim = n.dim("dim", cx.ty(x).rank())?;
    let y = scan(cx, kind, x, dim)?;
    one(cx.reshape(y, &out.shape)?)
}

/// The extreme so far, and the last position where it was met. NaN is more than all: after the first the extreme is NaN, and its
/// position that of the last.
fn extreme<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, kind: i32) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let (given, shape, dtype) = (cx.tensor(n, "self")?, out.shape.clone(), out.dtype);
    if shape.contains(&Expr::from(0)) {
        return Ok(vec![Some(given), Some(cx.full(DType::I64, 0.0, &shape)?)]);
    }
    let narrow = dtype == DType::I1 || dtype.storage() != dtype;
    let x = if narrow { cx.cast(given, DType::I32)? } else { given };
    let x = at_least_1d(cx, x)?;
    let ty = cx.ty(x);
    let dim = n.dim("dim", ty.rank())?;
    let values = scan(cx, kind, x, dim)?;
    let mut met = cx.compare(direction::EQ, x, values)?;
    if dtype.is_float() {
        met = cx.op("or", &[met, cx.compare(direction::NE, x, x)?])?;
    }
    let nowhere = cx.full(DType::I64, 0.0, &ty.shape)?;
    let place = cx.op("select", &[met, cx.iota(&ty.shape, dim)?, nowhere])?;
    let positions = scan(cx, kind::MAX, place, dim)?;
    let values = cx.cast(values, dtype)?;
    Ok(vec![Some(cx.reshape(values, &shape)?), Some(cx.reshape(positions, &shape)?)])
}
