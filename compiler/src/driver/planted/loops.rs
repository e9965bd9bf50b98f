//! Mistakes at the loop level.

use super::{array, each, planted, set};
use crate::driver::pass::{Level::Loop, Pass, PassCx};
use crate::ir;
use melior::ir::attribute::{DenseI32ArrayAttribute, DenseI64ArrayAttribute, IntegerAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Value, ValueLike};
use strata_dialects::Builder;
use strata_dialects::types::DYNAMIC;

pub(super) static PASSES: &[Pass] = &[
    planted(Loop, "test-short-loop", "mistake: ends loops one step early", |cx, m| {
        each(cx, m, &["scf.for"], short_loop)
    }),
    planted(Loop, "test-drop-last-tile", "mistake: leaves out the last iteration of a forall", |cx, m| {
        each(cx, m, &["scf.forall"], drop_last_tile)
    }),
    planted(
        Loop,
        "test-share-scratch",
        "mistake: moves a task's scratch array out of the forall",
        |cx, m| each(cx, m, &["memref.alloca"], share_scratch),
    ),
    planted(Loop, "test-missing-barrier", "mistake: merges foralls that exchange values", |cx, m| {
        each(cx, m, &["scf.forall"], missing_barrier)
    }),
    planted(Loop, "test-other-all-reduce", "mistake: combines by max where a sum is meant", |cx, m| {
        each(cx, m, &["loop.all_reduce"], max_for_sum)
    }),
    planted(
        Loop,
        "test-drop-all-reduce",
        "mistake: leaves each thread with its own part of a sum",
        |cx, m| {
            each(cx, m, &["loop.all_reduce"], |_, op| {
                ir::erase(op.to_raw());
                Some(())
            })
        },
    ),
    planted(Loop, "test-lose-nan", "mistake: takes the maximum that ignores NaN", |cx, m| {
        each(cx, m, &["arith.maximumf"], lose_nan)
    }),
    planted(Loop, "test-wrong-alignment", "mistake: promises twice the alignment of vectors", |cx, m| {
        each(cx, m, &["vector.load", "vector.store"], double_alignment)
    }),
];

fn case(op: OperationRef<'_, '_>, number: i64) -> bool {
    op.attribute("kind")
        .ok()
        .and_then(|a| IntegerAttribute::try_from(a).ok())
        .is_some_and(|a| a.value() == number)
}

pub(super) fn max_for_sum<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    case(op, 0).then(|| set(cx, op, "kind", "2 : i32"))?
}

pub(super) fn short_loop<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let (upper, step) = (op.operand(1).ok()?, op.operand(2).ok()?);
    // SAFETY: the values live as long as the module, and the difference stands before its user.
    unsafe {
        let operands: [Value<'c, 'c>; 2] = [Value::from_raw(upper.to_raw()), Value::from_raw(step.to_raw())];
        let end = Builder::before(cx.context, op).value("arith.subi", &operands, operands[0].r#type(), &[]);
        mlir_sys::mlirOperationSetOperand(op.to_raw(), 1, end.to_raw());
    }
    Some(())
}

fn upper_bounds(op: OperationRef<'_, '_>) -> Option<Vec<i64>> {
    let list = DenseI64ArrayAttribute::try_from(op.attribute("staticUpperBound").ok()?).ok()?;
    (0..list.len()).map(|i| list.element(i).ok()).collect()
}

pub(super) fn drop_last_tile<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let outermost = ir::name(&op.parent_operation()?) == "func.func";
    let mut bounds = upper_bounds(op)?;
    let last = bounds.last_mut().filter(|n| outermost && (**n > 1 || **n == DYNAMIC as i64))?;
    if *last == DYNAMIC as i64 {
        return end_earlier(cx, op);
    }
    *last -= 1;
    set(cx, op, "staticUpperBound", &array(&bounds))
}

/// Takes one off the last upper bound, which is an operand.
fn end_earlier<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let groups = DenseI32ArrayAttribute::try_from(op.attribute("operandSegmentSizes").ok()?).ok()?;
    let last = (groups.element(0).ok()? + groups.element(1).ok()?).checked_sub(1)? as usize;
    // SAFETY: the value lives as long as the module, and the difference stands before its user.
    unsafe {
        let upper: Value<'c, 'c> = Value::from_raw(op.operand(last).ok()?.to_raw());
        let builder = Builder::before(cx.context, op);
        let end = builder.value("arith.subi", &[upper, builder.index(1)], upper.r#type(), &[]);
        mlir_sys::mlirOperationSetOperand(op.to_raw(), last as isize, end.to_raw());
    }
    Some(())
}

fn share_scratch<'c>(_: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let mut outer = op.parent_operation()?;
    while ir::name(&outer.parent_operation()?) != "func.func" {
        outer = outer.parent_operation()?;
    }
    // SAFETY: live ops; an array of static size has no operands that it could leave behind.
    (op.operand_count() == 0 && ir::name(&outer) == "scf.forall")
        .then(|| unsafe { mlir_sys::mlirOperationMoveBefore(op.to_raw(), outer.to_raw()) })
}

fn missing_barrier<'c>(_: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    // SAFETY: handles of live ops; what is moved uses only what stands before it, as nothing is between the two foralls.
    unsafe {
        let next = mlir_sys::mlirOperationGetNextInBlock(op.to_raw());
        let next = (!next.ptr.is_null()).then(|| OperationRef::from_raw(next))?;
        if ir::name(&next) != "scf.forall" || upper_bounds(next)? != upper_bounds(op)? {
            return None;
        }
        let (from, into) = (ir::body(&op)?, ir::body(&next)?);
        let start = mlir_sys::mlirBlockGetFirstOperation(into.to_raw());
        let list = ir::ops(from);
        for inner in &list[..list.len() - 1] {
            mlir_sys::mlirOperationMoveBefore(inner.to_raw(), start);
        }
        for i in 0..upper_bounds(op)?.len() as isize {
            mlir_sys::mlirValueReplaceAllUsesOfWith(
                mlir_sys::mlirBlockGetArgument(from.to_raw(), i),
                mlir_sys::mlirBlockGetArgument(into.to_raw(), i),
            );
        }
    }
    ir::erase(op.to_raw());
    Some(())
}

fn lose_nan<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    // SAFETY: the operands live as long as the module.
    let operand = |i| Some(unsafe { Value::<'c, 'c>::from_raw(op.operand(i).ok()?.to_raw()) });
    let operands = [operand(0)?, operand(1)?];
    let max = Builder::before(cx.context, op).value("arith.maxnumf", &operands, operands[0].r#type(), &[]);
    ir::replace(op, &[max]);
    Some(())
}

fn double_alignment<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let now = IntegerAttribute::try_from(op.attribute("alignment").ok()?).ok()?.value();
    set(cx, op, "alignment", &format!("{} : i64", now * 2))
}
