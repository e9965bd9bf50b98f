//! A kernel's shared memory: one region, of which arrays, reductions and arrivals take their parts.

use super::loop_to_gpu::Gpu;
use crate::kernel::walk::{Memory, pointer};
use crate::kernel::{Builder, Val};
use melior::Context;
use melior::ir::attribute::{StringAttribute, TypeAttribute};
use melior::ir::operation::OperationLike;
use melior::ir::operation::OperationRef;
use melior::ir::{BlockRef, Region};

impl<'c> Gpu<'c> {
    /// Takes bytes of shared memory: their offset, a multiple of 16.
    pub(super) fn shared(&mut self, bytes: i64) -> i64 {
        let offset = self.shared_bytes;
        self.shared_bytes += (bytes + 15) / 16 * 16;
        offset
    }

    /// A pointer to shared memory from an offset in bytes.
    pub(super) fn shared_pointer(&self, b: &Builder<'c>, offset: Val<'c>) -> Val<'c> {
        let bytes = Memory {
            base: self.shared_base,
            element: b.ty("i8"),
            strides: Vec::new(),
            thread: None,
            private: false,
            writable: true,
        };
        pointer(b, &bytes, offset, 32)
    }
}

/// The region of shared memory; of size 0 and external where its size is given at the launch.
pub(super) fn shared_global<'c>(
    context: &'c Context,
    block: BlockRef<'c, 'c>,
    func: OperationRef<'c, 'c>,
    name: &str,
    bytes: i64,
) {
    // SAFETY: the module's block holds the kernel as its first op.
    let first = unsafe { OperationRef::from_raw(mlir_sys::mlirBlockGetFirstOperation(block.to_raw())) };
    let b = Builder::before(context, first).at(func.location());
    let linkage = if bytes == 0 { "#llvm.linkage<external>" } else { "#llvm.linkage<internal>" };
    b.op(
        "llvm.mlir.global",
        &[],
        &[],
        &[
            ("sym_name", StringAttribute::new(context, name).into()),
            ("global_type", TypeAttribute::new(b.ty(&format!("!llvm.array<{bytes} x i8>"))).into()),
            ("linkage", b.attr(linkage)),
            ("addr_space", b.i32_attr(3)),
            ("alignment", b.i64_attr(16)),
        ],
        vec![Region::new()],
    );
}
