//! Sums of products.

use crate::decompose;
use crate::ops::check_dims;
use crate::ops::reductions::window_size;
use crate::reference::{RefTensor, Rounding, Scalar, unflatten};
use crate::spec::{Constraint, Lowering, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;
use strata_runtime::sym::Expr;

fn rest(rank: usize, batch: &[usize], contracting: &[usize]) -> Vec<usize> {
    (0..rank).filter(|d| !batch.contains(d) && !contracting.contains(d)).collect()
}

fn dot_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let (l, r) = (&view.operands[0], &view.operands[1]);
    if l.dtype != r.dtype || !l.dtype.is_number() {
        return Violation::err(
            "C1",
            format!("the factors are {} and {}, expected one type, not i1", l.dtype, r.dtype),
        );
    }
    let [lb, rb, lc, rc] =
        ["lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting"].map(|n| view.ints(n));
    check_dims("C2", "lhs dimension", &[lb, lc].concat(), l.rank())?;
    check_dims("C2", "rhs dimension", &[rb, rc].concat(), r.rank())?;
    if lb.len() != rb.len() || lc.len() != rc.len() {
        return Violation::err("C3", "batch and contracting dimensions come in pairs");
    }
    for (what, a, b) in [("batch", lb, rb), ("contracting", lc, rc)] {
        for (&i, &j) in a.iter().zip(b) {
            let (x, y) = (&l.shape[i as usize], &r.shape[j as usize]);
            if x != y {
                return Violation::err(
                    "C4",
                    format!("{what} dimension {i} of lhs is {x}, dimension {j} of rhs is {y}"),
                );
            }
        }
    }
    let pick = |t: &TensorType, dims: &[usize]| dims.iter().map(|&d| t.shape[d].clone()).collect::<Vec<_>>();
    let (lb, rb) = (view.indices("lhs_batch"), view.indices("rhs_batch"));
    let (lc, rc) = (view.indices("lhs_contracting"), view.indices("rhs_contracting"));
    let shape =
        [pick(l, &lb), pick(l, &rest(l.rank(), &lb, &lc)), pick(r, &rest(r.rank(), &rb, &rc))].concat();
    Ok(vec![TensorType { dtype: l.dtype, shape }])
}

fn linear_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let (l, bias) = (&view.operands[0], &view.operands[2]);
    if !l.dtype.is_real() {
        return Violation::err("C1", format!("the factors are {}, expected floats", l.dtype));
    }
    let result = dot_infer(view)?;
    let free = free_dims(view).1;
    if free.len() != 1 {
        return Violation::err("C5", format!("rhs has {} dimensions of its own, expected 1", free.len()));
    }
    let last = result[0].shape.last();
    if bias.dtype != l.dtype || bias.rank() != 1 || bias.shape.last() != last {
        let expected = format!("a vector along the last dimension of {}", result[0]);
        return Violation::err("C5", format!("the bias is {bias}, expected {expected}"));
    }
    Ok(result)
}

fn dot_eval(view: &OpView, x: &[RefTensor], rounding: Rounding) -> Result<Vec<RefTensor>, String> {
    let (l, r) = (&x[0], &x[1]);
    let (lb, rb) = (view.indices("lhs_batch"), view.indices("rhs_batch"));
    let (lc, rc) = (view.indices("lhs_contracting"), view.indices("rhs_contracting"));
    let (lr, rr) = (rest(l.shape.len(), &lb, &lc), rest(r.shape.len(), &rb, &rc));
    let shape = view.results[0].static_shape().ok_or("unbound size")?;
    let inner: Vec<usize> = lc.iter().map(|&d| l.shape[d]).collect();
    Ok(vec![RefTensor::generate(l.dtype, &shape, rounding, |i| {
        let at = unflatten(i, &shape);
        let (mut li, mut ri) = (vec![0; l.shape.len()], vec![0; r.shape.len()]);
        for (k, (&a, &b)) in lb.iter().zip(&rb).enumerate() {
            (li[a], ri[b]) = (at[k], at[k]);
        }
        lr.iter().enumerate().for_each(|(k, &d)| li[d] = at[lb.len() + k]);
        rr.iter().enumerate().for_each(|(k, &d)| ri[d] = at[lb.len() + lr.len() + k]);
        let mut sum = if l.dtype.is_float() { Scalar::F(0.0) } else { Scalar::I(0) };
        for c in 0..inner.iter().product() {
            let k = unflatten(c, &inner);
            for (j, (&a, &b)) in lc.iter().zip(&rc).enumerate() {
                (li[a], ri[b]) = (k[j], k[j]);
            }
            sum = match (sum, l.at(&li), r.at(&ri)) {
                (Scalar::F(s), Scalar::F(a), Scalar::F(b)) => {
                    let product = rounding.keep(l.dtype, Scalar::F(a * b)).f();
                    rounding.keep(l.dtype, Scalar::F(s + product))
                }
                (s, a, b) => Scalar::I(s.i().wrapping_add(a.i().wrapping_mul(b.i()))),
            };
        }
        sum
    })])
}

fn convolution_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let (x, w) = (&view.operands[0], &view.operands[1]);
    if x.dtype != w.dtype || !x.dtype.is_real() {
        return Violation::err(
            "C1",
            format!("input is {}, weight is {}, expected one float type", x.dtype, w.dtype),
        );
    }
    if x.rank() != w.rank() || x.rank() < 3 || x.rank() > 5 {
        return Violation::err("C2", format!("input {x} and weight {w} need one rank from 3 to 5"));
    }
    let spatial = x.rank() - 2;
    let lists = ["strides", "low", "high", "dilation"].map(|n| view.ints(n));
    if lists.iter().any(|l| l.len() != spatial) {
        return Violation::err(
            "C3",
            format!("needs strides, low, high and dilation for {spatial} spatial dimensions"),
        );
    }
    let [strides, low, high, dilation] = lists;
    let groups = view.int("groups");
    let (Some(channels), Some(wc), Some(out)) =
        (x.shape[1].as_const(), w.shape[1].as_const(), w.shape[0].as_const())
    else {
        return Violation::err("C4", "channels must be numbers");
    };
    if groups < 1 || channels != wc * groups || out % groups != 0 {
        return Violation::err("C4", format!("{channels} channels, weight {w}, {groups} groups do not fit"));
    }
    let mut shape = vec![x.shape[0].clone(), w.shape[0].clone()];
    for d in 0..spatial {
        let Some(k) = w.shape[d + 2].as_const() else {
            return Violation::err("C5", "the weight's sizes must be numbers");
        };
        if strides[d] < 1 || dilation[d] < 1 || low[d] < 0 || high[d] < 0 || k < 1 {
            return Violation::err(
                "C5",
                format!(
                    "spatial dimension {d}: strides, dilation and weight at least 1, paddings at least 0"
                ),
            );
        }
        let size = window_size(&x.shape[d + 2], low[d], high[d], k, dilation[d], strides[d]);
        if size.as_const().is_some_and(|s| s < 1) {
            return Violation::err(
                "C6",
                format!("the weight does not fit into spatial dimension {d} of size {}", x.shape[d + 2]),
            );
        }
        shape.push(size);
    }
    Ok(vec![TensorType { dtype: x.dtype, shape }])
}

fn convolution_eval(view: &OpView, x: &[RefTensor], rounding: Rounding) -> Result<Vec<RefTensor>, String> {
    let (x, w) = (&x[0], &x[1]);
    let shape = view.results[0].static_shape().ok_or("unbound size")?;
    let (strides, low, dilation) = (view.ints("strides"), view.ints("low"), view.ints("dilation"));
    let (per_group, out_per_group) = (w.shape[1], w.shape[0] / view.int("groups") as usize);
    let window = &w.shape[1..];
    let taps: Vec<Vec<usize>> = (0..window.iter().product()).map(|k| unflatten(k, window)).collect();
    Ok(vec![RefTensor::generate(x.dtype, &shape, rounding, |i| {
        let at = unflatten(i, &shape);
        let first_channel = at[1] / out_per_group * per_group;
        let mut sum = 0.0;
        for (n, k) in taps.iter().enumerate() {
            // Row-major positions; one outside of the input is padding.
            let mut from = Some(at[0] * x.shape[1] + first_channel + k[0]);
            for d in 1..k.len() {
                let p = at[d + 1] as i64 * strides[d - 1] + k[d] as i64 * dilation[d - 1] - low[d - 1];
                let inside = p >= 0 && (p as usize) < x.shape[d + 1];
                from = from.filter(|_| inside).map(|f| f * x.shape[d + 1] + p as usize);
            }
            if let Some(from) = from {
                let product = x.get(from).f() * w.get(at[1] * taps.len() + n).f();
                let product = rounding.keep(x.dtype, Scalar::F(product)).f();
                sum = rounding.keep(x.dtype, Scalar::F(sum + product)).f();
            }
        }
        Scalar::F(sum)
    })])
}

/// The dimensions of a `dot_general` that are neither batch nor contracting: of lhs, of rhs.
pub fn free_dims(view: &OpView) -> (Vec<usize>, Vec<usize>) {
    (
        rest(view.operands[0].rank(), &view.indices("lhs_batch"), &view.indices("lhs_contracting")),
        rest(view.operands[1].rank(), &view.indices("rhs_batch"), &view.indices("rhs_contracting")),
    )
}

/// Number of multiplications and additions of a product: 2 · batch · m · n · k.
pub fn dot_flops(view: &OpView) -> Expr {
    let k: Expr =
        view.indices("lhs_contracting").iter().map(|&d| view.operands[0].shape[d].clone()).product();
    view.results[0].numel() * k * Expr::from(2)
}

pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        name: "graph.dot_general",
        semantics: "Element (batch…, i…, j…) is the sum over the contracting dimensions of lhs(batch…, i…, k…) · rhs(batch…, j…, k…), kept in f32 (f64 for f64) and rounded once.",
        stablehlo: Some("dot_general"),
        aten: Some("mm, bmm, addmm"),
        constraints: &[
            Constraint("C1", "the factors have one element type, not i1"),
            Constraint("C2", "batch and contracting dimensions are different dimensions of their factor"),
            Constraint("C3", "they come in pairs"),
            Constraint("C4", "the dimensions of a pair have one size"),
        ],
        infer: dot_infer,
        fold: None,
        eval: Some(dot_eval),
        lowering: Lowering::Structural,
    },
    OpSpec {
        name: "graph.linear",
        semantics: "`dot_general(lhs, rhs) + bias`, the bias along the last dimension of the result; kept in f32 (f64 for f64) and rounded once at the end.",
        stablehlo: None,
        aten: Some("addmm, linear"),
        constraints: &[
            Constraint("C1", "the factors have one float type"),
            Constraint("C2", "batch and contracting dimensions are different dimensions of their factor"),
            Constraint("C3", "they come in pairs"),
            Constraint("C4", "the dimensions of a pair have one size"),
            Constraint(
                "C5",
                "rhs has one dimension of its own, and the bias is a vector of the factors' type along it",
            ),
        ],
        infer: linear_infer,
        fold: None,
        eval: None,
        lowering: Lowering::Composite(decompose::linear),
    },
    OpSpec {
        name: "graph.convolution",
        semantics: "Element (n, o, p…) is the sum over c, q… of input(n, first(o) + c, p·stride + q·dilation − low) · weight(o, c, q…); outside of the input is 0.",
        stablehlo: Some("convolution"),
        aten: Some("convolution"),
        constraints: &[
            Constraint("C1", "input and weight have one float type"),
            Constraint("C2", "input and weight have one rank, 3 to 5"),
            Constraint("C3", "strides, low, high and dilation have one entry a spatial dimension"),
            Constraint("C4", "channels are numbers and divide into the groups"),
            Constraint("C5", "strides, dilation and the weight's sizes are at least 1, paddings at least 0"),
            Constraint("C6", "the weight fits at least once"),
        ],
        infer: convolution_infer,
        fold: None,
        eval: Some(convolution_eval),
        lowering: Lowering::Structural,
    },
];
