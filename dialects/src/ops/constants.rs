//! Literals and values that only depend on the position or on sizes.

use crate::attr::Attr;
use crate::ops::{check_dims, stated};
use crate::reference::{RefTensor, Scalar, unflatten};
use crate::spec::{Constraint, Lowering, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use melior::ir::AttributeLike;
use strata_runtime::DType;

fn constant_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let Some(Attr::Elements(elements)) = view.attr("value") else {
        return Violation::err("C1", "the value is not an elements attribute");
    };
    let ty = TensorType::from_mlir(elements.attribute().r#type())
        .map_err(|message| Violation { constraint: "C1", message })?;
    match view.results.as_slice() {
        [] => Ok(vec![ty]),
        [stated] if *stated == ty => Ok(vec![ty]),
        other => Violation::err("C1", format!("the value is {ty}, the result {:?}", other.first())),
    }
}

fn iota_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let result = stated(view, 1)?;
    check_dims("C1", "dimension", &[view.int("dim")], result[0].rank())?;
    if !result[0].dtype.is_number() {
        return Violation::err("C2", format!("is not defined on {}", result[0].dtype));
    }
    Ok(result)
}

fn dim_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let result = stated(view, 1)?;
    if view.dims("expr").len() != 1 {
        return Violation::err("C1", format!("takes one expression, got {}", view.dims("expr").len()));
    }
    if result[0].rank() != 0 || !matches!(result[0].dtype, DType::I64 | DType::I32) {
        return Violation::err("C2", format!("gives i64[] or i32[], not {}", result[0]));
    }
    Ok(result)
}

fn number(dtype: DType, v: i64) -> Scalar {
    if dtype.is_float() { Scalar::F(v as f64) } else { Scalar::I(v) }
}

pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        name: "graph.constant",
        semantics: "The elements of the attribute `value`.",
        stablehlo: Some("constant"),
        aten: None,
        constraints: &[Constraint("C1", "the value has the type of the result")],
        infer: constant_infer,
        fold: None,
        eval: Some(|view, _, _| match view.attr("value") {
            Some(Attr::Elements(e)) => Ok(vec![e.tensor()?]),
            _ => Err("graph.constant without elements".into()),
        }),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.iota",
        semantics: "The element's position along dimension `dim`.",
        stablehlo: Some("iota"),
        aten: Some("arange.start_step"),
        constraints: &[
            Constraint("C1", "`dim` is a dimension of the result"),
            Constraint("C2", "the element type is neither i1 nor an 8-bit float"),
        ],
        infer: iota_infer,
        fold: None,
        eval: Some(|view, _, rounding| {
            let ty = &view.results[0];
            let shape = ty.static_shape().ok_or("unbound size")?;
            let dim = view.int("dim") as usize;
            Ok(vec![RefTensor::generate(ty.dtype, &shape, rounding, |i| {
                number(ty.dtype, unflatten(i, &shape)[dim] as i64)
            })])
        }),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.dim",
        semantics: "The value of a size expression, as a tensor of rank 0.",
        stablehlo: Some("get_dimension_size"),
        aten: Some("sym_size.int"),
        constraints: &[
            Constraint("C1", "one expression"),
            Constraint("C2", "the result is an i64 or i32 of rank 0"),
        ],
        infer: dim_infer,
        fold: None,
        eval: Some(|view, _, _| {
            let v = view.dims("expr")[0].as_const().ok_or("unbound size")?;
            Ok(vec![RefTensor::scalar(view.results[0].dtype, Scalar::I(v))])
        }),
        lowering: Lowering::Structural,
    },
];
