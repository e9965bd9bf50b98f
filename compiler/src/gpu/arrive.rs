//! `loop.arrive` as an atomic increment of a ticket by the block's first thread, between two barriers.
//!
//! The increment wraps at `count - 1`, which sets the ticket back. Fences around it release what all threads of the block wrote before the
//! first barrier, and acquire for all of them, through the second, what the blocks before wrote: fences are cumulative over barriers
//! (PTX ISA, memory consistency model, causality order). They stand by themselves, as LLVM's NVPTX selects a relaxed `atom` for any ordering.

use super::loop_to_gpu::Gpu;
use crate::driver::pass::Failure;
use crate::kernel::atomic::MONOTONIC;
use crate::kernel::check::when;
use crate::kernel::walk::{Walk, pointer};
use crate::kernel::{Builder, Val};
use melior::ir::operation::{OperationLike, OperationRef};

/// LLVM's number of `atomicrmw uinc_wrap`: the value after the largest is 0.
const INCREMENT_WRAP: i64 = 15;
/// LLVM's ordering that releases and acquires.
const RELEASE_ACQUIRE: i64 = 6;

/// Lowers one arrival; the answer goes from the first thread to the others through shared memory at the offset `slot`.
pub fn lower<'c>(walk: &mut Walk<'c, Gpu<'c>>, op: OperationRef<'c, 'c>, slot: i64) -> Result<(), Failure> {
    let tickets = walk.memory(&op, op.operand(0).expect("tickets"))?;
    let b = walk.b;
    let [at, count] = [1, 2].map(|i| walk.get(op.operand(i).expect("an index")));
    let i32 = b.ty("i32");
    let shared = walk.target.shared_pointer(&b, b.index(slot));
    let most = b.value("arith.index_cast", &[count], i32, &[]);
    let most = b.value("arith.subi", &[most, b.int(1, i32)], i32, &[]);
    b.op("gpu.barrier", &[], &[], &[], vec![]);
    let first = b.cmpi(0, walk.target.thread, b.index(0));
    let align = [("alignment", b.i64_attr(4))];
    when(&b, first, |b: &Builder<'c>| {
        let ticket = pointer(b, &tickets, at, 32);
        let attributes = [
            ("bin_op", b.i64_attr(INCREMENT_WRAP)),
            ("ordering", b.i64_attr(MONOTONIC)),
            ("syncscope", b.attr("\"device\"")),
            ("alignment", b.i64_attr(4)),
        ];
        fence(b);
        let before: Val<'c> = b.value("llvm.atomicrmw", &[ticket, most], i32, &attributes);
        fence(b);
        b.op("llvm.store", &[before, shared], &[], &align, vec![]);
    });
    b.op("gpu.barrier", &[], &[], &[], vec![]);
    let before = b.value("llvm.load", &[shared], i32, &align);
    let last = b.cmpi(0, before, most);
    walk.set(op.result(0).expect("one result").into(), last);
    Ok(())
}

/// What stands before it comes before what stands behind it, for all blocks.
fn fence(b: &Builder<'_>) {
    let attributes = [("ordering", b.i64_attr(RELEASE_ACQUIRE)), ("syncscope", b.attr("\"device\""))];
    b.op("llvm.fence", &[], &[], &attributes, vec![]);
}
