//! Normalisations and softmax.

use super::index::at_least_1d;
use super::lower::{Cx, Many, One, kind, wide};
use super::model::Node;
use super::reduce::{extent, moments, once};
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::Attr;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] = &[
    ("aten.native_layer_norm", layer_norm),
    ("aten.native_group_norm", group_norm),
    ("aten._native_batch_norm_legit_no_training", batch_norm),
    ("aten._native_batch_norm_legit", batch_norm),
    ("aten._native_batch_norm_legit_functional", batch_norm),
    ("aten.native_batch_norm", batch_norm),
    ("aten.cudnn_batch_norm", batch_norm),
    ("aten._softmax", |cx, n| softmax(cx, n, false)),
    ("aten._log_softmax", |cx, n| softmax(cx, n, true)),
];

fn softmax<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, log: bool) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let x = at_least_1d(cx, cx.tensor(n, "self")?)?;
    let dim = n.dim("dim", cx.ty(x).rank())?;
    if !log {
        let x = cx.cast(x, out.dtype)?;
        let y = cx.b.graph1("softmax", &[x], &[("dim", Attr::Int(dim as i64))])?;
        return one(cx.reshape(y, &out.shape)?);
    }
    let x = cx.cast(x, wide(out.dtype))?;
    let shifted = cx.op("sub", &[x, cx.reduce_back(kind::MAX, x, &[dim])?])?;
    let sum = cx.reduce_back(kind::SUM, cx.op("exp", &[shifted])?, &[dim])?;
    let y = cx.cast(cx.op("sub", &[shifted, cx.op("log", &[sum])?])?, out.dtype)?;
    one(cx.reshape(y, &out.shape)?)
}

/// `1 / sqrt(squares / count + epsilon)`.
fn rstd<'c, 'a>(cx: &mut Cx<'c, 'a>, squares: Value<'c, 'a>, count: &Expr, epsilon: f64) -> One<'c, 'a> {
    let ty = cx.ty(squares);
    let count = cx.count(count, ty.dtype, &ty.shape)?;
    let variance = cx.op("div", &[squares, count])?;
    cx.op("rsqrt", &[cx.op("add", &[variance, cx.like(variance, epsilon)?])?])
}

/// `y · weight + bias`, both along `dims` of y.
fn affine<'c, 'a>(cx: &Cx<'c, 'a>, n: &Node, y: Value<'c, 'a>, dims: &[usize]) -> One<'c, 'a> {
    let ty = cx.ty(y);
    let mut y = y;
    for (key, op) in [("weight", "mul"), ("bias", "add")] {
        if let Some(t) = cx.optional(n, key)? {
            let t = cx.b.broadcast(cx.cast(t, ty.dtype)?, dims, &ty.shape)?;
            y = cx.op(op, &[y, t])?;
        }
    }
    Ok(y)
}

fn layer_norm<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "input")?;
    let ty = cx.ty(x);
    let count = match n.args.get("normalized_shape") {
        Some(super::model::Arg::List(l)) if !l.is_empty() && l.len() <= ty.rank() => l.len(),
        _ => return Err("normalises over no dimension".into()),
    };
    let (weight, bias, epsilon) = (cx.optional(n, "weight")?, cx.optional(n, "bias")?, n.float("eps")?);
    let own_type = [weight, bias].iter().flatten().all(|&t| cx.ty(t).dtype == ty.dtype);
    if n.only_first() && own_type && (weight.is_some() || bias.is_none()) {
        let operands: Vec<Value> = [Some(x), weight, bias].into_iter().flatten().collect();
        let attrs = [("dims", Attr::Int(count as i64)), ("epsilon", Attr::Float(epsilon))];
        return Ok(vec![Some(cx.b.graph1("layer_norm", &operands, &attrs)?), None, None]);
    }
    let dims: Vec<usize> = (ty.rank() - count..ty.rank()).collect();
    let wide_x = cx.cast(x, wide(ty.dtype))?;
    let (mean, centred, squares) = moments(cx, wide_x, &dims)?;
    let rstd = rstd(cx, squares, &extent(&ty.shape, &dims), epsilon)?;
    let kept: Vec<usize> = (0..ty.rank() - count).collect();
    let y = cx.op("mul", &[centred, cx.b.broadcast(rstd, &kept, &ty.shape)?])?;
    let y = cx.cast(affine(cx, n, y, &dims)?, ty.dtype)?;
    let (m, r) = (n.result(1)?, n.result(2)?);
    let mean = cx.cast(once(cx, mean, &dims, &m.shape)?, m.dtype)?;
    let rstd = cx.cast(cx.reshape(rstd, &r.shape)?, r.dtype)?;
    Ok(vec![Some(y), Some(mean), Some(rstd)])
}

fn group_norm<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "input")?;
    let ty = cx.ty(x);
    let (groups, epsilon) = (n.int("group")?, n.float("eps")?);
    if ty.rank() < 2 {
        return Err("a tensor without channels".into());
    }
    let rest: Expr = ty.shape[1..].iter().cloned().product();
    let size = cx.sizes.affine(&rest.floor_div(&groups.into()));
    let flat = [ty.shape[0].clone(), groups.into(), size];
    let grouped = cx.reshape(cx.cast(x, wide(ty.dtype))?, &flat)?;
    let (mean, centred, squares) = moments(cx, grouped, &[2])?;
    let rstd = rstd(cx, squares, &flat[2], epsilon)?;
    let y = cx.op("mul", &[centred, cx.b.broadcast(rstd, &[0, 1], &flat)?])?;
    let y = cx.reshape(y, &ty.shape)?;
    let y = cx.cast(affine(cx, n, y, &[1])?, ty.dtype)?;
    let mut results = vec![Some(y), None, None];
    if !n.only_first() {
        let (m, r) = (n.result(1)?, n.result(2)?);
        results[1] = Some(cx.cast(once(cx, mean, &[2], &m.shape)?, m.dtype)?);
        results[2] = Some(cx.cast(cx.reshape(rstd, &r.shape)?, r.dtype)?);
    }
    Ok(results)
}

fn batch_norm<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "input")?;
    let ty = cx.ty(x);
    let epsilon = if n.has("eps") { n.float("eps")? } else { n.float("epsilon")? };
    let training = !n.base().ends_with("no_training") && n.flag("training", false)?;
    let d = wide(ty.dtype);
    let wide_x = cx.cast(x, d)?;
    if training {
        return batch_norm_training(cx, n, wide_x, epsilon);
    }
    let stats = |cx: &Cx<'c, 'a>, key| cx.tensor(n, key).and_then(|t| cx.cast(t, wide(cx.ty(t).dtype)));
    let mean = stats(cx, "running_mean")?;
    let variance = stats(cx, "running_var")?;
    let rstd = cx.op("rsqrt", &[cx.op("add", &[variance, cx.like(variance, epsilon)?])?])?;
    let [mean, rstd] =
        [mean, rstd].map(|t| cx.cast(t, d).and_then(|t| Ok(cx.b.broadcast(t, &[1], &ty.shape)?)));
    let y = cx.op("mul", &[cx.op("sub", &[wide_x, mean?])?, rstd?])?;
    let y = cx.cast(affine(cx, n, y, &[1])?, ty.dtype)?;
    let mut results = vec![Some(y)];
    for i in 1..n.out.len() {
        // Saved statistics are empty in inference; what else there is are the running ones as they were.
        let Some(meta) = n.out[i].as_ref().filter(|_| n.used[i]) else {
            results.push(None);
            continue;
        };
        results.push(Some(match i {
            3 => cx.tensor(n, "running_mean")?,
            4 => cx.tensor(n, "running_var")?,
            _ if meta.shape == [Expr::from(0)] => cx.full(meta.dtype, 0.0, &meta.shape)?,
            _ => return Err("saved statistics of inference".into()),
        }));
    }
    Ok(results)
}

fn batch_norm_training<'c, 'a>(
    cx: &mut Cx<'c, 'a>,
    n: &Node,
    x: Value<'c, 'a>,
    epsilon: f64,
) -> Many<'c, 'a> {
    let ty = cx.ty(x);
    let out = n.result(0)?;
    if n.out.len() > 3 && n.base() != "aten._native_batch_norm_legit_functional" {
        return Err("an overload with other results".into());
    }
    let dims: Vec<usize> = (0..ty.rank()).filter(|&d| d != 1).collect();
    let count = extent(&ty.shape, &dims);
    let (mean, centred, squares) = moments(cx, x, &dims)?;
    let rstd = rstd(cx, squares, &count, epsilon)?;
    let y = cx.op("mul", &[centred, cx.b.broadcast(rstd, &[1], &ty.shape)?])?;
    let y = cx.cast(affine(cx, n, y, &[1])?, out.dtype)?;
    let channels = [ty.shape[1].clone()];
    let mean = once(cx, mean, &dims, &channels)?;
    let mut results = vec![Some(y), Some(mean), Some(rstd)];
    if n.out.len() == 5 {
        let momentum = n.float("momentum")?;
        let n_elements = cx.count(&count, ty.dtype, &channels)?;
        let less = cx.op("sub", &[n_elements, cx.like(n_elements, 1.0)?])?;
        let unbiased = cx.op("div", &[squares, less])?;
        for (key, fresh) in [("running_mean", mean), ("running_var", unbiased)] {
            let old = cx.cast(cx.tensor(n, key)?, DType::F32)?;
            let fresh = cx.cast(fresh, DType::F32)?;
            let kept = cx.op("mul", &[old, cx.like(old, 1.0 - momentum)?])?;
            let added = cx.op("mul", &[fresh, cx.like(fresh, momentum)?])?;
            results.push(Some(cx.op("add", &[kept, added])?));
        }
    }
    for (i, value) in results.iter_mut().enumerate() {
        if let (Some(v), Some(Some(meta))) = (value.as_mut(), n.out.get(i)) {
            *v = cx.cast(*v, meta.dtype)?;
        }
    }
    Ok(results)
}
