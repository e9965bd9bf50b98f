//! Ops that are rewritten in simpler ones.

use crate::decompose;
use crate::ops::check_dims;
use crate::spec::{Constraint, Lowering, OpSpec, Violation};
use crate::types::TensorType;
use crate::view::OpView;

fn softmax_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    if !x.dtype.is_real() {
        return Violation::err("C1", format!("is not defined on {}", x.dtype));
    }
    check_dims("C2", "dimension", &[view.int("dim")], x.rank())?;
    Ok(vec![x.clone()])
}

fn layer_norm_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let x = &view.operands[0];
    let n = view.int("dims");
    if !x.dtype.is_real() {
        return Violation::err("C1", format!("is not defined on {}", x.dtype));
    }
    if n < 1 || n as usize > x.rank() {
        return Violation::err("C2", format!("normalises over the last {n} of {} dimensions", x.rank()));
    }
    if view.operands.len() > 3 {
        return Violation::err("C3", "takes at most a weight and a bias");
    }
    for t in &view.operands[1..] {
        if t.dtype != x.dtype || t.shape != x.shape[x.rank() - n as usize..] {
            return Violation::err(
                "C3",
                format!("weight or bias is {t}, expected the normalised part of {x}"),
            );
        }
    }
    Ok(vec![x.clone()])
}

fn attention_infer(view: &OpView) -> Result<Vec<TensorType>, Violation> {
    let [q, k, v] = &view.operands[..3] else {
        return Violation::err("C1", "takes query, key and value");
    };
    let r = q.rank();
    if r < 2
        || k.rank() != r
        || v.rank() != r
        || !q.dtype.is_real()
        || k.dtype != q.dtype
        || v.dtype != q.dtype
    {
        return Violation::err(
            "C1",
            format!("query {q}, key {k} and value {v} need one rank of at least 2 and one float type"),
        );
    }
    if q.shape[..r - 2] != k.shape[..r - 2]
        || k.shape[..r - 1] != v.shape[..r - 1]
        || q.shape[r - 1] != k.shape[r - 1]
    {
        return Violation::err("C2", format!("the sizes of query {q}, key {k} and value {v} do not fit"));
    }
    let mut scores = q.clone();
    scores.shape[r - 1] = k.shape[r - 2].clone();
    for t in &view.operands[3..] {
        if *t != scores {
            return Violation::err(
                "C3",
                format!("the bias is {t}, expected {scores}; broadcasts are explicit"),
            );
        }
    }
    if view.operands.len() > 4 {
        return Violation::err("C3", "takes at most one bias");
    }
    let mut out = q.clone();
    out.shape[r - 1] = v.shape[r - 1].clone();
    Ok(vec![out])
}

pub(super) static ROWS: &[OpSpec] = &[
    OpSpec {
        name: "graph.softmax",
        semantics: "`exp(x − m) / sum(exp(x − m))` along `dim`, with m the largest element; computed in f32 for narrower floats.",
        stablehlo: None,
        aten: Some("_softmax"),
        constraints: &[
            Constraint("C1", "the element type is a float"),
            Constraint("C2", "`dim` is a dimension of the operand"),
        ],
        infer: softmax_infer,
        fold: None,
        eval: None,
        lowering: Lowering::Composite(decompose::softmax),
    },
    OpSpec {
        name: "graph.layer_norm",
        semantics: "`(x − mean) / sqrt(variance + epsilon) · weight + bias` over the last `dims` dimensions; computed in f32 for narrower floats.",
        stablehlo: None,
        aten: Some("native_layer_norm"),
        constraints: &[
            Constraint("C1", "the element type is a float"),
            Constraint("C2", "`dims` is at least 1 and at most the rank"),
            Constraint("C3", "weight and bias have the shape of the normalised dimensions"),
        ],
        infer: layer_norm_infer,
        fold: None,
        eval: None,
        lowering: Lowering::Composite(decompose::layer_norm),
    },
    OpSpec {
        name: "graph.attention",
        semantics: "`softmax(scale · query · keyᵀ + bias) · value` over the last two dimensions; with `causal`, position j counts for position i where j ≤ i. A row of which no score is above -∞ gives zeros.",
        stablehlo: None,
        aten: Some("scaled_dot_product_attention"),
        constraints: &[
            Constraint("C1", "query, key and value have one rank of at least 2 and one float type"),
            Constraint(
                "C2",
                "their leading dimensions agree, query and key in width, key and value in length",
            ),
            Constraint("C3", "the bias has the shape of the scores"),
        ],
        infer: attention_infer,
        fold: None,
        eval: None,
        lowering: Lowering::Composite(decompose::attention),
    },
];
