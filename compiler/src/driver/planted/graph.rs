//! Mistakes at the graph level.

use super::{array, each, planted, set, set_attribute, swap_operands};
use crate::driver::pass::{Level::Graph, Pass, PassCx};
use crate::{graph, ir};
use melior::ir::ValueLike;
use melior::ir::operation::{OperationBuilder, OperationLike, OperationRef};
use melior::ir::{BlockLike, Type, Value};
use strata_dialects::affine::dims_attribute;
use strata_dialects::{OpView, TensorType};
use strata_runtime::DType;

pub(super) static PASSES: &[Pass] = &[
    planted(Graph, "test-swap-subtrahend", "mistake: takes graph.sub for commutative", |cx, m| {
        each(cx, m, &["graph.sub"], |_, op| swap_operands(op, 0, 1))
    }),
    planted(Graph, "test-swap-arms", "mistake: swaps the arms of graph.select", |cx, m| {
        each(cx, m, &["graph.select"], |_, op| swap_operands(op, 1, 2))
    }),
    planted(
        Graph,
        "test-reduce-other-dim",
        "mistake: reduces another dimension of the same size",
        |cx, m| each(cx, m, &["graph.reduce"], reduce_other_dim),
    ),
    planted(Graph, "test-drop-transpose", "mistake: drops a transposition between equal types", |cx, m| {
        each(cx, m, &["graph.transpose"], drop_transpose)
    }),
    planted(Graph, "test-broadcast-other-dim", "mistake: broadcasts along a wrong dimension", |cx, m| {
        each(cx, m, &["graph.broadcast"], broadcast_other_dim)
    }),
    planted(Graph, "test-max-to-min", "mistake: turns a max reduction into a min reduction", |cx, m| {
        each(cx, m, &["graph.reduce"], max_to_min)
    }),
    planted(Graph, "test-narrow-cast", "mistake: casts to a wider type through bf16", |cx, m| {
        each(cx, m, &["graph.cast"], narrow_cast)
    }),
    planted(Graph, "test-shift-slice", "mistake: a slice that starts and ends one element late", |cx, m| {
        each(cx, m, &["graph.slice"], shift_slice)
    }),
    planted(Graph, "test-size-is-hint", "mistake: takes a symbol's hint for its value", |cx, m| {
        each(cx, m, &["graph.dim"], size_is_hint)
    }),
];

fn reduce_other_dim<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let view = OpView::new(&op).ok()?;
    let &[dim] = view.ints("dims") else { return None };
    let shape = &view.operands[0].shape;
    let other = (0..shape.len()).find(|&d| d as i64 != dim && shape[d] == shape[dim as usize])?;
    set(cx, op, "dims", &array(&[other as i64]))
}

fn drop_transpose<'c>(_: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let x = op.operand(0).ok()?;
    (x.r#type() == op.result(0).ok()?.r#type()).then(|| ir::replace(op, &[x]))
}

fn broadcast_other_dim<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let view = OpView::new(&op).ok()?;
    let &[dim] = view.ints("dims") else { return None };
    let shape = &view.results[0].shape;
    let other = (0..shape.len()).find(|&d| d as i64 != dim && shape[d] == shape[dim as usize])?;
    set(cx, op, "dims", &array(&[other as i64]))
}

fn max_to_min<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let max = OpView::new(&op).ok()?.case("kind") == 1;
    max.then(|| set(cx, op, "kind", "2 : i32"))?
}

fn narrow_cast<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let view = OpView::new(&op).ok()?;
    if view.operands[0].dtype != DType::F32 || view.results[0].dtype != DType::F64 {
        return None;
    }
    let ty: Type = view.operands[0].with_dtype(DType::BF16).to_mlir(cx.context).ok()?;
    let cast = OperationBuilder::new("graph.cast", op.location())
        .add_operands(&[op.operand(0).ok()?])
        .add_results(&[ty])
        .build()
        .ok()?;
    let narrow: Value = op.block()?.insert_operation_before(op, cast).result(0).ok()?.into();
    // SAFETY: live handles; the cast stands before its user.
    unsafe { mlir_sys::mlirOperationSetOperand(op.to_raw(), 0, narrow.to_raw()) };
    Some(())
}

fn shift_slice<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let view = OpView::new(&op).ok()?;
    let (mut starts, mut limits) = (view.dims("starts").to_vec(), view.dims("limits").to_vec());
    let TensorType { shape, .. } = &view.operands[0];
    let room = |d: &usize| limits[*d].as_const().zip(shape[*d].as_const()).is_some_and(|(l, n)| l < n);
    let d = (0..shape.len()).find(room)?;
    starts[d] = starts[d].clone() + 1.into();
    limits[d] = limits[d].clone() + 1.into();
    set_attribute(op, "starts", dims_attribute(cx.context, &starts)?);
    set_attribute(op, "limits", dims_attribute(cx.context, &limits)?);
    Some(())
}

fn size_is_hint<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let function = op.parent_operation()?;
    let hints: Vec<_> =
        graph::symbols::read(&function).ok()?.iter().map(|s| s.info.hint.unwrap_or(1)).collect();
    let value = OpView::new(&op).ok()?.dims("expr").first()?.eval(&hints)?;
    set(cx, op, "expr", &format!("#graph.dims<{value}>"))
}
