//! Ops of `tensor` that rearrange elements.

use super::body::{Body, Outer};
use super::decode::element_of;
use super::scalar::Cell;
use super::tensor::{Env, Step, cell_of, cells, tensor, tensor_of};
use crate::ir::body;
use melior::ir::attribute::{
    ArrayAttribute, DenseI32ArrayAttribute, DenseI64ArrayAttribute, IntegerAttribute,
};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{TypeLike, ValueLike};
use strata_dialects::reference::{RefTensor, Rounding, flatten, unflatten};
use strata_dialects::types::DYNAMIC;
use strata_runtime::DType;

/// The element type and sizes of a result; its dynamic sizes are the operands from `first` on.
pub(super) fn result_shape(op: OperationRef<'_, '_>, env: &Env, first: usize) -> Step<(DType, Vec<usize>)> {
    let ty = op.result(0).map_err(|e| e.to_string())?.r#type();
    let dtype = element_of(ty)?;
    let mut next = first;
    // SAFETY: a ranked tensor type; its rank bounds the indices.
    let sizes: Vec<Option<i64>> = unsafe {
        (0..mlir_sys::mlirShapedTypeGetRank(ty.to_raw()) as isize)
            .map(|d| {
                (!mlir_sys::mlirShapedTypeIsDynamicDim(ty.to_raw(), d))
                    .then(|| mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), d))
            })
            .collect()
    };
    let shape = sizes
        .into_iter()
        .map(|n| match n {
            Some(n) => Ok(n as usize),
            None => {
                let v = cell_of(env, op.operand(next).map_err(|e| e.to_string())?)?.i();
                next += 1;
                usize::try_from(v).map_err(|_| format!("a tensor of size {v}"))
            }
        })
        .collect::<Step<_>>()?;
    Ok((dtype, shape))
}

/// Numbers of an attribute, its dynamic entries from the operands after position `*next`.
fn mixed(op: OperationRef<'_, '_>, env: &Env, attribute: &str, next: &mut usize) -> Step<Vec<i64>> {
    let a = op.attribute(attribute).map_err(|e| e.to_string())?;
    let a = DenseI64ArrayAttribute::try_from(a).map_err(|e| e.to_string())?;
    (0..a.len())
        .map(|i| match a.element(i).map_err(|e| e.to_string())? {
            v if v == DYNAMIC as i64 => {
                let operand = op.operand(*next).map_err(|e| e.to_string())?;
                *next += 1;
                Ok(cell_of(env, operand)?.i())
            }
            v => Ok(v),
        })
        .collect()
}

fn reassociation(op: OperationRef<'_, '_>) -> Step<Vec<Vec<usize>>> {
    let bad = |e: melior::Error| e.to_string();
    let a = ArrayAttribute::try_from(op.attribute("reassociation").map_err(bad)?).map_err(bad)?;
    (0..a.len())
        .map(|i| {
            let group = ArrayAttribute::try_from(a.element(i).map_err(bad)?).map_err(bad)?;
            (0..group.len())
                .map(|k| {
                    Ok(IntegerAttribute::try_from(group.element(k).map_err(bad)?).map_err(bad)?.value()
                        as usize)
                })
                .collect()
        })
        .collect()
}

fn operand(op: OperationRef<'_, '_>, i: usize, env: &Env) -> Step<std::rc::Rc<RefTensor>> {
    tensor_of(env, op.operand(i).map_err(|e| e.to_string())?)
}

/// `tensor.collapse_shape`.
pub(super) fn collapse(op: OperationRef<'_, '_>, env: &Env) -> Step<RefTensor> {
    let t = operand(op, 0, env)?;
    let shape: Vec<usize> =
        reassociation(op)?.iter().map(|g| g.iter().map(|&d| t.shape[d]).product()).collect();
    if shape.iter().product::<usize>() != t.len() {
        return Err(format!("collapses sizes {:?} to {shape:?}", t.shape));
    }
    Ok(RefTensor { shape, ..(*t).clone() })
}

/// `tensor.expand_shape`.
pub(super) fn expand(op: OperationRef<'_, '_>, env: &Env) -> Step<RefTensor> {
    let t = operand(op, 0, env)?;
    let shape: Vec<usize> =
        mixed(op, env, "static_output_shape", &mut 1)?.into_iter().map(|n| n.max(0) as usize).collect();
    for (g, &n) in reassociation(op)?.iter().zip(&t.shape) {
        if g.iter().map(|&d| shape[d]).product::<usize>() != n {
            return Err(format!("expands sizes {:?} to {shape:?}", t.shape));
        }
    }
    Ok(RefTensor { shape, ..(*t).clone() })
}

/// `tensor.extract_slice` without rank reduction.
pub(super) fn extract_slice(op: OperationRef<'_, '_>, env: &Env) -> Step<RefTensor> {
    let t = operand(op, 0, env)?;
    let next = &mut 1;
    let offsets = mixed(op, env, "static_offsets", next)?;
    let sizes = mixed(op, env, "static_sizes", next)?;
    let strides = mixed(op, env, "static_strides", next)?;
    for d in 0..sizes.len() {
        let last = offsets[d] + (sizes[d] - 1) * strides[d];
        if sizes[d] < 0 || offsets[d] < 0 || sizes[d] > 0 && (last < 0 || last >= t.shape[d] as i64) {
            return Err(format!(
                "the slice of {} elements from {} by {} leaves dimension {d} of size {}",
                sizes[d], offsets[d], strides[d], t.shape[d]
            ));
        }
    }
    let shape: Vec<usize> = sizes.iter().map(|&n| n as usize).collect();
    let data = (0..shape.iter().product())
        .map(|i| {
            let at: Vec<usize> = unflatten(i, &shape)
                .iter()
                .enumerate()
                .map(|(d, &k)| (offsets[d] + k as i64 * strides[d]) as usize)
                .collect();
            Cell::of(t.at(&at))
        })
        .collect();
    Ok(tensor(t.dtype, shape, data))
}

/// `tensor.pad`.
pub(super) fn pad(op: OperationRef<'_, '_>, env: &Env, rounding: Rounding) -> Step<RefTensor> {
    let t = operand(op, 0, env)?;
    let segments = op.attribute("operandSegmentSizes").map_err(|e| e.to_string())?;
    let segments = DenseI32ArrayAttribute::try_from(segments).map_err(|e| e.to_string())?;
    let lows = segments.element(1).map_err(|e| e.to_string())? as usize;
    let low = mixed(op, env, "static_low", &mut 1)?;
    let high = mixed(op, env, "static_high", &mut (1 + lows))?;
    if let Some(n) = low.iter().chain(&high).find(|&&n| n < 0) {
        return Err(format!("pads by {n} elements"));
    }
    let shape: Vec<usize> =
        t.shape.iter().enumerate().map(|(d, &n)| n + (low[d] + high[d]) as usize).collect();
    let code = Body::decode(body(&op).ok_or("a pad without a body")?, &Outer { env, rounding })?;
    let mut machine = code.machine();
    let mut data = Vec::with_capacity(shape.iter().product());
    for i in 0..shape.iter().product() {
        let at = unflatten(i, &shape);
        let from: Vec<i64> = at.iter().zip(&low).map(|(&k, &l)| k as i64 - l).collect();
        if from.iter().zip(&t.shape).all(|(&k, &n)| k >= 0 && (k as usize) < n) {
            let from: Vec<usize> = from.iter().map(|&k| k as usize).collect();
            data.push(Cell::of(t.get(flatten(&from, &t.shape))));
        } else {
            let index: Vec<Cell> = at.iter().map(|&k| Cell::of_i(k as i64)).collect();
            index.iter().enumerate().for_each(|(d, &c)| machine.set(d, c));
            machine.run(&index)?;
            data.push(machine.yielded()[0]);
        }
    }
    Ok(tensor(t.dtype, shape, data))
}

/// `tensor.concat`.
pub(super) fn concat(op: OperationRef<'_, '_>, env: &Env) -> Step<RefTensor> {
    let parts = op.operands().map(|v| tensor_of(env, v)).collect::<Step<Vec<_>>>()?;
    let dim = op.attribute("dim").map_err(|e| e.to_string())?;
    let dim = IntegerAttribute::try_from(dim).map_err(|e| e.to_string())?.value() as usize;
    let first = parts.first().ok_or("a concatenation of nothing")?;
    let mut shape = first.shape.clone();
    shape[dim] = parts.iter().map(|t| t.shape[dim]).sum();
    let outer: usize = shape[..dim].iter().product();
    let inner: usize = shape[dim + 1..].iter().product();
    let all: Vec<Vec<Cell>> = parts.iter().map(|t| cells(t)).collect();
    let mut data = Vec::with_capacity(shape.iter().product());
    for o in 0..outer {
        for (t, c) in parts.iter().zip(&all) {
            let n = t.shape[dim] * inner;
            data.extend_from_slice(&c[o * n..(o + 1) * n]);
        }
    }
    Ok(tensor(first.dtype, shape, data))
}
