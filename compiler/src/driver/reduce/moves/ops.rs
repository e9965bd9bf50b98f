//! Moves that take ops away.

use super::Places;
use crate::driver::reduce::edit::{
    address, free_functions, inner_ops, is_tensor, operands, replace_uses, results, used_outside,
};
use crate::graph::users;
use crate::ir;
use melior::Context;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Module, Value, ValueLike};
use std::collections::BTreeSet;
use strata_dialects::build::definition;

/// Types stay what they are, so every set of ops gives a valid program.
pub(super) fn cut<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    for function in free_functions(module) {
        let ops = function.ops();
        let Some(end) = function.terminator() else { continue };
        let mut cut: Vec<_> = ops.into_iter().filter(|_| places.take()).collect();
        // What is no tensor cannot become an argument: those ops stay, and what they read stays with them.
        loop {
            let set: BTreeSet<usize> = cut.iter().copied().map(address).chain([address(end)]).collect();
            let can = |op: &OperationRef<'c, '_>| {
                results(*op).iter().all(|v| is_tensor(*v) || !used_outside(*v, &set))
            };
            let before = cut.len();
            cut.retain(can);
            if cut.len() == before {
                break;
            }
        }
        let set: BTreeSet<usize> = cut.iter().copied().map(address).collect();
        let is_cut = |v: Value<'_, '_>| definition(v).is_some_and(|d| set.contains(&address(d)));
        let mut returned: Vec<_> = operands(end)
            .into_iter()
            .enumerate()
            .filter(|(_, v)| !is_cut(*v))
            .map(|(i, v)| (v, Some(i)))
            .collect();
        for op in &cut {
            for value in operands(*op) {
                let known = returned.iter().any(|(v, _)| v.to_raw().ptr == value.to_raw().ptr);
                if !known && !is_cut(value) && definition(value).is_some() && is_tensor(value) {
                    returned.push((value, None));
                }
            }
        }
        if cut.is_empty() {
            continue;
        }
        function.set_returned(context, &returned);
        for op in cut.iter().rev() {
            for value in results(*op) {
                if !users(value).is_empty() {
                    replace_uses(value, function.add_argument(context, value.r#type()));
                }
            }
            ir::erase(op.to_raw());
        }
    }
}

pub(super) fn erase_unread<'c>(_: &'c Context, module: &Module<'c>, places: &mut Places) {
    let unread: Vec<_> = inner_ops(module).into_iter().filter(ir::unused).filter(|_| places.take()).collect();
    let set: BTreeSet<usize> = unread.iter().copied().map(address).collect();
    for op in unread.into_iter().rev() {
        // An op inside of another chosen one goes with that.
        if !inside(op, &set) {
            ir::erase(op.to_raw());
        }
    }
}

fn inside(op: OperationRef<'_, '_>, set: &BTreeSet<usize>) -> bool {
    // SAFETY: the parents of a live op, up to null.
    let parent = |op: &mlir_sys::MlirOperation| unsafe {
        let parent = mlir_sys::mlirOperationGetParentOperation(*op);
        (!parent.ptr.is_null()).then_some(parent)
    };
    std::iter::successors(parent(&op.to_raw()), parent).any(|p| set.contains(&(p.ptr as usize)))
}

pub(super) fn bypass<'c>(_: &'c Context, module: &Module<'c>, places: &mut Places) {
    let mut chosen = None;
    for op in inner_ops(module) {
        let [result] = results(op)[..] else { continue };
        for operand in operands(op) {
            if operand.r#type() == result.r#type() && places.take() {
                chosen = Some((op, result, operand));
            }
        }
    }
    if let Some((op, result, operand)) = chosen {
        replace_uses(result, operand);
        ir::erase(op.to_raw());
    }
}
