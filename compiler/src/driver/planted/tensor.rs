//! Mistakes at the tensor level.

use super::{each, planted, set, set_attribute};
use crate::driver::pass::{Level::Tensor, Pass, PassCx};
use melior::ir::attribute::ArrayAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, AttributeLike, TypeLike, Value, ValueLike};
use strata_dialects::Builder;
use strata_dialects::build::definition;

pub(super) static PASSES: &[Pass] = &[
    planted(
        Tensor,
        "test-swap-iterators",
        "mistake: permutes the indexing map of a square input",
        |cx, m| each(cx, m, &["linalg.generic"], swap_iterators),
    ),
    planted(Tensor, "test-zero-for-infinity", "mistake: starts a maximum at 0", |cx, m| {
        each(cx, m, &["linalg.fill"], zero_for_infinity)
    }),
    planted(Tensor, "test-last-tie", "mistake: of equal candidates, takes the last", |cx, m| {
        // Unordered or greater becomes unordered or greater or equal.
        each(cx, m, &["arith.cmpf"], |cx, op| {
            predicate(op, 9).then(|| set(cx, op, "predicate", "10 : i64"))?
        })
    }),
];

fn predicate(op: OperationRef<'_, '_>, number: i64) -> bool {
    op.attribute("predicate").is_ok_and(|a| a.to_string() == format!("{number} : i64"))
}

fn swap_iterators<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let maps = ArrayAttribute::try_from(op.attribute("indexing_maps").ok()?).ok()?;
    let mut list: Vec<Attribute> = (0..maps.len()).map(|i| maps.element(i).ok()).collect::<Option<_>>()?;
    let (ty, first) = (op.operand(0).ok()?.r#type(), *list.first()?);
    // SAFETY: a ranked tensor type with two dimensions, and an affine map, as the verifier has checked.
    unsafe {
        let raw = ty.to_raw();
        let square = mlir_sys::mlirShapedTypeGetRank(raw) == 2
            && mlir_sys::mlirShapedTypeGetDimSize(raw, 0) == mlir_sys::mlirShapedTypeGetDimSize(raw, 1);
        let map = mlir_sys::mlirAffineMapAttrGetValue(first.to_raw());
        if list.len() < 2 || !square || !mlir_sys::mlirAffineMapIsPermutation(map) {
            return None;
        }
        let swapped = mlir_sys::mlirAffineMapGetSubMap(map, 2, [1isize, 0].as_mut_ptr());
        list[0] = Attribute::from_raw(mlir_sys::mlirAffineMapAttrGet(swapped));
    }
    set_attribute(op, "indexing_maps", ArrayAttribute::new(cx.context, &list).into());
    Some(())
}

fn zero_for_infinity<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    // SAFETY: the value lives as long as the module.
    let start: Value<'c, 'c> = unsafe { Value::from_raw(op.operand(0).ok()?.to_raw()) };
    let constant = definition(start)?.attribute("value").ok()?.to_string();
    if constant != "0xFF800000 : f32" {
        return None;
    }
    let zero = Builder::before(cx.context, op).float(0.0, start.r#type());
    // SAFETY: live handles; the constant stands before its user.
    unsafe { mlir_sys::mlirOperationSetOperand(op.to_raw(), 0, zero.to_raw()) };
    Some(())
}
