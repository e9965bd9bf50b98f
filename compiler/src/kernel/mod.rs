//! What the two back ends share: turning a loop-level function into straight code on pointers, and LLVM.

pub mod affine;
pub mod atomic;
pub mod check;
pub mod llvm;
pub mod metadata;
pub mod signature;
pub mod upstream;
pub mod walk;

use melior::ir::{BlockRef, Value};

/// A value in the module that is being built. Handles are only valid while the op that made them lives.
pub type Val<'c> = Value<'c, 'c>;

/// Builds ops of the module that is being built.
pub type Builder<'c> = strata_dialects::Builder<'c, 'c>;

/// A block beyond the borrow of its region: an op is about to own both.
pub fn kept<'c>(block: BlockRef<'c, '_>) -> BlockRef<'c, 'c> {
    // SAFETY: handles are only valid while the op that owns them lives, as with every `Val`.
    unsafe { BlockRef::from_raw(melior::ir::BlockLike::to_raw(&block)) }
}
