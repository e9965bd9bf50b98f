//! Elements picked by index tensors, and written where they point.

use super::emitter::{Emitter, Lowered};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, Type, Value, ValueLike};
use strata_dialects::ops::indexing::ScatterKind;
use strata_dialects::scalar::cmpi;
use strata_dialects::types::dtype_to_mlir;
use strata_dialects::{Attr, OpView};

/// A gather: a generic over the result that reads an index and extracts. Negative indices count from the end, and what is still
/// outside is clamped, but where no index can be outside.
pub(super) fn lower_gather<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let (x, indices) = (e.operand(op, 0)?, e.operand(op, 1)?);
    let (operand, result) = (&view.operands[0], &view.results[0]);
    let dim = view.int("dim") as usize;
    let inner = view.operands[1].rank();
    let rank = result.rank();
    let (zero, one) = (e.size(&0.into()), e.size(&1.into()));
    let size = e.size(&operand.shape[dim]);
    let map = e.pick(rank, &(dim..dim + inner).collect::<Vec<_>>());
    let inside = e.ranges.within(op.operand(1).expect("verified op"), &operand.shape[dim]);
    let below = e.i64(cmpi::SLT);
    let numbers: Vec<_> = (0..rank as i64).map(|d| e.i64(d)).collect();
    let ty = dtype_to_mlir(e.context, operand.dtype.storage());
    Ok(e.elementwise(&[(indices, map)], result, |b, row| {
        let index = Type::index(b.b.context);
        let arith = |op: &str, x: Value<'c, 'a>, y: Value<'c, 'a>| b.b.value(op, &[x, y], index, &[]);
        let mut picked = b.b.value("arith.index_cast", &[row[0]], index, &[]);
        if !inside {
            let i1 = dtype_to_mlir(b.b.context, strata_runtime::DType::I1);
            let negative = b.b.value("arith.cmpi", &[picked, zero], i1, &[("predicate", below)]);
            picked = b.select(negative, arith("arith.addi", picked, size), picked);
            picked = arith("arith.minsi", picked, arith("arith.subi", size, one));
            picked = arith("arith.maxsi", picked, zero);
        }
        let at: Vec<_> = (0..operand.rank())
            .map(|d| {
                if d == dim {
                    return picked;
                }
                let from = if d < dim { d } else { d + inner - 1 };
                b.b.value("linalg.index", &[], index, &[("dim", numbers[from])])
            })
            .collect();
        b.b.value("tensor.extract", &[&[x], at.as_slice()].concat(), ty, &[])
    }))
}

/// A scatter: an op of its own, as linalg has none whose iterations write where data says.
pub(super) fn lower_scatter<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let (dest, indices, updates) = (e.operand(op, 0)?, e.operand(op, 1)?, e.operand(op, 2)?);
    let kind = Attr::Enum(ScatterKind::of(view).case()).to_mlir(e.context).expect("a number");
    let ty = e.ty(&view.results[0]);
    let dim = view.int("dim");
    let mut attributes = vec![("kind", kind), ("dim", e.i64(dim))];
    if e.ranges.within(op.operand(1).expect("verified op"), &view.operands[0].shape[dim as usize]) {
        attributes.push(("in_bounds", Attribute::unit(e.context)));
    }
    Ok(e.b().value("loop.scatter", &[updates, dest, indices], ty, &attributes))
}

/// A check of indices: a generic that gives them back.
pub(super) fn lower_check<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let (x, result) = (e.operand(op, 0)?, &view.results[0]);
    let size = e.size(&view.dims("size")[0]);
    let rank = result.rank();
    let map = e.pick(rank, &(0..rank).collect::<Vec<_>>());
    let kept = |name: &str| op.attribute(name).expect("verified op");
    let attributes = [("wrap", kept("wrap")), ("message", kept("message"))];
    Ok(e.elementwise(&[(x, map)], result, |b, row| {
        b.b.value("loop.check_index", &[row[0], size], row[0].r#type(), &attributes)
    }))
}
