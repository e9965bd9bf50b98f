//! Removal of what emission left unused.

use crate::ir;
use melior::ir::operation::OperationLike;
use melior::ir::{BlockRef, RegionLike};

/// Erases ops without effects whose results nobody uses, innermost and last first.
pub fn remove_dead(block: BlockRef<'_, '_>) {
    for op in ir::ops(block).into_iter().rev() {
        for region in op.regions() {
            let mut next = region.first_block();
            while let Some(b) = next {
                remove_dead(b);
                next = melior::ir::BlockLike::next_in_region(&b);
            }
        }
        let name = ir::name(&op);
        let pure = name.starts_with("arith.")
            || name.starts_with("math.")
            || name.starts_with("vector.") && name != "vector.store"
            || name == "memref.load";
        if pure && ir::unused(&op) {
            ir::erase(op.to_raw());
        }
    }
}
