//! Pointwise ops, with the broadcasts of their operands folded into the indexing maps, and what has one element a
//! position: broadcasts, iota, dim, constants.

use super::emitter::{Emitter, Lowered, Mapped, key};
use crate::ir::name;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{AffineExpr, AttributeLike, Type, Value};
use strata_dialects::build::definition;
use strata_dialects::reference::Scalar;
use strata_dialects::spec::PointwiseBody;
use strata_dialects::types::dtype_to_mlir;
use strata_dialects::{Attr, OpView, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// The `graph.broadcast` that defines a value, if one does.
pub(super) fn broadcast_of<'c, 'a>(value: Value<'c, 'a>) -> Option<OperationRef<'c, 'a>> {
    definition(value).filter(|op| name(op) == "graph.broadcast")
}

/// The scalar that a value repeats, where it is a constant with one distinct element.
fn splat_of(value: Value<'_, '_>) -> Option<(DType, Scalar)> {
    let op = definition(value).filter(|op| name(op) == "graph.constant")?;
    let view = OpView::new(&op).ok()?;
    let Some(Attr::Elements(e)) = view.attr("value") else { return None };
    let one = view.results[0].numel() == Expr::from(1);
    // SAFETY: queries on a valid attribute.
    let splat = unsafe {
        let raw = e.attribute().to_raw();
        mlir_sys::mlirAttributeIsADenseElements(raw) && mlir_sys::mlirDenseElementsAttrIsSplat(raw)
    };
    if !one && !splat || view.results[0].static_shape()?.contains(&0) {
        return None;
    }
    Some((view.results[0].dtype, e.tensor().ok()?.get(0)))
}

/// Where an operand of a pointwise op comes from, broadcasts looked through.
enum Source<'c, 'a> {
    Scalar(DType, Scalar),
    Tensor(Mapped<'c, 'a>),
}

fn source<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    value: Value<'c, 'a>,
    dims: Vec<AffineExpr<'c>>,
    rank: usize,
) -> Result<Source<'c, 'a>, crate::driver::pass::Failure> {
    if let Some((dtype, scalar)) = splat_of(value) {
        return Ok(Source::Scalar(dtype, scalar));
    }
    if let Some(op) = broadcast_of(value).filter(|_| !e.values.contains_key(&key(value))) {
        let view = OpView::new(&op).or_else(|m| e.fail(m))?;
        let inner = broadcast_dims(e, &view, &dims);
        return source(e, op.operand(0).expect("verified op"), inner, rank);
    }
    let v = e.value(value)?;
    Ok(Source::Tensor((v, e.map(rank, &dims))))
}

/// The operand's position in a broadcast, given the position in its result.
fn broadcast_dims<'c>(e: &Emitter<'c, '_>, view: &OpView, dims: &[AffineExpr<'c>]) -> Vec<AffineExpr<'c>> {
    let (from, to) = (&view.operands[0].shape, &view.results[0].shape);
    view.indices("dims")
        .iter()
        .zip(from)
        // Where both sizes are 1 the position is 0 anyway, and the plain dimension is easier to read.
        .map(|(&d, n)| if *n == Expr::from(1) && to[d] != *n { e.c(0) } else { dims[d] })
        .collect()
}

/// A pointwise op as one generic.
pub(super) fn lower<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
    body: PointwiseBody,
) -> Lowered<'c, 'a> {
    let result = &view.results[0];
    let rank = result.rank();
    let mut sources = Vec::new();
    for v in op.operands() {
        let dims = (0..rank).map(|i| e.d(i)).collect();
        sources.push(source(e, v, dims, rank)?);
    }
    let mut inputs: Vec<Mapped<'c, 'a>> = Vec::new();
    // The same tensor read at the same place is one operand.
    let places: Vec<Option<usize>> = sources
        .iter()
        .map(|s| match s {
            Source::Scalar(..) => None,
            Source::Tensor((v, m)) => {
                Some(inputs.iter().position(|(u, n)| u == v && n == m).unwrap_or_else(|| {
                    inputs.push((*v, *m));
                    inputs.len() - 1
                }))
            }
        })
        .collect();
    let numbers: Vec<Option<(DType, Scalar)>> = sources
        .iter()
        .map(|s| match s {
            Source::Scalar(d, x) => Some((*d, *x)),
            Source::Tensor(_) => None,
        })
        .collect();
    let init = e.empty(result.dtype, &result.shape);
    let identity = e.pick(rank, &(0..rank).collect::<Vec<_>>());
    let iterators = vec![super::emitter::Iterator::Parallel; rank];
    let out = e.generic(&inputs, &[(init, identity)], &iterators, |b, x| {
        let row: Vec<_> = places
            .iter()
            .zip(&numbers)
            .map(|(p, n)| match (p, n) {
                (Some(i), _) => x[*i],
                (None, Some((dtype, scalar))) => e.scalar(b.b, *dtype, *scalar),
                (None, None) => unreachable!("an operand is a tensor or a number"),
            })
            .collect();
        vec![body(b, view, &row)]
    });
    Ok(out[0])
}

/// A broadcast that could not be folded into its user.
pub(super) fn lower_broadcast<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let result = &view.results[0];
    let rank = result.rank();
    let dims: Vec<_> = (0..rank).map(|i| e.d(i)).collect();
    let inner = broadcast_dims(e, view, &dims);
    match source(e, op.operand(0).expect("verified op"), inner, rank)? {
        Source::Scalar(dtype, scalar) => {
            let s = e.scalar(e.b(), dtype, scalar);
            Ok(e.filled(s, dtype, &result.shape))
        }
        Source::Tensor(input) => Ok(e.elementwise(&[input], result, |_, x| x[0])),
    }
}

/// The position along a dimension.
pub(super) fn lower_iota<'c, 'a>(e: &mut Emitter<'c, 'a>, view: &OpView) -> Lowered<'c, 'a> {
    let result = &view.results[0];
    let (dim, dtype) = (e.i64(view.int("dim")), result.dtype);
    Ok(e.elementwise(&[], result, |b, _| {
        let i = b.b.value("linalg.index", &[], Type::index(b.b.context), &[("dim", dim)]);
        let via = if dtype.is_float() { DType::I64 } else { dtype.storage() };
        let i = b.b.value("arith.index_cast", &[i], dtype_to_mlir(b.b.context, via), &[]);
        b.convert(i, via, if dtype.is_float() { dtype } else { via })
    }))
}

/// The value of a size expression.
pub(super) fn lower_dim<'c, 'a>(e: &mut Emitter<'c, 'a>, view: &OpView) -> Lowered<'c, 'a> {
    let size = e.size(&view.dims("expr")[0]);
    let result: &TensorType = &view.results[0];
    let ty = dtype_to_mlir(e.context, result.dtype);
    let scalar = e.b().value("arith.index_cast", &[size], ty, &[]);
    Ok(e.filled(scalar, result.dtype, &[]))
}

/// A literal tensor.
pub(super) fn lower_constant<'c, 'a>(e: &mut Emitter<'c, 'a>, view: &OpView) -> Lowered<'c, 'a> {
    let Some(Attr::Elements(elements)) = view.attr("value") else {
        return e.fail("the constant has no elements");
    };
    let (result, ty) = (&view.results[0], e.ty(&view.results[0]));
    let value = if result.dtype.storage() == result.dtype {
        elements.attribute()
    } else {
        let stored = elements.tensor().or_else(|m| e.fail(m))?.stored();
        strata_dialects::attr::dense(e.context, ty, &stored)
    };
    Ok(e.b().value("arith.constant", &[], ty, &[("value", value)]))
}
