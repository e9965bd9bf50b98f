//! The same elements in another arrangement.

use crate::ops::{check_dims, stated};
use crate::reference::{RefTensor, flatten, unflatten};
use crate::spec::{Constraint, Fold, Lowering, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use strata_runtime::sym::Expr;

fn broadcast_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let result = stated(view, 1)?;
    let (x, r) = (&view.operands[0], &result[0]);
    let dims = view.ints("dims");
    if dims.len() != x.rank() {
        return Violation::err(
            "C1",
            format!("maps {} dimensions of an operand of rank {}", dims.len(), x.rank()),
        );
    }
    check_dims("C2", "dimension", dims, r.rank())?;
    if dims.windows(2).any(|w| w[0] > w[1]) {
        return Violation::err("C2", format!("dimensions {dims:?} are not in ascending order"));
    }
    for (i, &d) in dims.iter().enumerate() {
        let (from, to) = (&x.shape[i], &r.shape[d as usize]);
        if *from != Expr::from(1) && from != to {
            return Violation::err(
                "C3",
                format!("operand dimension {i} is {from}, result dimension {d} is {to}"),
            );
        }
    }
    if x.dtype != r.dtype {
        return Violation::err("C4", format!("changes the element type from {} to {}", x.dtype, r.dtype));
    }
    Ok(result)
}

fn reshape_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let result = stated(view, 1)?;
    let (x, r) = (&view.operands[0], &result[0]);
    if x.dtype != r.dtype {
        return Violation::err("C1", format!("changes the element type from {} to {}", x.dtype, r.dtype));
    }
    let (have, want) = (x.numel(), r.numel());
    // A symbol with a definition (a product, a minimum) stands on one side only; that the counts agree is then the promise of
    // whoever defined it.
    let comparable =
        have.as_const().is_some() || want.as_const().is_some() || have.symbols() == want.symbols();
    if have != want && comparable {
        return Violation::err("C2", format!("{x} has {have} elements, {r} has {want}"));
    }
    Ok(result)
}

fn transpose_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    let p = view.ints("permutation");
    if p.len() != x.rank() {
        return Violation::err(
            "C1",
            format!("permutes {} dimensions of an operand of rank {}", p.len(), x.rank()),
        );
    }
    check_dims("C1", "dimension", p, x.rank())?;
    Ok(vec![TensorType { dtype: x.dtype, shape: p.iter().map(|&d| x.shape[d as usize].clone()).collect() }])
}

fn slice_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    let (starts, limits, strides) = (view.dims("starts"), view.dims("limits"), view.ints("strides"));
    if [starts.len(), limits.len(), strides.len()].iter().any(|&n| n != x.rank()) {
        return Violation::err("C1", format!("needs {} starts, limits and strides", x.rank()));
    }
    let mut shape = Vec::new();
    for i in 0..x.rank() {
        if strides[i] < 1 {
            return Violation::err("C2", format!("stride {} of dimension {i} is not positive", strides[i]));
        }
        let (start, limit, size) = (&starts[i], &limits[i], &x.shape[i]);
        // Where the numbers are known, the slice must lie inside; symbolic bounds are the importer's promise.
        let outside = start.as_const().is_some_and(|s| s < 0)
            || matches!((start.as_const(), limit.as_const()), (Some(s), Some(l)) if l < s)
            || matches!((limit.as_const(), size.as_const()), (Some(l), Some(n)) if l > n);
        if outside {
            return Violation::err(
                "C3",
                format!("[{start}, {limit}) is not inside dimension {i} of size {size}"),
            );
        }
        shape.push((limit.clone() - start.clone()).ceil_div(&Expr::from(strides[i])));
    }
    Ok(vec![TensorType { dtype: x.dtype, shape }])
}

fn pad_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let (x, value) = (&view.operands[0], &view.operands[1]);
    let (low, high) = (view.dims("low"), view.dims("high"));
    if low.len() != x.rank() || high.len() != x.rank() {
        return Violation::err("C1", format!("needs {} amounts before and after", x.rank()));
    }
    if value.rank() != 0 || value.dtype != x.dtype {
        return Violation::err("C2", format!("the value is {value}, expected {}[]", x.dtype));
    }
    let mut shape = Vec::new();
    for (i, n) in x.shape.iter().enumerate() {
        let size = n.clone() + low[i].clone() + high[i].clone();
        if size.as_const().is_some_and(|s| s < 0) {
            return Violation::err("C3", format!("dimension {i} of size {n} becomes {size}"));
        }
        shape.push(size);
    }
    Ok(vec![TensorType { dtype: x.dtype, shape }])
}

fn concat_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let Some(first) = view.operands.first() else {
        return Violation::err("C1", "needs at least one operand");
    };
    check_dims("C2", "dimension", &[view.int("dim")], first.rank())?;
    let dim = view.int("dim") as usize;
    let mut shape = first.shape.clone();
    for (i, t) in view.operands.iter().enumerate().skip(1) {
        let other = |s: &[Expr]| {
            s.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, e)| e.clone()).collect::<Vec<_>>()
        };
        if t.dtype != first.dtype || t.rank() != first.rank() || other(&t.shape) != other(&first.shape) {
            return Violation::err(
                "C3",
                format!("operand {i} is {t}, operand 0 is {first}; only dimension {dim} may differ"),
            );
        }
        shape[dim] = shape[dim].clone() + t.shape[dim].clone();
    }
    Ok(vec![TensorType { dtype: first.dtype, shape }])
}

/// The result tensor of a view: element `index` of the result is element `f(index)` of the operand.
fn rearrange(
    view: &OpView,
    x: &RefTensor,
    f: impl Fn(&[usize]) -> Vec<usize>,
) -> Result<Vec<RefTensor>, String> {
    let ty = &view.results[0];
    let shape = ty.static_shape().ok_or("unbound size")?;
    let from = |i| x.at(&f(&unflatten(i, &shape)));
    Ok(vec![RefTensor::generate(ty.dtype, &shape, crate::reference::Rounding::Float64, from)])
}

fn constants(dims: &[Expr]) -> Result<Vec<i64>, String> {
    dims.iter().map(|e| e.as_const().ok_or_else(|| format!("the size {e} has no value"))).collect()
}

fn same_type(view: &OpView) -> Option<Fold> {
    (view.operands[0] == view.results[0]).then_some(Fold::Operand(0))
}

pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        name: "graph.broadcast",
        semantics: "Element `i` of the result is the operand's element at `i[dims[0]], i[dims[1]], …`, 0 where the operand's size is 1.",
        stablehlo: Some("broadcast_in_dim"),
        aten: Some("expand"),
        constraints: &[
            Constraint("C1", "`dims` has one entry a dimension of the operand"),
            Constraint("C2", "`dims` are different dimensions of the result in ascending order"),
            Constraint("C3", "operand dimension i has size 1 or the size of result dimension dims[i]"),
            Constraint("C4", "operand and result have one element type"),
        ],
        infer: broadcast_infer,
        fold: Some(|view, _| same_type(view)),
        eval: Some(|view, x, _| {
            let dims = view.indices("dims");
            rearrange(view, &x[0], |i| {
                dims.iter().zip(&x[0].shape).map(|(&d, &n)| if n == 1 { 0 } else { i[d] }).collect()
            })
        }),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.reshape",
        semantics: "The elements in row-major order under the result's shape.",
        stablehlo: Some("reshape"),
        aten: Some("view"),
        constraints: &[
            Constraint("C1", "operand and result have one element type"),
            Constraint("C2", "operand and result have equally many elements"),
        ],
        infer: reshape_infer,
        fold: Some(|view, _| same_type(view)),
        eval: Some(|view, x, _| {
            let shape = view.results[0].static_shape().ok_or("unbound size")?;
            Ok(vec![RefTensor { shape, ..x[0].clone() }])
        }),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.transpose",
        semantics: "Dimension i of the result is dimension `permutation[i]` of the operand.",
        stablehlo: Some("transpose"),
        aten: Some("permute"),
        constraints: &[Constraint("C1", "`permutation` names every dimension of the operand once")],
        infer: transpose_infer,
        fold: Some(|view, _| {
            view.ints("permutation")
                .iter()
                .enumerate()
                .all(|(i, &d)| i as i64 == d)
                .then_some(Fold::Operand(0))
        }),
        eval: Some(|view, x, _| {
            let p = view.indices("permutation");
            rearrange(view, &x[0], |i| {
                let mut from = vec![0; i.len()];
                for (k, &d) in p.iter().enumerate() {
                    from[d] = i[k];
                }
                from
            })
        }),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.slice",
        semantics: "Elements start, start + stride, … below limit, in every dimension.",
        stablehlo: Some("slice"),
        aten: Some("slice.Tensor"),
        constraints: &[
            Constraint("C1", "one start, limit and stride a dimension"),
            Constraint("C2", "strides are positive"),
            Constraint("C3", "0 <= start <= limit <= size"),
        ],
        infer: slice_infer,
        fold: Some(|view, _| same_type(view)),
        eval: Some(|view, x, _| {
            let starts = constants(view.dims("starts"))?;
            let strides = view.ints("strides");
            rearrange(view, &x[0], |i| {
                i.iter().enumerate().map(|(d, &k)| (starts[d] + k as i64 * strides[d]) as usize).collect()
            })
        }),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.pad",
        semantics: "The operand with `low` elements of the value before and `high` after it, in every dimension; negative amounts cut.",
        stablehlo: Some("pad"),
        aten: Some("constant_pad_nd"),
        constraints: &[
            Constraint("C1", "one amount before and after a dimension"),
            Constraint("C2", "the value is a tensor of rank 0 of the operand's element type"),
            Constraint("C3", "no size becomes negative"),
        ],
        infer: pad_infer,
        fold: None,
        eval: Some(|view, x, _| {
            let low = constants(view.dims("low"))?;
            let ty = &view.results[0];
            let shape = ty.static_shape().ok_or("unbound size")?;
            Ok(vec![RefTensor::generate(ty.dtype, &shape, crate::reference::Rounding::Float64, |i| {
                let index = unflatten(i, &shape);
                let from: Vec<i64> = index.iter().zip(&low).map(|(&k, &l)| k as i64 - l).collect();
                if from.iter().zip(&x[0].shape).all(|(&k, &n)| k >= 0 && (k as usize) < n) {
                    x[0].at(&from.iter().map(|&k| k as usize).collect::<Vec<_>>())
                } else {
                    x[1].get(0)
                }
            })])
        }),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.concat",
        semantics: "The operands one after another along dimension `dim`.",
        stablehlo: Some("concatenate"),
        aten: Some("cat"),
        constraints: &[
            Constraint("C1", "at least one operand"),
            Constraint("C2", "`dim` is a dimension of the operands"),
            Constraint("C3", "the operands differ in the size of `dim` at most"),
        ],
        infer: concat_infer,
        fold: Some(|view, _| (view.operands.len() == 1).then_some(Fold::Operand(0))),
        eval: Some(|view, x, _| {
            let dim = view.int("dim") as usize;
            let ty = &view.results[0];
            let shape = ty.static_shape().ok_or("unbound size")?;
            Ok(vec![RefTensor::generate(ty.dtype, &shape, crate::reference::Rounding::Float64, |i| {
                let mut index = unflatten(i, &shape);
                let mut k = 0;
                while index[dim] >= x[k].shape[dim] {
                    index[dim] -= x[k].shape[dim];
                    k += 1;
                }
                x[k].get(flatten(&index, &x[k].shape))
            })])
        }),
        lowering: Lowering::Structural,
    },
];
