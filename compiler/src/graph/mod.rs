//! Passes on the graph level, and the plan made from the entry function.

pub mod arena;
pub mod decompose_composites;
pub mod drop_index_checks;
pub mod fuse;
pub mod fuse_epilogues;
mod fusion_class;
pub mod legalize_library_calls;
pub mod outline_kernels;
pub mod product_layout;
pub mod ranges;
mod recompute;
pub mod split_reductions;
pub mod symbols;
pub mod to_plan;
mod units;
pub mod widen_sums;

use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Module, Value, ValueLike};
use mlir_sys::MlirOperation;

/// The attribute that marks a kernel function.
pub const KERNEL: &str = "graph.kernel";

/// The attribute that marks the entry function once kernels are outlined.
pub const ENTRY: &str = "graph.entry";
/// Result attribute of the entry function, an integer: the result is memory of its own, which it shares with no argument, and with
/// no result of another number. Without it a result may be an argument, or part of another result.
pub const MEMORY: &str = "graph.memory";

/// The entry function of a module: the only function that is not a kernel, or the public one.
pub fn entry<'c, 'm>(module: &'m Module<'c>) -> Option<OperationRef<'c, 'm>> {
    let functions: Vec<_> =
        crate::ir::functions(module).into_iter().filter(|f| !f.has_attribute(KERNEL)).collect();
    let public = |f: &&OperationRef<'c, 'm>| !f.has_attribute("sym_visibility");
    functions.iter().find(public).or(functions.first()).copied()
}

/// The place, in a block's ops, of the op that is `user` or holds it in a region.
pub fn place_of(
    places: &std::collections::BTreeMap<usize, usize>,
    user: mlir_sys::MlirOperation,
) -> Option<usize> {
    let parent = |op: &mlir_sys::MlirOperation| {
        // SAFETY: the parent of a live op, or null.
        let parent = unsafe { mlir_sys::mlirOperationGetParentOperation(*op) };
        (!parent.ptr.is_null()).then_some(parent)
    };
    std::iter::successors(Some(user), parent).find_map(|op| places.get(&(op.ptr as usize)).copied())
}

/// The ops that use a value, in the order of MLIR's use list, with repetition.
pub fn users(value: Value<'_, '_>) -> Vec<MlirOperation> {
    let mut out = Vec::new();
    // SAFETY: walks the use list of a live value.
    unsafe {
        let mut operand = mlir_sys::mlirValueGetFirstUse(value.to_raw());
        while !operand.ptr.is_null() {
            out.push(mlir_sys::mlirOpOperandGetOwner(operand));
            operand = mlir_sys::mlirOpOperandGetNextUse(operand);
        }
    }
    out
}
