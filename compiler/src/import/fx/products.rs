//! Matrix products and convolutions.

use super::lower::{Cx, Many, One, Refusal, wide};
use super::model::Node;
use super::operand::Operand;
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::Attr;
use strata_dialects::reference::Scalar;

pub const TABLE: &[Entry] = &[
    ("aten.mm", |cx, n| product(cx, n, "self", "mat2", None)),
    ("aten.bmm", |cx, n| product(cx, n, "self", "mat2", None)),
    ("aten.addmm", |cx, n| product(cx, n, "mat1", "mat2", Some("self"))),
    ("aten.baddbmm", |cx, n| product(cx, n, "batch1", "batch2", Some("self"))),
    ("aten.addmv", |cx, n| product(cx, n, "mat", "vec", Some("self"))),
    ("aten.mv", |cx, n| product(cx, n, "self", "vec", None)),
    ("aten.dot", |cx, n| product(cx, n, "self", "tensor", None)),
    ("aten.matmul", |cx, n| product(cx, n, "self", "other", None)),
    ("aten.linear", linear),
    ("aten.convolution", convolution),
];

/// `x · y` of matrices, stacks of them, or vectors: the last dimension of `x` with the last but one (or only) of `y`.
pub fn dot<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>, y: Value<'c, 'a>) -> One<'c, 'a> {
    let (l, r) = (cx.ty(x), cx.ty(y));
    if l.rank() == 0 || r.rank() == 0 {
        return Err("a factor of rank 0".into());
    }
    let batch = l.rank().min(r.rank()).saturating_sub(2);
    let uneven = l.rank() != r.rank() && (l.rank() > 2 || r.rank() > 2);
    if uneven || l.shape[..batch] != r.shape[..batch] {
        return Err(format!("the batch dimensions of {l} and {r} differ").into());
    }
    let dims: Vec<i64> = (0..batch as i64).collect();
    let contracting = |d: usize| Attr::Ints(vec![d as i64]);
    let attrs = [
        ("lhs_batch", Attr::Ints(dims.clone())),
        ("rhs_batch", Attr::Ints(dims)),
        ("lhs_contracting", contracting(l.rank() - 1)),
        ("rhs_contracting", contracting(r.rank().saturating_sub(2))),
    ];
    Ok(cx.b.graph1("dot_general", &[x, y], &attrs)?)
}

fn product<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, x: &str, y: &str, bias: Option<&str>) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let [x, y] = [x, y].map(|k| cx.tensor(n, k).and_then(|v| cx.cast(v, out.dtype)));
    let product = dot(cx, x?, y?)?;
    let Some(bias) = bias else { return one(product) };
    let get = |key: &str| if n.has(key) { cx.operand(n, key) } else { Ok(Operand::Number(Scalar::I(1))) };
    let (alpha, beta) = (get("alpha")?, get("beta")?);
    let plain =
        |o: &Operand<'_, '_>| matches!(o, Operand::Number(Scalar::I(1)) | Operand::Number(Scalar::F(1.0)));
    let bias = cx.tensor(n, bias)?;
    if plain(&alpha) && plain(&beta) {
        let bias = cx.expand(bias, out.dtype, &out.shape)?;
        return one(cx.op("add", &[product, bias])?);
    }
    let d = wide(out.dtype);
    let scaled = cx.op("mul", &[cx.cast(product, d)?, cx.fit(&alpha, d, &out.shape)?])?;
    // With beta 0 the bias is not read, not even its NaNs.
    if matches!(&beta, Operand::Number(Scalar::I(0)) | Operand::Number(Scalar::F(0.0))) {
        return one(cx.cast(scaled, out.dtype)?);
    }
    let bias = cx.op("mul", &[cx.expand(bias, d, &out.shape)?, cx.fit(&beta, d, &out.shape)?])?;
    one(cx.cast(cx.op("add", &[scaled, bias])?, out.dtype)?)
}

fn linear<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (x, w) = (cx.tensor(n, "input")?, cx.tensor(n, "weight")?);
    let out = n.result(0)?;
    let attrs = [
        ("lhs_batch", Attr::Ints(vec![])),
        ("rhs_batch", Attr::Ints(vec![])),
        ("lhs_contracting", Attr::Ints(vec![cx.ty(x).rank() as i64 - 1])),
        ("rhs_contracting", Attr::Ints(vec![cx.ty(w).rank() as i64 - 1])),
    ];
    let product = cx.b.graph1("dot_general", &[x, w], &attrs)?;
    match cx.optional(n, "bias")? {
        None => one(product),
        Some(bias) => one(cx.op("add", &[product, cx.expand(bias, out.dtype, &out.shape)?])?),
    }
}

fn convolution<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    if n.flag("transposed", false)? {
        return Err("a transposed convolution".into());
    }
    let (x, w) = (cx.tensor(n, "input")?, cx.tensor(n, "weight")?);
    let rank = cx.ty(x).rank();
    if rank < 3 {
        return Err(Refusal(format!("a convolution of rank {rank}")));
    }
    let spatial = |key: &str, default| n.spatial(key, rank - 2, default);
    let padding = spatial("padding", 0)?;
    let attrs = [
        ("strides", Attr::Ints(spatial("stride", 1)?)),
        ("low", Attr::Ints(padding.clone())),
        ("high", Attr::Ints(padding)),
        ("dilation", Attr::Ints(spatial("dilation", 1)?)),
        ("groups", Attr::Int(if n.has("groups") { n.int("groups")? } else { 1 })),
    ];
    let y = cx.b.graph1("convolution", &[x, w], &attrs)?;
    match cx.optional(n, "bias")? {
        None => one(y),
        Some(bias) => {
            let ty = cx.ty(y);
            let bias = cx.b.broadcast(cx.cast(bias, ty.dtype)?, &[1], &ty.shape)?;
            one(cx.op("add", &[y, bias])?)
        }
    }
}
