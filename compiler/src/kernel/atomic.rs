//! `memref.atomic_rmw` in the LLVM dialect: an instruction where there is one, else a loop of compare and exchange.

use crate::driver::pass::Failure;
use crate::kernel::walk::{bytes_of, storage};
use crate::kernel::{Builder, Val, kept};
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Block, BlockLike, Region, RegionLike, Type, ValueLike};
use strata_dialects::build::{element_type, result_of};

/// How memory and value are combined.
enum How {
    /// The value replaces what is there. No order is promised, so a plain store does.
    Store,
    /// By an instruction: LLVM's number of it.
    Instruction(i64),
    /// By an op of `arith` in a loop.
    Loop(&'static str),
}

/// The kinds of `memref.atomic_rmw` (MLIR's `AtomicRMWKind`), by their numbers.
pub const KINDS: [&str; 16] = [
    "addf", "addi", "andi", "assign", "maximumf", "maxnumf", "maxs", "maxu", "minimumf", "minnumf", "mins",
    "minu", "mulf", "muli", "ori", "xori",
];

/// The number of a kind of [`KINDS`].
pub fn number(kind: &str) -> usize {
    KINDS.iter().position(|k| *k == kind).expect("a kind of memref.atomic_rmw")
}

/// LLVM's numbers of `atomicrmw` are from its `AtomicBinOp`.
fn how(kind: &str) -> Option<How> {
    Some(match kind {
        "addf" => How::Instruction(11),
        "addi" => How::Instruction(1),
        "assign" => How::Store,
        "maximumf" => How::Instruction(19),
        "maxs" => How::Instruction(7),
        "minimumf" => How::Instruction(20),
        "mins" => How::Instruction(8),
        "mulf" => How::Loop("arith.mulf"),
        "muli" => How::Loop("arith.muli"),
        _ => return None,
    })
}

/// LLVM's `monotonic`: other threads see each change whole, in no particular order with other memory.
pub const MONOTONIC: i64 = 2;

/// Combines `value` with the element at `pointer`.
pub fn lower<'c>(
    b: &Builder<'c>,
    op: OperationRef<'c, 'c>,
    value: Val<'c>,
    pointer: Val<'c>,
) -> Result<(), Failure> {
    let kind = op.attribute("kind").ok().and_then(|a| IntegerAttribute::try_from(a).ok());
    let name = kind.and_then(|k| KINDS.get(usize::try_from(k.value()).ok()?));
    let Some(how) = name.and_then(|k| how(k)) else {
        return Err(Failure::new(op.location(), "memref.atomic_rmw of a kind that kernels do not have")
            .next("addf, addi, mulf, muli, maximumf, maxs, minimumf, mins and assign are there"));
    };
    if has_other_users(op) {
        return Err(Failure::new(op.location(), "the old value of memref.atomic_rmw is used")
            .next("kernels only have atomics whose result is not read"));
    }
    let ty = value.r#type();
    let align = b.i64_attr(bytes_of(element_type(ty)));
    let order = b.i64_attr(MONOTONIC);
    match how {
        How::Store => {
            let stored = storage(b, ty);
            let value = if stored == ty { value } else { b.value("arith.extui", &[value], stored, &[]) };
            b.op("llvm.store", &[value, pointer], &[], &[("alignment", align)], vec![]);
        }
        How::Instruction(number) => {
            let attributes = [("bin_op", b.i64_attr(number)), ("ordering", order), ("alignment", align)];
            b.value("llvm.atomicrmw", &[pointer, value], ty, &attributes);
        }
        How::Loop(combine) => exchange(b, combine, value, pointer),
    }
    Ok(())
}

/// Makes the 64 bits at `pointer` the smaller of themselves and `value`, both without a sign.
pub fn unsigned_minimum<'c>(b: &Builder<'c>, pointer: Val<'c>, value: Val<'c>) {
    let attributes =
        [("bin_op", b.i64_attr(10)), ("ordering", b.i64_attr(MONOTONIC)), ("alignment", b.i64_attr(8))];
    b.value("llvm.atomicrmw", &[pointer, value], value.r#type(), &attributes);
}

fn has_other_users(op: OperationRef<'_, '_>) -> bool {
    let result = op.result(0).expect("the old value");
    // SAFETY: a live value.
    unsafe { !mlir_sys::mlirOpOperandIsNull(mlir_sys::mlirValueGetFirstUse(result.to_raw())) }
}

/// Reads, combines, and exchanges if nobody changed the element meanwhile; else again with what is there now.
fn exchange<'c>(b: &Builder<'c>, combine: &str, value: Val<'c>, pointer: Val<'c>) {
    let ty = value.r#type();
    let bits: Type<'c> = b.ty(&format!("i{}", 8 * bytes_of(ty)));
    let align = b.i64_attr(bytes_of(ty));
    let cast = |b: &Builder<'c>, v: Val<'c>, to: Type<'c>| {
        if v.r#type() == to { v } else { b.value("arith.bitcast", &[v], to, &[]) }
    };
    let old = b.value("llvm.load", &[pointer], bits, &[("alignment", align)]);
    let region = || {
        let region = Region::new();
        let block = kept(region.append_block(Block::new(&[(bits, b.location)])));
        (region, block)
    };
    let ((before, before_block), (after, after_block)) = (region(), region());
    let inner = Builder::at_end(b.context, before_block, b.location);
    let seen: Val<'c> = before_block.argument(0).expect("one argument").into();
    let new = inner.value(combine, &[cast(&inner, seen, ty), value], ty, &[]);
    let attributes = [
        ("success_ordering", b.i64_attr(MONOTONIC)),
        ("failure_ordering", b.i64_attr(MONOTONIC)),
        ("alignment", align),
    ];
    let pair_type = b.ty(&format!("!llvm.struct<({bits}, i1)>"));
    let new = cast(&inner, new, bits);
    let pair = inner.value("llvm.cmpxchg", &[pointer, seen, new], pair_type, &attributes);
    let part = |n: i64, ty: Type<'c>| {
        inner.value("llvm.extractvalue", &[pair], ty, &[("position", b.attr(&format!("array<i64: {n}>")))])
    };
    let (found, done) = (part(0, bits), part(1, b.ty("i1")));
    let again = inner.value("arith.xori", &[done, inner.int(1, b.ty("i1"))], b.ty("i1"), &[]);
    inner.op("scf.condition", &[again, found], &[], &[], vec![]);
    let outer = Builder::at_end(b.context, after_block, b.location);
    outer.op("scf.yield", &[after_block.argument(0).expect("one argument").into()], &[], &[], vec![]);
    let _ = result_of(b.op("scf.while", &[old], &[bits], &[], vec![before, after]), 0);
}

#[cfg(test)]
mod tests {
    use super::KINDS;
    use melior::ir::Module;
    use melior::ir::operation::OperationLike;

    #[test]
    fn kinds_have_the_numbers_that_mlir_gives_them() {
        let context = strata_dialects::context();
        for (number, kind) in KINDS.iter().enumerate() {
            let ty = if kind.ends_with('f') || *kind == "assign" { "f32" } else { "i32" };
            let text = format!(
                "func.func @f(%m: memref<4x{ty}>, %v: {ty}, %i: index) {{
                   %0 = memref.atomic_rmw {kind} %v, %m[%i] : ({ty}, memref<4x{ty}>) -> {ty}
                   return
                 }}"
            );
            let module = Module::parse(&context, &text).unwrap_or_else(|| panic!("{kind}"));
            let function = crate::ir::functions(&module)[0];
            let op = crate::ir::ops(crate::ir::body(&function).unwrap())[0];
            let value = op.attribute("kind").unwrap().to_string();
            assert_eq!(value, format!("{number} : i64"), "{kind}");
        }
    }
}
