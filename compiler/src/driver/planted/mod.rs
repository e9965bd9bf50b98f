//! Passes with mistakes that a compiler developer could make, one each: `--check-semantics` must find them all. Listed by
//! `--list-passes=all` only; `lit-tests/driver/check-semantics-planted.mlir` runs them.

mod graph;
mod loops;
mod lowerings;
mod tensor;

use crate::driver::pass::{Failure, Level, Pass, PassCx};
use crate::ir;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, Module};

/// Every one of them, by level.
pub fn all() -> impl Iterator<Item = &'static Pass> {
    graph::PASSES.iter().chain(tensor::PASSES).chain(loops::PASSES).chain(lowerings::PASSES)
}

/// A mistake made on every op of some kind: whether it could be made on this one.
type Edit = for<'c> fn(&PassCx<'c>, OperationRef<'c, '_>) -> Option<()>;

const fn planted(
    level: Level,
    name: &'static str,
    summary: &'static str,
    run: for<'c> fn(&PassCx<'c>, &Module<'c>) -> Result<(), Failure>,
) -> Pass {
    Pass { name, summary, from: level, to: level, exact: false, options: &[], run }
}

/// Makes the mistake wherever it can be made, on ops of the names given.
fn each<'c>(cx: &PassCx<'c>, module: &Module<'c>, names: &[&str], edit: Edit) -> Result<(), Failure> {
    // The list is made first: edits move and erase ops.
    let mut found = Vec::new();
    ir::walk(module, |op| {
        if names.contains(&ir::name(&op)) {
            found.push(op.to_raw());
        }
    });
    for raw in found {
        // SAFETY: an edit erases no op of the list but the one it is given.
        if edit(cx, unsafe { OperationRef::from_raw(raw) }).is_some() {
            cx.count("ops made wrong", 1);
        }
    }
    Ok(())
}

/// Sets an attribute to what a text says.
fn set<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>, name: &str, text: &str) -> Option<()> {
    let attribute = Attribute::parse(cx.context, text)?;
    set_attribute(op, name, attribute);
    Some(())
}

fn set_attribute<'c>(op: OperationRef<'c, '_>, name: &str, attribute: Attribute<'c>) {
    use melior::ir::AttributeLike;
    // SAFETY: live handles; the verifier refuses what does not fit.
    unsafe {
        let name = melior::StringRef::new(name);
        mlir_sys::mlirOperationSetAttributeByName(op.to_raw(), name.to_raw(), attribute.to_raw());
    }
}

/// Swaps two operands.
fn swap_operands(op: OperationRef<'_, '_>, a: usize, b: usize) -> Option<()> {
    // SAFETY: a live op; operands are checked to exist.
    unsafe {
        if op.operand_count() <= a.max(b) {
            return None;
        }
        let (a, b) = (a as isize, b as isize);
        let (x, y) = (
            mlir_sys::mlirOperationGetOperand(op.to_raw(), a),
            mlir_sys::mlirOperationGetOperand(op.to_raw(), b),
        );
        mlir_sys::mlirOperationSetOperand(op.to_raw(), a, y);
        mlir_sys::mlirOperationSetOperand(op.to_raw(), b, x);
    }
    Some(())
}

/// A list of integers as an attribute's text.
fn array(list: &[i64]) -> String {
    let items: Vec<_> = list.iter().map(i64::to_string).collect();
    if items.is_empty() { "array<i64>".to_owned() } else { format!("array<i64: {}>", items.join(", ")) }
}
