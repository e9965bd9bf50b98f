//! Elements picked by index tensors.

use crate::ops::check_dims;
use crate::reference::{RefTensor, Rounding, unflatten};
use crate::spec::{Constraint, Lowering, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use strata_runtime::DType;

fn gather_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let (x, i) = (&view.operands[0], &view.operands[1]);
    if !matches!(i.dtype, DType::I64 | DType::I32) {
        return Violation::err("C1", format!("indices are {}, expected i64 or i32", i.dtype));
    }
    check_dims("C2", "dimension", &[view.int("dim")], x.rank())?;
    let dim = view.int("dim") as usize;
    let shape = [&x.shape[..dim], &i.shape, &x.shape[dim + 1..]].concat();
    Ok(vec![TensorType { dtype: x.dtype, shape }])
}

fn gather_eval(view: &OpView, x: &[RefTensor], _: Rounding) -> Result<Vec<RefTensor>, String> {
    let (x, indices) = (&x[0], &x[1]);
    let dim = view.int("dim") as usize;
    let size = x.shape[dim] as i64;
    let shape = view.results[0].static_shape().ok_or("unbound size")?;
    if size == 0 && !indices.is_empty() {
        return Err(format!("graph.gather: dimension {dim} is empty"));
    }
    Ok(vec![RefTensor::generate(x.dtype, &shape, Rounding::Float64, |i| {
        let at = unflatten(i, &shape);
        let picked = indices.at(&at[dim..dim + indices.shape.len()]).i();
        // Negative indices count from the end; what is still outside is clamped, so that no read is out of bounds.
        let picked = (if picked < 0 { picked + size } else { picked }).clamp(0, size - 1) as usize;
        x.at(&[&at[..dim], &[picked], &at[dim + indices.shape.len()..]].concat())
    })])
}

pub(super) static ROWS: &[OpSpec] = &[OpSpec {
    name: "graph.gather",
    semantics: "Element (i…, j…, k…) is the operand's at (i…, indices(j…), k…). A negative index counts from the end; what is still outside is clamped.",
    stablehlo: Some("gather"),
    aten: Some("embedding, index_select"),
    constraints: &[
        Constraint("C1", "indices are i64 or i32"),
        Constraint("C2", "`dim` is a dimension of the operand"),
    ],
    infer: gather_infer,
    fold: None,
    eval: Some(gather_eval),
    lowering: Lowering::Structural,
}];
