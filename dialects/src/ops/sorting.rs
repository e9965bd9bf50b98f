//! Elements in order.

use crate::ops::check_dims;
use crate::reference::{RefTensor, Rounding, Scalar};
use crate::spec::{Constraint, Lowering, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use std::cmp::Ordering;
use strata_runtime::DType;

fn infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    check_dims("C1", "dimension", &[view.int("dim")], x.rank())?;
    if x.dtype.is_float8() {
        return Violation::err("C2", format!("is not defined on {}, which nothing is computed in", x.dtype));
    }
    Ok(vec![x.clone(), TensorType { dtype: DType::I64, shape: x.shape.clone() }])
}

/// The order of two elements: NaN is the largest and equals NaN, and -0 equals 0.
pub fn order(a: Scalar, b: Scalar) -> Ordering {
    match (a, b) {
        (Scalar::F(a), Scalar::F(b)) => {
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        (a, b) => a.i().cmp(&b.i()),
    }
}

/// Sorts along dimension `dim`: the elements, and the positions they had. Equal ones keep their order.
pub fn sort(dim: usize, descending: bool, x: &RefTensor) -> [RefTensor; 2] {
    let (n, inner) = (x.shape[dim], x.shape[dim + 1..].iter().product::<usize>());
    let mut from = vec![0; x.len()];
    for row in 0..x.len().checked_div(n).unwrap_or(0) {
        let first = row / inner * n * inner + row % inner;
        let at = |k: usize| x.get(first + k * inner);
        let mut places: Vec<usize> = (0..n).collect();
        places.sort_by(|&a, &b| if descending { order(at(b), at(a)) } else { order(at(a), at(b)) });
        for (k, place) in places.into_iter().enumerate() {
            from[first + k * inner] = place;
        }
    }
    // Nothing is computed, so nothing is rounded.
    let exact = Rounding::Float64;
    let values = RefTensor::generate(x.dtype, &x.shape, exact, |i| {
        let k = i / inner % n;
        x.get(i - k * inner + from[i] * inner)
    });
    [values, RefTensor::generate(DType::I64, &x.shape, exact, |i| Scalar::I(from[i] as i64))]
}

pub(super) static ROWS: &[OpSpec] = &[OpSpec {
    name: "graph.sort",
    semantics: "The elements along `dim` in ascending (or descending) order, and the position that each had in the operand. Equal elements keep their order in both directions; NaN is the largest, and -0 equals 0.",
    stablehlo: Some("sort"),
    aten: Some("sort, sort.stable"),
    constraints: &[
        Constraint("C1", "`dim` is a dimension of the operand"),
        Constraint("C2", "the element type is not an 8-bit float"),
    ],
    infer,
    fold: None,
    eval: Some(|view, x, _| Ok(sort(view.int("dim") as usize, view.bool("descending"), &x[0]).into())),
    lowering: Lowering::Structural,
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Values;

    fn row(values: &[f64]) -> RefTensor {
        RefTensor { dtype: DType::F32, shape: vec![values.len()], values: Values::Float(values.to_vec()) }
    }

    #[test]
    fn not_a_number_is_the_largest_and_equal_elements_keep_their_order() {
        let x = row(&[1.0, f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NAN, 1.0]);
        let [values, places] = sort(0, false, &x);
        assert_eq!(places.ints(), [2, 3, 0, 6, 4, 1, 5]);
        assert!(values.floats()[5..].iter().all(|v| v.is_nan()));
        let [_, places] = sort(0, true, &x);
        assert_eq!(places.ints(), [1, 5, 4, 0, 6, 2, 3]);
    }

    #[test]
    fn rows_lie_along_any_dimension() {
        let x = RefTensor { dtype: DType::I8, shape: vec![3, 2], values: Values::Int(vec![3, 1, 2, 9, 1, 5]) };
        let [values, places] = sort(0, false, &x);
        assert_eq!((values.ints(), places.ints()), (&[1, 1, 2, 5, 3, 9][..], &[2, 0, 1, 2, 0, 1][..]));
        let [values, _] = sort(1, true, &x);
        assert_eq!(values.ints(), [3, 1, 9, 2, 5, 1]);
        let empty = RefTensor { dtype: DType::I8, shape: vec![3, 0], values: Values::Int(vec![]) };
        assert!(sort(1, false, &empty)[1].is_empty() && sort(0, false, &empty)[0].is_empty());
    }
}
