//! `loop.all_reduce` as butterfly shuffles, and through shared memory across warps.
//!
//! The order of combination is the documented one, so that the host's sequential execution gives the same bits: offsets 16 … 1
//! inside each warp, then the warps' values in the same way, on every warp at once.

use super::barriers::threads;
use super::loop_to_gpu::Gpu;
use crate::driver::pass::Failure;
use crate::ir::{name, ops};
use crate::kernel::walk::{Memory, Walk, bytes_of, pointer, storage};
use crate::kernel::{Builder, Val, kept};
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Block, BlockRef, Region, RegionLike, Type, TypeLike, ValueLike};
use strata_dialects::build::element_type;

/// Two regions of shared memory that reductions use in turn, so that a second reduction need not wait for the readers of the first.
pub struct Slots<'c> {
    base: Val<'c>,
    each: i64,
}

impl<'c> Slots<'c> {
    /// Room for the largest reduction across warps in `source`.
    pub fn plan(source: BlockRef<'_, '_>, block: i64, base: Val<'c>) -> Self {
        fn largest(block: BlockRef<'_, '_>, warps: i64) -> i64 {
            let mut most = 0;
            for op in ops(block) {
                if name(&op) == "loop.all_reduce" && threads(op) > 32 {
                    let ty = op.operand(0).expect("an array").r#type();
                    most = most.max(values(ty) * warps * bytes_of(element_type(ty)));
                }
                for r in 0..op.region_count() {
                    if let Some(b) = op.region(r).expect("in range").first_block() {
                        most = most.max(largest(b, warps));
                    }
                }
            }
            most
        }
        let each = (largest(source, block / 32) + 15) / 16 * 16;
        Self { base, each }
    }

    /// Bytes of both.
    pub fn bytes(&self) -> i64 {
        2 * self.each
    }
}

/// Values a thread has in the array: everything but the leading dimension.
fn values(ty: Type<'_>) -> i64 {
    // SAFETY: a static memref of rank ≥ 1 by the op's verifier.
    unsafe {
        (1..mlir_sys::mlirShapedTypeGetRank(ty.to_raw()) as isize)
            .map(|i| mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), i))
            .product()
    }
}

/// Lowers one reduction at the walk's place.
pub fn lower<'c>(walk: &mut Walk<'c, Gpu<'c>>, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let source = op.operand(0).expect("an array");
    let memory = walk.memory(&op, source)?;
    let kind =
        op.attribute("kind").ok().and_then(|a| IntegerAttribute::try_from(a).ok()).map_or(0, |a| a.value());
    let count = values(source.r#type());
    let b = walk.b;
    let stored = storage(&b, memory.element);
    let align = [("alignment", b.i64_attr(bytes_of(memory.element)))];
    let combine = combiner(&b, kind, memory.element).ok_or_else(|| {
        Failure::new(op.location(), format!("this reduction does not exist for {}", memory.element))
    })?;
    let step = |v: Val<'c>, offset: i64| {
        let other = shuffle(&b, v, offset);
        b.value(combine, &[v, other], v.r#type(), &[])
    };

    let mut at = Vec::new();
    let mut partial = Vec::new();
    for k in 0..count {
        let p = pointer(&b, &memory, b.index(k), 32);
        let mut v = b.value("llvm.load", &[p], stored, &align);
        for offset in [16, 8, 4, 2, 1] {
            v = step(v, offset);
        }
        at.push(p);
        partial.push(v);
    }
    let warps = threads(op) / 32;
    if warps > 1 {
        let slot = walk.target.barriers.slot(&op) as i64 * walk.target.slots.each;
        let base = Memory { base: walk.target.slots.base, element: b.ty("i8"), ..memory.clone() };
        let base = pointer(&b, &base, b.index(slot), 32);
        let shared = Memory { base, ..memory.clone() };
        let first = b.cmpi(0, walk.target.lane, b.index(0));
        let region = Region::new();
        let block = kept(region.append_block(Block::new(&[])));
        b.op("scf.if", &[first], &[], &[], vec![region, Region::new()]);
        let inside = Builder::at_end(b.context, block, op.location());
        for (k, v) in partial.iter().enumerate() {
            let i = inside.add(walk.target.warp, inside.index(k as i64 * warps));
            inside.op("llvm.store", &[*v, pointer(&inside, &shared, i, 32)], &[], &align, vec![]);
        }
        inside.op("scf.yield", &[], &[], &[], vec![]);
        b.op("gpu.barrier", &[], &[], &[], vec![]);
        let mine =
            b.value("arith.andi", &[walk.target.lane, b.index(warps - 1)], Type::index(b.context), &[]);
        for (k, v) in partial.iter_mut().enumerate() {
            let i = b.add(mine, b.index(k as i64 * warps));
            *v = b.value("llvm.load", &[pointer(&b, &shared, i, 32)], stored, &align);
            let mut offset = warps / 2;
            while offset >= 1 {
                *v = step(*v, offset);
                offset /= 2;
            }
        }
    }
    for (p, v) in at.into_iter().zip(partial) {
        b.op("llvm.store", &[v, p], &[], &align, vec![]);
    }
    Ok(())
}

/// The op that combines two values; kinds are numbered as in the dialect.
fn combiner<'c>(b: &Builder<'c>, kind: i64, element: Type<'c>) -> Option<&'static str> {
    let float = element.is_float() || element == b.ty("bf16");
    Some(match (kind, float) {
        (0, true) => "arith.addf",
        (1, true) => "arith.mulf",
        (2, true) => "arith.maximumf",
        (3, true) => "arith.minimumf",
        (0, false) => "arith.addi",
        (1, false) => "arith.muli",
        // A stored i1 is a byte of 0 or 1, which no signedness changes.
        (2, false) => "arith.maxsi",
        (3, false) => "arith.minsi",
        (4, false) => "arith.andi",
        (5, false) => "arith.ori",
        _ => return None,
    })
}

/// The value of the lane whose number differs in bit `offset`. Shuffles move 32 bits.
fn shuffle<'c>(b: &Builder<'c>, v: Val<'c>, offset: i64) -> Val<'c> {
    let i32 = b.ty("i32");
    let ty = v.r#type();
    let move32 = |v: Val<'c>| {
        let operands = [b.int(-1, i32), v, b.int(offset, i32), b.int(31, i32)];
        b.value("nvvm.shfl.sync", &operands, v.r#type(), &[("kind", b.attr("#nvvm<shfl_kind bfly>"))])
    };
    let bits = bytes_of(ty) * 8;
    if bits == 32 {
        return move32(v);
    }
    let integer = b.ty(&format!("i{bits}"));
    let raw = if ty == integer { v } else { b.value("arith.bitcast", &[v], integer, &[]) };
    let moved = if bits == 64 {
        let shift = b.int(32, integer);
        let low = move32(b.value("arith.trunci", &[raw], i32, &[]));
        let high = b.value("arith.shrui", &[raw, shift], integer, &[]);
        let high = move32(b.value("arith.trunci", &[high], i32, &[]));
        let high = b.value("arith.extui", &[high], integer, &[]);
        let high = b.value("arith.shli", &[high, shift], integer, &[]);
        let low = b.value("arith.extui", &[low], integer, &[]);
        b.value("arith.ori", &[high, low], integer, &[])
    } else {
        let wide = move32(b.value("arith.extui", &[raw], i32, &[]));
        b.value("arith.trunci", &[wide], integer, &[])
    };
    if ty == integer { moved } else { b.value("arith.bitcast", &[moved], ty, &[]) }
}
