//! The same elements in another arrangement.

use super::lower::{Cx, Many, One, Refusal, inverse, wrap};
use super::model::{Arg, Node};
use super::operand::Operand;
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::reference::Scalar;
use strata_dialects::{Attr, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] = &[
    ("aten.view", reshape),
    ("aten.reshape", reshape),
    ("aten._unsafe_view", reshape),
    ("aten.unsqueeze", reshape),
    ("aten.squeeze", reshape),
    ("aten.flatten", reshape),
    ("aten.alias", same),
    ("aten.clone", same),
    ("aten.detach", same),
    ("aten.contiguous", same),
    ("aten.lift_fresh", same),
    ("aten.lift_fresh_copy", same),
    ("prims.device_put", |cx, n| one(cx.tensor(n, "a")?)),
    ("prims.view_of", |cx, n| one(cx.tensor(n, "a")?)),
    ("aten.view_copy", reshape),
    ("aten.unsqueeze_copy", reshape),
    ("aten.squeeze_copy", reshape),
    ("aten.alias_copy", same),
    ("aten.detach_copy", same),
    ("aten.permute_copy", permute),
    ("aten.t_copy", transpose),
    ("aten.transpose_copy", transpose),
    ("aten.expand_copy", expand),
    ("aten.slice_copy", slice),
    ("aten.select_copy", select),
    ("aten.split_copy", split),
    ("aten.split_with_sizes_copy", split),
    ("aten.unbind_copy", unbind),
    ("aten._reshape_alias", reshape),
    ("aten.resolve_conj", same),
    ("aten.resolve_neg", same),
    ("aten.positive", same),
    ("aten.permute", permute),
    ("aten.t", transpose),
    ("aten.transpose", transpose),
    ("aten.expand", expand),
    ("aten.as_strided", as_strided),
    ("aten.as_strided_copy", as_strided),
    ("aten.as_strided_scatter", as_strided_scatter),
    ("aten.unfold", unfold),
    ("aten.unfold_copy", unfold),
    ("aten.slice", slice),
    ("aten.select", select),
    ("aten.split", split),
    ("aten.split_with_sizes", split),
    ("aten.chunk", split),
    ("aten.unbind", unbind),
    ("aten.cat", cat),
    ("aten.stack", stack),
    ("aten.constant_pad_nd", pad),
    ("aten.repeat", repeat),
    ("aten.slice_scatter", slice_scatter),
    ("aten.select_scatter", select_scatter),
];

/// Whether the op only moves elements, so that their type does not matter.
pub fn keeps_bits(base: &str) -> bool {
    !matches!(base, "aten.cat" | "aten.stack" | "aten.constant_pad_nd" | "aten.as_strided_scatter")
        && TABLE.iter().any(|(name, _)| *name == base)
}

fn same<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    one(cx.tensor(n, "self")?)
}

fn reshape<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    if n.op == "aten.view.dtype" || n.op == "aten.view_copy.dtype" {
        return bits(cx, n);
    }
    let x = cx.tensor(n, "self")?;
    one(cx.reshape(x, &n.result(0)?.shape)?)
}

/// The bits under another element type of the same size.
fn bits<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (x, out) = (cx.tensor(n, "self")?, n.result(0)?);
    let mut metas = vec![out];
    if let Some(Arg::Value(name)) = n.args.get("self") {
        metas.extend(cx.meta(name, 0));
    }
    if let Some(foreign) = metas.iter().find(|m| !m.native) {
        return Err(format!("element type {}", foreign.torch).into());
    }
    let ty = TensorType { dtype: out.dtype, shape: out.shape.clone() };
    one(cx.b.graph_as("bitcast", &[x], &[], &[ty])?[0])
}

fn permute<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let rank = cx.ty(x).rank();
    let p = n.ints("dims")?.iter().map(|&d| wrap(d, rank)).collect::<Result<Vec<_>, _>>()?;
    one(cx.transpose(x, &p)?)
}

fn transpose<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let rank = cx.ty(x).rank();
    let mut p: Vec<usize> = (0..rank).collect();
    if matches!(n.base(), "aten.t" | "aten.t_copy") {
        p.reverse();
    } else if rank > 0 {
        p.swap(n.dim("dim0", rank)?, n.dim("dim1", rank)?);
    }
    one(cx.transpose(x, &p)?)
}

fn expand<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let dtype = cx.ty(x).dtype;
    one(cx.expand(x, dtype, &n.result(0)?.shape)?)
}

/// A tensor's elements in the order of its memory, which has to be without gaps; and the sizes in that order.
fn in_memory_order<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Result<(Value<'c, 'a>, Vec<usize>), Refusal> {
    let x = cx.tensor(n, "self")?;
    let Some(Arg::Value(name)) = n.args.get("self") else { return Err("no operand".into()) };
    let from = cx.meta(name, 0).and_then(|m| m.order.clone()).ok_or("a view of memory with gaps")?;
    Ok((cx.transpose(x, &from)?, from))
}

/// Positions in memory of a view with the strides that a node's arguments name.
fn strided_positions<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, shape: &[Expr]) -> One<'c, 'a> {
    let strides = n.sizes("stride")?;
    let first = if n.has("storage_offset") { n.size("storage_offset")? } else { 0.into() };
    let mut at = cx.expand(cx.size(&first)?, DType::I64, shape)?;
    for (d, stride) in strides.iter().enumerate() {
        let stride = cx.expand(cx.size(stride)?, DType::I64, shape)?;
        at = cx.op("add", &[at, cx.op("mul", &[cx.iota(shape, d)?, stride])?])?;
    }
    Ok(at)
}

/// A view by strides: where both sides are dense the elements in memory order are the same, else they are picked one by one.
fn as_strided<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (flat, _) = in_memory_order(cx, n)?;
    let out = &n.result(0)?.shape;
    let whole = cx.sizes.equal(&cx.ty(flat).numel(), &out.iter().cloned().product());
    // What a copy says of its own memory is nothing about the view that it copies.
    let begins = (!n.has("storage_offset") || n.size("storage_offset")? == Expr::from(0))
        && n.base() == "aten.as_strided";
    if let Some(to) = n.result(0)?.order.clone().filter(|_| whole && begins) {
        let inside: Vec<Expr> = to.iter().map(|&d| out[d].clone()).collect();
        return one(cx.transpose(cx.reshape(flat, &inside)?, &inverse(&to))?);
    }
    if out.contains(&Expr::from(0)) {
        return one(cx.full(n.result(0)?.dtype, 0.0, out)?);
    }
    let at = strided_positions(cx, n, out)?;
    let all = cx.sizes.affine(&cx.ty(flat).numel());
    one(super::index::gather(cx, cx.reshape(flat, &[all])?, at, 0)?)
}

/// The elements that a view by strides shows, replaced.
fn as_strided_scatter<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (ordered, from) = in_memory_order(cx, n)?;
    let part = cx.tensor(n, "src")?;
    let shape = cx.ty(part).shape;
    if shape.contains(&Expr::from(0)) {
        return one(cx.tensor(n, "self")?);
    }
    let at = strided_positions(cx, n, &shape)?;
    let ty = cx.ty(ordered);
    let all = cx.sizes.affine(&ty.numel());
    let y = super::scatter::replace_at(cx, cx.reshape(ordered, &[all])?, part, at)?;
    one(cx.transpose(cx.reshape(y, &ty.shape)?, &inverse(&from))?)
}

/// Windows along a dimension, each as a new last dimension.
fn unfold<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = super::index::at_least_1d(cx, cx.tensor(n, "self")?)?;
    let out = n.result(0)?;
    let dim = n.dim("dimension", cx.ty(x).rank())?;
    let (size, step) = (n.size("size")?, n.int("step")?);
    if out.shape.contains(&Expr::from(0)) {
        return one(cx.full(out.dtype, 0.0, &out.shape)?);
    }
    if out.shape.len() == 1 {
        return one(cx.slice(x, 0, &0.into(), &size, 1)?);
    }
    let windows = [out.shape[dim].clone(), size];
    let first = cx.iota(&windows, 0)?;
    let first = cx.op("mul", &[first, cx.like(first, step as f64)?])?;
    let at = cx.op("add", &[first, cx.iota(&windows, 1)?])?;
    let picked = super::index::gather(cx, x, at, dim)?;
    // The positions inside of a window go to the end.
    let rank = out.shape.len();
    let order: Vec<usize> = (0..rank).filter(|&d| d != dim + 1).chain([dim + 1]).collect();
    one(cx.transpose(picked, &order)?)
}

/// Where a slice begins: the argument counted from the front and kept inside, as far as numbers say.
fn start(n: &Node, key: &str, size: &Expr) -> Result<Expr, Refusal> {
    if !n.has(key) {
        return Ok(0.into());
    }
    let start = n.size(key)?;
    Ok(match (start.as_const(), size.as_const()) {
        (Some(s), Some(size)) => (if s < 0 { s + size } else { s }).clamp(0, size).into(),
        (Some(s), None) if s < 0 => size.clone() + Expr::from(s),
        _ => start,
    })
}

fn slice<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let ty = cx.ty(x);
    let dim = if n.has("dim") { n.dim("dim", ty.rank())? } else { 0 };
    let step = if n.has("step") { n.int("step")? } else { 1 };
    let length = n.result(0)?.shape[dim].clone();
    let from = start(n, "start", &ty.shape[dim])?;
    // PyTorch's own result says how many elements there are: nothing about the end needs to be known.
    let limit = match length.as_const() {
        Some(0) => from.clone(),
        _ => from.clone() + (length - Expr::from(1)) * Expr::from(step) + Expr::from(1),
    };
    one(cx.slice(x, dim, &from, &limit, step)?)
}

fn select<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let ty = cx.ty(x);
    let dim = n.dim("dim", ty.rank())?;
    let at = start(n, "index", &ty.shape[dim])?;
    let picked = cx.slice(x, dim, &at, &(at.clone() + Expr::from(1)), 1)?;
    one(cx.reshape(picked, &n.result(0)?.shape)?)
}

fn split<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let dim = if n.has("dim") { n.dim("dim", cx.ty(x).rank())? } else { 0 };
    let mut at = Expr::from(0);
    let mut parts = Vec::new();
    for i in 0..n.out.len() {
        let end = at.clone() + n.result(i)?.shape[dim].clone();
        parts.push(if n.used[i] { Some(cx.slice(x, dim, &at, &end, 1)?) } else { None });
        at = end;
    }
    Ok(parts)
}

fn unbind<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let dim = if n.has("dim") { n.dim("dim", cx.ty(x).rank())? } else { 0 };
    let mut parts = Vec::new();
    for i in 0..n.out.len() {
        let part = cx.slice(x, dim, &i.into(), &(i + 1).into(), 1)?;
        parts.push(Some(cx.reshape(part, &n.result(i)?.shape)?));
    }
    Ok(parts)
}

fn cat<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let dim = if n.has("dim") { n.dim("dim", out.shape.len())? } else { 0 };
    let mut parts = Vec::new();
    for t in cx.tensors(n, "tensors")? {
        // PyTorch lets an empty vector stand among tensors of any rank.
        if cx.ty(t).shape == [Expr::from(0)] && out.shape.len() != 1 {
            continue;
        }
        parts.push(cx.cast(t, out.dtype)?);
    }
    if parts.is_empty() {
        return Err("nothing to concatenate".into());
    }
    one(cx.concat(&parts, dim)?)
}

fn stack<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let dim = if n.has("dim") { n.dim("dim", out.shape.len())? } else { 0 };
    let mut parts = Vec::new();
    for t in cx.tensors(n, "tensors")? {
        let mut shape = cx.ty(t).shape;
        shape.insert(dim, 1.into());
        parts.push(cx.cast(cx.reshape(t, &shape)?, out.dtype)?);
    }
    one(cx.concat(&parts, dim)?)
}

fn pad<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let ty = cx.ty(x);
    let amounts: Vec<Expr> = match n.args.get("pad") {
        Some(Arg::List(list)) => list
            .iter()
            .map(|a| match a {
                Arg::Int(i) => Ok(Expr::from(*i)),
                Arg::Size(e) => Ok(e.clone()),
                other => Err(Refusal(format!("padding by {other:?}"))),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err("padding without amounts".into()),
    };
    if !amounts.len().is_multiple_of(2) || amounts.len() > 2 * ty.rank() {
        return Err(format!("{} amounts of padding for rank {}", amounts.len(), ty.rank()).into());
    }
    let (mut low, mut high) = (vec![Expr::from(0); ty.rank()], vec![Expr::from(0); ty.rank()]);
    for (i, pair) in amounts.chunks(2).enumerate() {
        low[ty.rank() - 1 - i] = pair[0].clone();
        high[ty.rank() - 1 - i] = pair[1].clone();
    }
    let value = if n.has("value") { cx.operand(n, "value")? } else { Operand::Number(Scalar::I(0)) };
    let value = cx.fit(&value, ty.dtype, &[])?;
    one(cx.b.graph1("pad", &[x, value], &[("low", Attr::Dims(low)), ("high", Attr::Dims(high))])?)
}

fn repeat<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let out = &n.result(0)?.shape;
    let times = n.ints("repeats")?;
    let mut shape = vec![Expr::from(1); out.len() - cx.ty(x).rank()];
    shape.extend(cx.ty(x).shape);
    // Each dimension as (times, size): [1, size] repeated to [times, size], then flattened.
    let apart: Vec<Expr> = shape.iter().flat_map(|s| [Expr::from(1), s.clone()]).collect();
    let repeated: Vec<Expr> =
        shape.iter().zip(&times).flat_map(|(s, &t)| [Expr::from(t), s.clone()]).collect();
    let x = cx.reshape(x, &apart)?;
    let dtype = cx.ty(x).dtype;
    let x = cx.expand(x, dtype, &repeated)?;
    one(cx.reshape(x, out)?)
}

fn slice_scatter<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (x, part) = (cx.tensor(n, "self")?, cx.tensor(n, "src")?);
    let ty = cx.ty(x);
    let dim = if n.has("dim") { n.dim("dim", ty.rank())? } else { 0 };
    let from = start(n, "start", &ty.shape[dim])?;
    let step = if n.has("step") { n.int("step")? } else { 1 };
    if step != 1 {
        return one(super::scatter::replace_strided(cx, x, part, dim, &from, step)?);
    }
    replace(cx, x, part, dim, from)
}

fn select_scatter<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (x, part) = (cx.tensor(n, "self")?, cx.tensor(n, "src")?);
    let ty = cx.ty(x);
    let dim = n.dim("dim", ty.rank())?;
    let at = start(n, "index", &ty.shape[dim])?;
    let mut shape = cx.ty(part).shape;
    shape.insert(dim, 1.into());
    let part = cx.reshape(part, &shape)?;
    replace(cx, x, part, dim, at)
}

/// `x` with `part` in the place of as many elements from `from`.
fn replace<'c, 'a>(
    cx: &Cx<'c, 'a>,
    x: Value<'c, 'a>,
    part: Value<'c, 'a>,
    dim: usize,
    from: Expr,
) -> Many<'c, 'a> {
    let ty = cx.ty(x);
    let part = cx.cast(part, ty.dtype)?;
    let end = from.clone() + cx.ty(part).shape[dim].clone();
    let mut parts = Vec::new();
    if from != Expr::from(0) {
        parts.push(cx.slice(x, dim, &0.into(), &from, 1)?);
    }
    parts.push(part);
    if end != ty.shape[dim] {
        parts.push(cx.slice(x, dim, &end, &ty.shape[dim], 1)?);
    }
    one(cx.concat(&parts, dim)?)
}
