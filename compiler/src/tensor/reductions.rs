//! Combinations over dimensions and windows, kept in f32 for narrower floats and rounded once.

use super::emitter::{Emitter, Iterator, Lowered, key};
use super::sizes::Size;
use super::views::pad;
use crate::driver::pass::Failure;
use melior::ir::operation::OperationRef;
use melior::ir::{Attribute, Type, Value};
use strata_dialects::build::{BodyBuilder, result_of};
use strata_dialects::ops::reductions::{ReduceKind, scan_kind};
use strata_dialects::types::dtype_to_mlir;
use strata_dialects::{Attr, OpView, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// MLIR's number of "greater, or one is NaN", and of "less, or one is NaN", and of "neither is NaN".
const UGT: i64 = 9;
const ULT: i64 = 11;
const ORD: i64 = 7;

fn combine<'c, 'a>(
    b: &BodyBuilder<'c, 'a>,
    kind: ReduceKind,
    x: Value<'c, 'a>,
    y: Value<'c, 'a>,
) -> Value<'c, 'a> {
    b.binary(kind.arith(b.dtype(x)), x, y)
}

/// A tensor of neutral elements in the accumulator's type.
fn neutral<'c, 'a>(e: &mut Emitter<'c, 'a>, kind: ReduceKind, dtype: DType, shape: &[Expr]) -> Value<'c, 'a> {
    let acc = dtype.accumulator();
    let scalar = e.scalar(e.b(), acc, kind.neutral(acc));
    e.filled(scalar, acc, shape)
}

/// A reduction over dimensions.
pub(super) fn lower_reduce<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let x = e.operand(op, 0)?;
    let (kind, dims, result) = (ReduceKind::of(view), view.indices("dims"), &view.results[0]);
    let rank = view.operands[0].rank();
    let kept: Vec<usize> = (0..rank).filter(|d| !dims.contains(d)).collect();
    let init = neutral(e, kind, result.dtype, &result.shape);
    let iterators: Vec<_> =
        (0..rank).map(|d| if dims.contains(&d) { Iterator::Reduction } else { Iterator::Parallel }).collect();
    let all = e.pick(rank, &(0..rank).collect::<Vec<_>>());
    let out = e.pick(rank, &kept);
    let sum = e.generic(&[(x, all)], &[(init, out)], &iterators, |b, x| {
        vec![combine(b, kind, x[1], b.widened(x[0], result.dtype))]
    })[0];
    Ok(e.narrowed(sum, result))
}

/// The position of the first best element: a reduction with two results, the best element so far and its position. Elements that
/// combine in another order must prefer the smaller position among equals.
pub(super) fn lower_arg_reduce<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let x = e.operand(op, 0)?;
    let (dim, largest) = (view.int("dim") as usize, view.case("kind") == 0);
    let (operand, result) = (&view.operands[0], &view.results[0]);
    // i1 counts as 0 and 1, not as 0 and -1.
    let acc = if operand.dtype == DType::I1 { DType::I8 } else { operand.dtype.accumulator() };
    let kind = if largest { ReduceKind::Max } else { ReduceKind::Min };
    let best = neutral(e, kind, acc, &result.shape);
    let zero = e.scalar(e.b(), DType::I64, strata_dialects::reference::Scalar::I(0));
    let position = e.filled(zero, DType::I64, &result.shape);
    let rank = operand.rank();
    let kept: Vec<usize> = (0..rank).filter(|&d| d != dim).collect();
    let mut iterators = vec![Iterator::Parallel; rank];
    iterators[dim] = Iterator::Reduction;
    let (all, out) = (e.pick(rank, &(0..rank).collect::<Vec<_>>()), e.pick(rank, &kept));
    let dim = e.i64(dim as i64);
    let results = e.generic(&[(x, all)], &[(best, out), (position, out)], &iterators, |b, x| {
        let v = match operand.dtype {
            DType::I1 => b.cast(x[0], acc),
            d => b.widened(x[0], d),
        };
        let i = b.b.value("linalg.index", &[], Type::index(b.b.context), &[("dim", dim)]);
        let i = b.b.value("arith.index_cast", &[i], dtype_to_mlir(b.b.context, DType::I64), &[]);
        let take = if acc.is_float() {
            // A NaN beats everything but an earlier NaN.
            let better = b.compare("arith.cmpf", if largest { UGT } else { ULT }, v, x[1]);
            let open = b.compare("arith.cmpf", ORD, x[1], x[1]);
            b.binary("arith.andi", better, open)
        } else {
            use strata_dialects::scalar::cmpi::{SGT, SLT};
            b.compare("arith.cmpi", if largest { SGT } else { SLT }, v, x[1])
        };
        vec![b.select(take, v, x[1]), b.select(take, i, x[2])]
    });
    Ok(results[1])
}

/// A reduction over windows: padded with the neutral element, then one reduction dimension a windowed dimension. The sizes of the
/// windows come from an operand without elements of its own.
pub(super) fn lower_window<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let x = e.operand(op, 0)?;
    let (kind, operand, result) = (ReduceKind::of(view), &view.operands[0], &view.results[0]);
    let (window, strides, dilation) = (view.ints("window"), view.ints("strides"), view.ints("dilation"));
    let (low, high) = (view.ints("low"), view.ints("high"));
    let x = if low.iter().chain(high).all(|&n| n == 0) {
        x
    } else {
        let scalar = e.scalar(e.b(), operand.dtype, kind.neutral(operand.dtype));
        padded(e, x, scalar, operand, low, high)
    };
    let rank = operand.rank();
    let windowed: Vec<usize> = (0..rank).filter(|&d| window[d] > 1).collect();
    let dims = rank + windowed.len();
    let read: Vec<_> = (0..rank)
        .map(|d| {
            let start = e.d(d) * e.c(strides[d]);
            match windowed.iter().position(|&w| w == d) {
                Some(k) => start + e.d(rank + k) * e.c(dilation[d]),
                None => start,
            }
        })
        .collect();
    let mut inputs = vec![(x, e.map(dims, &read))];
    if !windowed.is_empty() {
        let sizes: Vec<Expr> = windowed.iter().map(|&d| window[d].into()).collect();
        let shape = e.empty(operand.dtype, &sizes);
        inputs.push((shape, e.pick(dims, &(rank..dims).collect::<Vec<_>>())));
    }
    let init = neutral(e, kind, result.dtype, &result.shape);
    let out = e.pick(dims, &(0..rank).collect::<Vec<_>>());
    let iterators = [vec![Iterator::Parallel; rank], vec![Iterator::Reduction; windowed.len()]].concat();
    let last = inputs.len();
    let sum = e.generic(&inputs, &[(init, out)], &iterators, |b, x| {
        vec![combine(b, kind, x[last], b.widened(x[0], result.dtype))]
    })[0];
    Ok(e.narrowed(sum, result))
}

/// `x` with numbers of elements before and after.
pub(super) fn padded<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    x: Value<'c, 'a>,
    scalar: Value<'c, 'a>,
    operand: &TensorType,
    low: &[i64],
    high: &[i64],
) -> Value<'c, 'a> {
    let shape: Vec<Expr> =
        operand.shape.iter().enumerate().map(|(d, n)| n.clone() + Expr::from(low[d] + high[d])).collect();
    let sizes = |list: &[i64]| list.iter().map(|&n| Size::Static(n)).collect::<Vec<_>>();
    pad(e, x, scalar, &TensorType { dtype: operand.dtype, shape }, &sizes(low), &sizes(high))
}

/// A running combination: an op of its own, as linalg has none.
pub(super) fn lower_scan<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let source = e.operand(op, 0)?;
    // The numbers of `loop.all_reduce`'s enum.
    let kind = match scan_kind(view) {
        ReduceKind::Prod => 1,
        ReduceKind::Max => 2,
        ReduceKind::Min => 3,
        _ => 0,
    };
    let kind = Attr::Enum(kind).to_mlir(e.context).expect("a number");
    let ty = e.ty(&view.results[0]);
    Ok(e.b().value("loop.scan", &[source], ty, &[("kind", kind), ("dim", e.i64(view.int("dim")))]))
}

/// The elements in order and the positions they had: an op of its own with two results.
pub(super) fn lower_sort<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Result<(), Failure> {
    let source = e.operand(op, 0)?;
    let types: Vec<Type<'c>> = view.results.iter().map(|t| e.ty(t)).collect();
    let descending = Attr::Bool(view.bool("descending")).to_mlir(e.context).expect("a truth value");
    let mut attributes = vec![("dim", e.i64(view.int("dim"))), ("descending", descending)];
    if view.operands[0].dtype == DType::U8 {
        attributes.push(("natural", Attribute::unit(e.context)));
    }
    let sorted = e.b().op("loop.sort", &[source], &types, &attributes, vec![]);
    for i in 0..types.len() {
        let (old, new) = (op.result(i).expect("as viewed"), result_of(sorted, i));
        e.values.insert(key(old.into()), new);
    }
    Ok(())
}
