//! Elements written where index tensors point.

use super::index::{Negative, at_least_1d, checked, diagonal_of, flat_positions, index_list, indexed};
use super::lower::{Cx, Many, One, Refusal, inverse, wide};
use super::model::Node;
use super::operand::Operand;
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::Attr;
use strata_dialects::ops::indexing::ScatterKind;
use strata_dialects::reference::Scalar;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] = &[
    ("aten.index_put", index_put),
    ("aten._unsafe_index_put", index_put),
    ("aten.index_add", |cx, n| along(cx, n, "source", Way::plain(ScatterKind::Add), Negative::Outside)),
    ("aten.index_copy", |cx, n| along(cx, n, "source", Way::plain(ScatterKind::Set), Negative::Outside)),
    ("aten.index_fill", |cx, n| along(cx, n, "value", Way::plain(ScatterKind::Set), Negative::FromEnd)),
    ("aten.index_reduce", |cx, n| {
        let way = Way::named(n)?;
        along(cx, n, "source", way, Negative::Outside)
    }),
    ("aten.scatter", scatter),
    ("aten.scatter_add", |cx, n| elements(cx, n, "src", Way::plain(ScatterKind::Add))),
    ("aten.scatter_reduce", |cx, n| {
        let way = Way::named(n)?;
        elements(cx, n, "src", way)
    }),
    ("aten.put", put),
    ("aten.diagonal_scatter", diagonal_scatter),
];

/// How updates meet what is there.
#[derive(Clone, Copy)]
struct Way {
    kind: ScatterKind,
    /// Whether what is there counts; without it, the first update replaces it.
    include_self: bool,
    mean: bool,
}

impl Way {
    fn plain(kind: ScatterKind) -> Self {
        Self { kind, include_self: true, mean: false }
    }

    /// From the arguments `reduce` and `include_self`.
    fn named(n: &Node) -> Result<Self, Refusal> {
        let include_self = n.flag("include_self", true)?;
        let (kind, mean) = match n.text("reduce").unwrap_or("") {
            "sum" | "add" => (ScatterKind::Add, false),
            "prod" | "multiply" => (ScatterKind::Mul, false),
            "amax" => (ScatterKind::Max, false),
            "amin" => (ScatterKind::Min, false),
            "mean" => (ScatterKind::Add, true),
            other => return Err(format!("a reduction named '{other}'").into()),
        };
        Ok(Self { kind, include_self, mean })
    }
}

fn raw<'c, 'a>(
    cx: &Cx<'c, 'a>,
    kind: ScatterKind,
    x: Value<'c, 'a>,
    indices: Value<'c, 'a>,
    updates: Value<'c, 'a>,
    dim: usize,
) -> One<'c, 'a> {
    let attrs = [("kind", Attr::Enum(kind.case())), ("dim", Attr::Int(dim as i64))];
    Ok(cx.b.graph1("scatter", &[x, indices, updates], &attrs)?)
}

/// `x` with updates of the right shape written along `dim`, in a type wide enough for sums.
fn write<'c, 'a>(
    cx: &mut Cx<'c, 'a>,
    way: Way,
    x: Value<'c, 'a>,
    indices: Value<'c, 'a>,
    updates: Value<'c, 'a>,
    dim: usize,
) -> One<'c, 'a> {
    let ty = cx.ty(x);
    if cx.ty(updates).numel() == Expr::from(0) {
        return Ok(x);
    }
    if way.kind == ScatterKind::Set {
        return raw(cx, way.kind, x, indices, updates, dim);
    }
    // Truth values are combined as 0 and 1: their sum is whether any is true.
    let (wide_type, kind) = match (ty.dtype, way.kind) {
        (DType::I1, ScatterKind::Add | ScatterKind::Max) => (DType::I32, ScatterKind::Max),
        (DType::I1, _) => (DType::I32, ScatterKind::Min),
        (d, _) if d.is_float8() => return Err(format!("nothing is combined in {d}").into()),
        // In types that have an order where kernels are, and atomics.
        (DType::U8 | DType::I16, kind) => (DType::I32, kind),
        (d, kind) => (wide(d), kind),
    };
    let (mut x, updates) = (cx.cast(x, wide_type)?, cx.cast(updates, wide_type)?);
    if !way.include_self {
        let neutral = kind.combination().expect("not a replacement").neutral(wide_type);
        let shape = cx.ty(updates).shape;
        let neutral = cx.fit(&Operand::Number(neutral), wide_type, &shape)?;
        x = raw(cx, ScatterKind::Set, x, indices, neutral, dim)?;
    }
    let mut y = raw(cx, kind, x, indices, updates, dim)?;
    if way.mean {
        let start = cx.full(wide_type, f64::from(u8::from(way.include_self)), &ty.shape)?;
        let ones = cx.like(updates, 1.0)?;
        let count = raw(cx, ScatterKind::Add, start, indices, ones, dim)?;
        let count = cx.op("max", &[count, cx.like(count, 1.0)?])?;
        y = if wide_type.is_float() {
            cx.op("div", &[y, count])?
        } else {
            super::pointwise::floor_div(cx, y, count)?
        };
    }
    cx.cast(y, ty.dtype)
}

/// `x[i, j] = values`, or `+=`.
fn index_put<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (x, values) = (cx.tensor(n, "self")?, cx.tensor(n, "values")?);
    let ty = cx.ty(x);
    let way = Way::plain(if n.flag("accumulate", false)? { ScatterKind::Add } else { ScatterKind::Set });
    let list = index_list(cx, n)?;
    if let [(first, mask)] = list.as_slice()
        && cx.ty(*mask).dtype == DType::I1
    {
        return masked(cx, x, *first, *mask, values, way);
    }
    let i = indexed(cx, n, x)?;
    let flat = cx.reshape(cx.transpose(x, &i.order)?, &i.merged)?;
    let shape = [&i.merged[..i.dim], &cx.ty(i.positions).shape, &i.merged[i.dim + 1..]].concat();
    let updates = cx.expand(values, ty.dtype, &shape)?;
    let y = write(cx, way, flat, i.positions, updates, i.dim)?;
    let permuted: Vec<Expr> = i.order.iter().map(|&d| ty.shape[d].clone()).collect();
    one(cx.transpose(cx.reshape(y, &permuted)?, &inverse(&i.order))?)
}

/// `x[mask] = value` with one value for all.
fn masked<'c, 'a>(
    cx: &Cx<'c, 'a>,
    x: Value<'c, 'a>,
    first: usize,
    mask: Value<'c, 'a>,
    values: Value<'c, 'a>,
    way: Way,
) -> Many<'c, 'a> {
    let (ty, rank) = (cx.ty(x), cx.ty(mask).rank());
    if cx.ty(values).numel() != Expr::from(1) {
        return Err(
            "a mask as index, and more than one value: which goes where is only known when it runs".into()
        );
    }
    let dims: Vec<usize> = (first..first + rank).collect();
    let mask = cx.b.broadcast(mask, &dims, &ty.shape)?;
    let value = cx.expand(cx.reshape(values, &[])?, ty.dtype, &ty.shape)?;
    let new = if way.kind == ScatterKind::Set { value } else { cx.op("add", &[x, value])? };
    one(cx.op("select", &[mask, new, x])?)
}

/// Whole slices along a dimension: `index_add` and its like.
fn along<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, source: &str, way: Way, negative: Negative) -> Many<'c, 'a> {
    let (x, index) = (cx.tensor(n, "self")?, cx.tensor(n, "index")?);
    let out = n.result(0)?;
    let (x, index) = (at_least_1d(cx, x)?, at_least_1d(cx, index)?);
    let ty = cx.ty(x);
    let dim = n.dim("dim", ty.rank())?;
    let shape = [&ty.shape[..dim], &cx.ty(index).shape, &ty.shape[dim + 1..]].concat();
    let mut updates = match cx.operand(n, source)? {
        Operand::Tensor(t) if cx.ty(t).rank() == shape.len() => cx.expand(t, ty.dtype, &shape)?,
        Operand::Tensor(t) if cx.ty(t).rank() == 0 => cx.expand(t, ty.dtype, &shape)?,
        Operand::Tensor(t) => return Err(format!("updates of type {}", cx.ty(t)).into()),
        number => cx.fit(&number, ty.dtype, &shape)?,
    };
    if n.has("alpha") && !matches!(cx.operand(n, "alpha")?, Operand::Number(Scalar::I(1) | Scalar::F(1.0))) {
        let alpha = cx.fit(&cx.operand(n, "alpha")?, ty.dtype, &shape)?;
        updates = cx.op("mul", &[updates, alpha])?;
    }
    let index = checked(cx, n, index, &ty.shape[dim], negative)?;
    let y = write(cx, way, x, index, updates, dim)?;
    one(cx.reshape(y, &out.shape)?)
}

fn scatter<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let way = if n.has("reduce") { Way::named(n)? } else { Way::plain(ScatterKind::Set) };
    elements(cx, n, if n.has("src") { "src" } else { "value" }, way)
}

/// Element by element, at the element's own position with the index along one dimension: `scatter` and its like.
fn elements<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, source: &str, way: Way) -> Many<'c, 'a> {
    let (x, index) = (cx.tensor(n, "self")?, cx.tensor(n, "index")?);
    let out = n.result(0)?;
    let (x, index) = (at_least_1d(cx, x)?, at_least_1d(cx, index)?);
    let (ty, shape) = (cx.ty(x), cx.ty(index).shape);
    if shape.contains(&Expr::from(0)) {
        return one(cx.reshape(x, &out.shape)?);
    }
    let dim = n.dim("dim", ty.rank())?;
    let updates = match cx.operand(n, source)? {
        Operand::Tensor(t) => {
            // As much of the source as there are indices.
            let mut t = at_least_1d(cx, t)?;
            for (d, size) in shape.iter().enumerate() {
                t = cx.slice(t, d, &0.into(), size, 1)?;
            }
            cx.cast(t, ty.dtype)?
        }
        number => cx.fit(&number, ty.dtype, &shape)?,
    };
    let position = flat_positions(cx, n, index, dim, &ty.shape)?;
    let all = cx.sizes.affine(&ty.numel());
    let many = cx.sizes.affine(&cx.ty(index).numel());
    let [position, updates] = [position, updates].map(|v| cx.reshape(v, std::slice::from_ref(&many)));
    let flat = cx.reshape(x, &[all])?;
    let y = write(cx, way, flat, position?, updates?, 0)?;
    one(cx.reshape(y, &out.shape)?)
}

/// Elements of a tensor seen as a vector.
fn put<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (x, index, source) = (cx.tensor(n, "self")?, cx.tensor(n, "index")?, cx.tensor(n, "source")?);
    let ty = cx.ty(x);
    let way = Way::plain(if n.flag("accumulate", false)? { ScatterKind::Add } else { ScatterKind::Set });
    let all = cx.sizes.affine(&ty.numel());
    let index = checked(cx, n, index, &all, Negative::FromEnd)?;
    let source = cx.reshape(source, &cx.ty(index).shape)?;
    let flat = cx.reshape(x, &[all])?;
    let y = write(cx, way, flat, index, cx.cast(source, ty.dtype)?, 0)?;
    one(cx.reshape(y, &ty.shape)?)
}

fn diagonal_scatter<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (x, source) = (cx.tensor(n, "self")?, cx.tensor(n, "src")?);
    let ty = cx.ty(x);
    let shape = cx.ty(source).shape;
    let length = shape.last().ok_or("a diagonal of rank 0")?.clone();
    if shape.contains(&Expr::from(0)) {
        return one(x);
    }
    let d = diagonal_of(cx, n, x, length)?;
    let flat = cx.reshape(cx.transpose(x, &d.order)?, &d.merged)?;
    let updates = cx.cast(source, ty.dtype)?;
    let y = raw(cx, ScatterKind::Set, flat, d.positions, updates, d.merged.len() - 1)?;
    let permuted: Vec<Expr> = d.order.iter().map(|&k| ty.shape[k].clone()).collect();
    one(cx.transpose(cx.reshape(y, &permuted)?, &inverse(&d.order))?)
}

/// `x` with elements `from, from + step, …` along `dim` replaced by `part`.
pub fn replace_strided<'c, 'a>(
    cx: &mut Cx<'c, 'a>,
    x: Value<'c, 'a>,
    part: Value<'c, 'a>,
    dim: usize,
    from: &Expr,
    step: i64,
) -> One<'c, 'a> {
    let ty = cx.ty(x);
    let part = cx.cast(part, ty.dtype)?;
    let length = [cx.ty(part).shape[dim].clone()];
    if length[0] == Expr::from(0) {
        return Ok(x);
    }
    let first = cx.expand(cx.size(from)?, DType::I64, &length)?;
    let i = cx.iota(&length, 0)?;
    let at = cx.op("add", &[cx.op("mul", &[i, cx.like(i, step as f64)?])?, first])?;
    raw(cx, ScatterKind::Set, x, at, part, dim)
}

/// `x` seen as a vector in memory order, with `part` at positions that strides name.
pub fn replace_at<'c, 'a>(
    cx: &Cx<'c, 'a>,
    flat: Value<'c, 'a>,
    part: Value<'c, 'a>,
    at: Value<'c, 'a>,
) -> One<'c, 'a> {
    let part = cx.cast(part, cx.ty(flat).dtype)?;
    raw(cx, ScatterKind::Set, flat, at, part, 0)
}
