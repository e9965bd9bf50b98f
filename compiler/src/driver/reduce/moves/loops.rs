//! Moves on loops and branches.

use super::Places;
use crate::driver::reduce::edit::{inner_ops, operands, replace_uses, results};
use crate::ir;
use melior::Context;
use melior::ir::attribute::DenseI64ArrayAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, Module, RegionLike, Value};
use strata_dialects::Builder;

/// The first iteration of a loop, or one of the branches.
pub(super) fn unwrap<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    let mut chosen = None;
    for op in inner_ops(module) {
        let branches = match ir::name(&op) {
            "scf.for" | "scf.forall" => 1,
            "scf.if" => op.region_count(),
            _ => 0,
        };
        for branch in 0..branches {
            if places.take() {
                chosen = Some((op, branch));
            }
        }
    }
    if let Some((op, branch)) = chosen {
        replace_by_body(context, op, branch);
    }
}

fn replace_by_body<'c>(context: &'c Context, op: OperationRef<'c, '_>, branch: usize) -> Option<()> {
    let region = op.region(branch).ok()?;
    let block = region.first_block()?;
    let first: Vec<Value<'c, '_>> = match ir::name(&op) {
        // The lower bound, then what is carried from one iteration to the next.
        "scf.for" => {
            let list = operands(op);
            list[..1].iter().chain(&list[3..]).copied().collect()
        }
        "scf.forall" => {
            let bounds = DenseI64ArrayAttribute::try_from(op.attribute("staticLowerBound").ok()?).ok()?;
            let builder = Builder::before(context, op);
            let bound = |i| Some(builder.index(bounds.element(i).ok().filter(|n| *n >= 0)?));
            (0..bounds.len()).map(bound).collect::<Option<_>>()?
        }
        _ => vec![],
    };
    move_before(block, op, &first);
    Some(())
}

/// Moves a block's ops before `op`, its arguments bound to `values`, what it yields bound to the op's results, and erases the op.
fn move_before<'c>(block: BlockRef<'c, '_>, op: OperationRef<'c, '_>, values: &[Value<'c, '_>]) {
    let mut list = ir::ops(block);
    let Some(end) = list.pop() else { return };
    // SAFETY: live handles; the counts are those of the block.
    unsafe {
        for (i, value) in values.iter().take(block.argument_count()).enumerate() {
            replace_uses(Value::from_raw(mlir_sys::mlirBlockGetArgument(block.to_raw(), i as isize)), *value);
        }
        for inner in list {
            mlir_sys::mlirOperationMoveBefore(inner.to_raw(), op.to_raw());
        }
    }
    if ir::name(&end) == "scf.yield" {
        for (result, value) in results(op).into_iter().zip(operands(end)) {
            replace_uses(result, value);
        }
    }
    ir::erase(op.to_raw());
}
