//! Reductions.

use super::lower::{Cx, Many, One, kind, wide};
use super::model::Node;
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::Attr;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] = &[
    ("aten.sum", |cx, n| plain(cx, n, kind::SUM)),
    ("aten.prod", |cx, n| plain(cx, n, kind::PROD)),
    ("aten.amax", |cx, n| plain(cx, n, kind::MAX)),
    ("aten.amin", |cx, n| plain(cx, n, kind::MIN)),
    ("aten.any", |cx, n| plain(cx, n, kind::ANY)),
    ("aten.all", |cx, n| plain(cx, n, kind::ALL)),
    ("aten.mean", mean),
    ("aten.var", variance),
    ("aten.var_mean", variance),
    ("aten.std", variance),
    ("aten.argmax", |cx, n| position(cx, n, 0)),
    ("aten.argmin", |cx, n| position(cx, n, 1)),
    ("aten.max", |cx, n| extreme(cx, n, kind::MAX, 0)),
    ("aten.min", |cx, n| extreme(cx, n, kind::MIN, 1)),
    ("aten.logsumexp", logsumexp),
    ("aten.linalg_vector_norm", norm),
];

fn plain<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, kind: i32) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let dims = n.dims_or_all("dim", cx.ty(x).rank())?;
    let out = n.result(0)?;
    // Truth values have no largest: it is whether any is true.
    let (dtype, kind) = match (kind, out.dtype) {
        (kind::ANY | kind::ALL, _) => (DType::I1, kind),
        (kind::MAX, DType::I1) => (DType::I1, kind::ANY),
        (kind::MIN, DType::I1) => (DType::I1, kind::ALL),
        // Products are kept in the element type by the dialect; PyTorch keeps them in f32.
        (kind::PROD, d) => (wide(d), kind),
        (kind, d) => (d, kind),
    };
    let y = cx.reduce(kind, cx.cast(x, dtype)?, &dims)?;
    one(cx.reshape(cx.cast(y, out.dtype)?, &out.shape)?)
}

/// The number of elements along dimensions.
pub fn extent(shape: &[Expr], dims: &[usize]) -> Expr {
    dims.iter().map(|&d| shape[d].clone()).product()
}

fn mean<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let ty = cx.ty(x);
    let dims = n.dims_or_all("dim", ty.rank())?;
    let out = n.result(0)?;
    let d = wide(out.dtype);
    let sum = cx.reduce(kind::SUM, cx.cast(x, d)?, &dims)?;
    let shape = cx.ty(sum).shape;
    let count = cx.count(&extent(&ty.shape, &dims), d, &shape)?;
    let y = cx.op("div", &[sum, count])?;
    one(cx.reshape(cx.cast(y, out.dtype)?, &out.shape)?)
}

/// Mean, repeated to the operand's shape, and the sum of squared distances from it.
pub fn moments<'c, 'a>(
    cx: &mut Cx<'c, 'a>,
    x: Value<'c, 'a>,
    dims: &[usize],
) -> Result<(Value<'c, 'a>, Value<'c, 'a>, Value<'c, 'a>), super::lower::Refusal> {
    let ty = cx.ty(x);
    let count = cx.count(&extent(&ty.shape, dims), ty.dtype, &ty.shape)?;
    let mean = cx.op("div", &[cx.reduce_back(kind::SUM, x, dims)?, count])?;
    let centred = cx.op("sub", &[x, mean])?;
    let squares = cx.reduce(kind::SUM, cx.op("mul", &[centred, centred])?, dims)?;
    Ok((mean, centred, squares))
}

/// A value repeated along `dims`, without the repetition.
pub fn once<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>, dims: &[usize], shape: &[Expr]) -> One<'c, 'a> {
    let mut x = x;
    for &d in dims {
        x = cx.slice(x, d, &0.into(), &1.into(), 1)?;
    }
    cx.reshape(x, shape)
}

fn variance<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let ty = cx.ty(x);
    let dims = n.dims_or_all("dim", ty.rank())?;
    let correction = if n.has("correction") {
        n.float("correction")?
    } else {
        f64::from(u8::from(n.flag("unbiased", true)?))
    };
    let out = n.result(0)?;
    let d = wide(out.dtype);
    let x = cx.cast(x, d)?;
    let (_, _, squares) = moments(cx, x, &dims)?;
    let shape = cx.ty(squares).shape;
    let count = cx.count(&extent(&ty.shape, &dims), d, &shape)?;
    let less = cx.op("sub", &[count, cx.like(count, correction)?])?;
    let mut y = cx.op("div", &[squares, cx.op("max", &[less, cx.like(less, 0.0)?])?])?;
    if n.base() == "aten.std" {
        y = cx.op("sqrt", &[y])?;
    }
    let mut results = vec![Some(cx.reshape(cx.cast(y, out.dtype)?, &out.shape)?)];
    if n.base() == "aten.var_mean" {
        let mean = cx.op("div", &[cx.reduce(kind::SUM, x, &dims)?, count])?;
        let out = n.result(1)?;
        results.push(Some(cx.reshape(cx.cast(mean, out.dtype)?, &out.shape)?));
    }
    Ok(results)
}

fn arg_reduce<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>, kind: i32, dim: usize) -> One<'c, 'a> {
    Ok(cx.b.graph1("arg_reduce", &[x], &[("kind", Attr::Enum(kind)), ("dim", Attr::Int(dim as i64))])?)
}

fn position<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, kind: i32) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let ty = cx.ty(x);
    let out = n.result(0)?;
    let y = if n.has("dim") && ty.rank() > 0 {
        arg_reduce(cx, x, kind, n.dim("dim", ty.rank())?)?
    } else {
        let all = cx.sizes.affine(&ty.numel());
        arg_reduce(cx, cx.reshape(x, &[all])?, kind, 0)?
    };
    one(cx.reshape(y, &out.shape)?)
}

/// `max.default`, `max.dim`; the overload with two tensors is decomposed before.
fn extreme<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, kind: i32, arg: i32) -> Many<'c, 'a> {
    if n.has("other") {
        return Err("an overload with two tensors".into());
    }
    let x = cx.tensor(n, "self")?;
    if !n.has("dim") {
        return plain(cx, n, kind);
    }
    let values = plain(cx, n, kind)?[0];
    let x = super::index::at_least_1d(cx, x)?;
    let dim = n.dim("dim", cx.ty(x).rank())?;
    let indices = arg_reduce(cx, x, arg, dim)?;
    Ok(vec![values, Some(cx.reshape(indices, &n.result(1)?.shape)?)])
}

fn norm<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let x = cx.cast(cx.tensor(n, "self")?, wide(out.dtype))?;
    let dims = n.dims_or_all("dim", cx.ty(x).rank())?;
    let order = if n.has("ord") { n.float("ord")? } else { 2.0 };
    let y = if order == 2.0 {
        let squares = cx.op("mul", &[x, x])?;
        cx.op("sqrt", &[cx.reduce(kind::SUM, squares, &dims)?])?
    } else {
        let kind = match order {
            1.0 => Some(kind::SUM),
            f64::INFINITY => Some(kind::MAX),
            f64::NEG_INFINITY => Some(kind::MIN),
            _ => None,
        };
        let magnitude = cx.op("abs", &[x])?;
        match kind {
            Some(kind) => cx.reduce(kind, magnitude, &dims)?,
            // How many are not zero.
            None if order == 0.0 => {
                let there = cx.compare(super::lower::direction::NE, x, cx.like(x, 0.0)?)?;
                cx.reduce(kind::SUM, cx.cast(there, wide(out.dtype))?, &dims)?
            }
            None => {
                let powers = cx.op("pow", &[magnitude, cx.like(x, order)?])?;
                let sum = cx.reduce(kind::SUM, powers, &dims)?;
                cx.op("pow", &[sum, cx.like(sum, 1.0 / order)?])?
            }
        }
    };
    one(cx.reshape(cx.cast(y, out.dtype)?, &out.shape)?)
}

fn logsumexp<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let out = n.result(0)?;
    let x = cx.cast(cx.tensor(n, "self")?, wide(out.dtype))?;
    let dims = n.dims_or_all("dim", cx.ty(x).rank())?;
    let top = cx.reduce(kind::MAX, x, &dims)?;
    // Where the largest is infinite, nothing is subtracted: the result is infinite, not NaN.
    let magnitude = cx.op("abs", &[top])?;
    let infinite = cx.compare(super::lower::direction::EQ, magnitude, cx.like(top, f64::INFINITY)?)?;
    let shift = cx.op("select", &[infinite, cx.like(top, 0.0)?, top])?;
    let ty = cx.ty(x);
    let kept: Vec<usize> = (0..ty.rank()).filter(|d| !dims.contains(d)).collect();
    let back = cx.b.broadcast(shift, &kept, &ty.shape)?;
    let sum = cx.reduce(kind::SUM, cx.op("exp", &[cx.op("sub", &[x, back])?])?, &dims)?;
    let y = cx.op("add", &[cx.op("log", &[sum])?, shift])?;
    one(cx.reshape(cx.cast(y, out.dtype)?, &out.shape)?)
}
