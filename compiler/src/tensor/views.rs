//! Transposes (generics with a permuted map), slices, pads, concatenations.

use super::emitter::{Emitter, Lowered};
use super::sizes::Size;
use melior::ir::operation::OperationRef;
use melior::ir::{Block, BlockLike, BlockRef, Region, RegionLike, Type, Value};
use strata_dialects::build::{Builder, result_of};
use strata_dialects::{OpView, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// A transpose is a copy through a permuted indexing map.
pub(super) fn lower_transpose<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let x = e.operand(op, 0)?;
    let p = view.indices("permutation");
    // Result dimension i is operand dimension p[i].
    let places: Vec<usize> =
        (0..p.len()).map(|d| p.iter().position(|&q| q == d).expect("a permutation")).collect();
    let map = e.pick(p.len(), &places);
    Ok(e.elementwise(&[(x, map)], &view.results[0], |_, x| x[0]))
}

/// `tensor.extract_slice`.
pub(super) fn extract<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    x: Value<'c, 'a>,
    dtype: DType,
    offsets: &[Size<'c, 'a>],
    sizes: &[Size<'c, 'a>],
    strides: &[i64],
) -> Value<'c, 'a> {
    let strides: Vec<_> = strides.iter().map(|&s| Size::Static(s)).collect();
    let ty = tensor_of(e, dtype, sizes);
    // An empty slice may start behind the last element, or where there is none; MLIR's must start at one.
    if sizes.iter().any(|s| matches!(s, Size::Static(0))) {
        let sizes = e.split(sizes).1;
        return e.b().value("tensor.empty", &sizes, ty, &[]);
    }
    let parts = [e.split(offsets), e.split(sizes), e.split(&strides)];
    let mut operands = vec![x];
    parts.iter().for_each(|(_, v)| operands.extend(v));
    let segments = e.segments(&[1, parts[0].1.len(), parts[1].1.len(), parts[2].1.len()]);
    e.b().value(
        "tensor.extract_slice",
        &operands,
        ty,
        &[
            ("static_offsets", parts[0].0),
            ("static_sizes", parts[1].0),
            ("static_strides", parts[2].0),
            ("operandSegmentSizes", segments),
        ],
    )
}

fn tensor_of<'c>(e: &Emitter<'c, '_>, dtype: DType, sizes: &[Size<'c, '_>]) -> Type<'c> {
    use strata_dialects::types::{DYNAMIC, dtype_to_mlir};
    let numbers: Vec<u64> = sizes
        .iter()
        .map(|s| match s {
            Size::Static(c) => *c as u64,
            Size::Dynamic(_) => DYNAMIC,
        })
        .collect();
    melior::ir::r#type::RankedTensorType::new(&numbers, dtype_to_mlir(e.context, dtype.storage()), None)
        .into()
}

/// A slice; its bounds are expressions over the symbols.
pub(super) fn lower_slice<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let x = e.operand(op, 0)?;
    let offsets: Vec<_> = view.dims("starts").iter().map(|s| e.sized(s)).collect();
    let sizes: Vec<_> = view.results[0].shape.iter().map(|s| e.sized(s)).collect();
    Ok(extract(e, x, view.results[0].dtype, &offsets, &sizes, view.ints("strides")))
}

/// `tensor.pad` with a scalar. Amounts are not negative. `sizes` are those of the result.
pub(super) fn pad<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    x: Value<'c, 'a>,
    scalar: Value<'c, 'a>,
    result: &TensorType,
    low: &[Size<'c, 'a>],
    high: &[Size<'c, 'a>],
) -> Value<'c, 'a> {
    let none = |s: &Size<'_, '_>| matches!(s, Size::Static(0));
    if low.iter().chain(high).all(none) {
        return x;
    }
    let (low, high) = (e.split(low), e.split(high));
    let region = Region::new();
    let index = Type::index(e.context);
    let block = region.append_block(Block::new(&vec![(index, e.location); result.rank()]));
    // SAFETY: the block moves with its region into the op.
    let block: BlockRef<'c, 'a> = unsafe { BlockRef::from_raw(block.to_raw()) };
    Builder::at_end(e.context, block, e.location).op("tensor.yield", &[scalar], &[], &[], vec![]);
    let segments = e.segments(&[1, low.1.len(), high.1.len()]);
    let operands = [vec![x], low.1, high.1].concat();
    let attributes = [("static_low", low.0), ("static_high", high.0), ("operandSegmentSizes", segments)];
    let ty = e.ty(result);
    result_of(e.b().op("tensor.pad", &operands, &[ty], &attributes, vec![region]), 0)
}

/// Whether an amount is known not to be negative: symbols are sizes, and what is made of sizes without subtraction is one too.
fn natural(e: &Expr) -> bool {
    e.terms().all(|(_, c)| c >= 0)
}

/// How many elements an amount of padding cuts: none where it is positive. More may be cut on one side than there are, where the
/// other side makes up for it.
fn cut<'c, 'a>(e: &mut Emitter<'c, 'a>, amount: Size<'c, 'a>, available: Size<'c, 'a>) -> Size<'c, 'a> {
    let zero = Size::Static(0);
    let wanted = e.combine("subi", zero, amount);
    let wanted = e.combine("maxsi", wanted, zero);
    e.combine("minsi", wanted, available)
}

/// A pad; negative amounts cut first.
pub(super) fn lower_pad<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let (x, value) = (e.operand(op, 0)?, e.operand(op, 1)?);
    let (operand, result) = (&view.operands[0], &view.results[0]);
    let zero = Size::Static(0);
    let (mut offsets, mut kept, mut low, mut high) = (vec![], vec![], vec![], vec![]);
    let mut cuts = false;
    for (d, n) in operand.shape.iter().enumerate() {
        let (l, h) = (&view.dims("low")[d], &view.dims("high")[d]);
        let size = e.sized(n);
        if natural(l) && natural(h) {
            offsets.push(zero);
            kept.push(size);
            low.push(e.sized(l));
            high.push(e.sized(h));
            continue;
        }
        cuts = true;
        if natural(&-l.clone()) && natural(&-h.clone()) {
            offsets.push(e.sized(&-l.clone()));
            kept.push(e.sized(&result.shape[d]));
            low.push(zero);
            high.push(zero);
            continue;
        }
        let (total, l, h) = (e.sized(&result.shape[d]), e.sized(l), e.sized(h));
        let before = cut(e, l, size);
        let rest = e.combine("subi", size, before);
        let after = cut(e, h, rest);
        let keep = e.combine("subi", rest, after);
        let l = e.combine("maxsi", l, zero);
        let l = e.combine("minsi", l, total);
        let used = e.combine("addi", keep, l);
        offsets.push(before);
        kept.push(keep);
        low.push(l);
        high.push(e.combine("subi", total, used));
    }
    let x = if cuts { extract(e, x, operand.dtype, &offsets, &kept, &vec![1; kept.len()]) } else { x };
    let element = strata_dialects::types::dtype_to_mlir(e.context, operand.dtype.storage());
    let scalar = e.b().value("tensor.extract", &[value], element, &[]);
    Ok(pad(e, x, scalar, result, &low, &high))
}

/// `tensor.concat`.
pub(super) fn lower_concat<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let operands = (0..view.operands.len()).map(|i| e.operand(op, i)).collect::<Result<Vec<_>, _>>()?;
    let (ty, dim) = (e.ty(&view.results[0]), e.i64(view.int("dim")));
    Ok(e.b().value("tensor.concat", &operands, ty, &[("dim", dim)]))
}
