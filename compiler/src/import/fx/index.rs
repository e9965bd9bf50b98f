//! Elements picked by index tensors.

use super::lower::{Cx, Many, One, Refusal, direction};
use super::model::{Arg, Node};
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::Attr;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] = &[
    ("aten.embedding", |cx, n| {
        let (weight, indices) = (cx.tensor(n, "weight")?, cx.tensor(n, "indices")?);
        let indices = checked(cx, n, indices, &cx.ty(weight).shape[0], Negative::Outside)?;
        one(gather(cx, weight, indices, 0)?)
    }),
    ("aten.index_select", |cx, n| {
        let (x, indices) = (cx.tensor(n, "self")?, cx.tensor(n, "index")?);
        let x = at_least_1d(cx, x)?;
        let dim = n.dim("dim", cx.ty(x).rank())?;
        let indices = checked(cx, n, indices, &cx.ty(x).shape[dim], Negative::Outside)?;
        let picked = gather(cx, x, indices, dim)?;
        one(cx.reshape(picked, &n.result(0)?.shape)?)
    }),
    ("aten.gather", gather_elements),
    ("aten.take", take),
    ("aten.index", index),
    ("aten._unsafe_index", index),
    ("aten.flip", flip),
    ("aten.diagonal", diagonal),
];

/// What a negative index is to an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negative {
    /// Counted from the end.
    FromEnd,
    /// As wrong as one behind the end.
    Outside,
}

/// Indices of a dimension of `size` as PyTorch's op takes them: another one is an error.
pub fn checked<'c, 'a>(
    cx: &Cx<'c, 'a>,
    n: &Node,
    indices: Value<'c, 'a>,
    size: &Expr,
    negative: Negative,
) -> One<'c, 'a> {
    let attributes = [
        ("size", Attr::Dims(vec![size.clone()])),
        ("wrap", Attr::Bool(negative == Negative::FromEnd)),
        ("message", Attr::Str(format!("{}: an index is out of range", n.base()))),
    ];
    Ok(cx.b.graph1("check_index", &[integers(cx, indices)?], &attributes)?)
}

/// Indices in a type that they may have.
fn integers<'c, 'a>(cx: &Cx<'c, 'a>, indices: Value<'c, 'a>) -> One<'c, 'a> {
    match cx.ty(indices).dtype {
        DType::I64 | DType::I32 => Ok(indices),
        DType::I8 | DType::I16 => cx.cast(indices, DType::I64),
        other => Err(format!("indices of type {other}").into()),
    }
}

/// Indices with the negative ones counted from the front.
fn from_front<'c, 'a>(cx: &Cx<'c, 'a>, i: Value<'c, 'a>, size: &Expr) -> One<'c, 'a> {
    let (dtype, shape) = (cx.ty(i).dtype, cx.ty(i).shape);
    let size = cx.expand(cx.size(size)?, dtype, &shape)?;
    let negative = cx.compare(direction::LT, i, cx.like(i, 0.0)?)?;
    cx.op("select", &[negative, cx.op("add", &[i, size])?, i])
}

/// Slices of `x` along `dim` at the places that an index tensor names, which are inside.
pub fn gather<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>, indices: Value<'c, 'a>, dim: usize) -> One<'c, 'a> {
    if cx.ty(x).shape[dim] == Expr::from(0) {
        return Err("the dimension that is indexed is empty".into());
    }
    Ok(cx.b.graph1("gather", &[x, indices], &[("dim", Attr::Int(dim as i64))])?)
}

/// Index tensors of `x[:, i, :, j]`, made ready: the indexed dimensions stand together and are one.
pub struct Indexed<'c, 'a> {
    /// How the operand's dimensions are permuted so that the indexed ones stand together.
    pub order: Vec<usize>,
    /// The permuted operand's sizes, with the indexed dimensions as one.
    pub merged: Vec<Expr>,
    /// The dimension that is indexed.
    pub dim: usize,
    /// Positions along it.
    pub positions: Value<'c, 'a>,
}

/// Reads the list `indices` of a node that indexes `x`.
pub fn indexed<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, x: Value<'c, 'a>) -> Result<Indexed<'c, 'a>, Refusal> {
    let ty = cx.ty(x);
    let at = index_list(cx, n)?;
    let (Some(&(first, _)), Some(&(last, _))) = (at.first(), at.last()) else {
        return Err("no index tensor".into());
    };
    if at.iter().any(|(_, v)| cx.ty(*v).dtype == DType::I1) {
        return Err("a mask as index: the number of elements is only known when it runs".into());
    }
    let dims: Vec<usize> = at.iter().map(|(d, _)| *d).collect();
    // Where they are neighbours the result has its positions in their place, elsewhere in front.
    let dim = if last - first + 1 == at.len() { first } else { 0 };
    let mut order: Vec<usize> = (0..ty.rank()).filter(|d| !dims.contains(d)).collect();
    order.splice(dim..dim, dims.iter().copied());
    let flat: Expr = dims.iter().map(|&d| ty.shape[d].clone()).product();
    let flat = cx.sizes.affine(&flat);
    let mut merged: Vec<Expr> = order.iter().map(|&d| ty.shape[d].clone()).collect();
    merged.splice(dim..dim + dims.len(), [flat]);
    // PyTorch says of these ops that their indices are right.
    let right = n.base().starts_with("aten._unsafe");
    let front = |d: usize, i: Value<'c, 'a>| match right {
        true => from_front(cx, integers(cx, i)?, &ty.shape[d]),
        false => checked(cx, n, i, &ty.shape[d], Negative::FromEnd),
    };
    let positions = match at.as_slice() {
        // Gathers and scatters count from the end themselves.
        [(_, i)] if right => integers(cx, *i)?,
        [(d, i)] => front(*d, *i)?,
        _ => {
            let common = broadcast_shape(cx, at.iter().map(|(_, v)| *v))?;
            let mut position: Option<Value> = None;
            for (d, i) in &at {
                let i = cx.expand(front(*d, *i)?, DType::I64, &common)?;
                let size = cx.expand(cx.size(&ty.shape[*d])?, DType::I64, &common)?;
                position = Some(match position {
                    None => i,
                    Some(p) => cx.op("add", &[cx.op("mul", &[p, size])?, i])?,
                });
            }
            position.ok_or("no index tensor")?
        }
    };
    Ok(Indexed { order, merged, dim, positions })
}

/// The index tensors of the list `indices`, with their dimensions.
pub fn index_list<'c, 'a>(cx: &Cx<'c, 'a>, n: &Node) -> Result<Vec<(usize, Value<'c, 'a>)>, Refusal> {
    let Some(Arg::List(list)) = n.args.get("indices") else { return Err("no list of indices".into()) };
    let mut at = Vec::new();
    for (d, a) in list.iter().enumerate() {
        match a {
            Arg::Value(name) => {
                let v = cx.value(name, 0)?;
                // Bytes as indices are a mask.
                at.push((d, if cx.ty(v).dtype == DType::U8 { cx.cast(v, DType::I1)? } else { v }));
            }
            Arg::None => {}
            other => return Err(format!("an index {other:?}").into()),
        }
    }
    Ok(at)
}

/// The shape to which tensors broadcast.
fn broadcast_shape<'c, 'a>(
    cx: &Cx<'c, 'a>,
    values: impl Iterator<Item = Value<'c, 'a>>,
) -> Result<Vec<Expr>, Refusal> {
    let mut shape: Vec<Expr> = Vec::new();
    for v in values {
        let own = cx.ty(v).shape;
        if own.len() > shape.len() {
            shape.splice(0..0, vec![Expr::from(1); own.len() - shape.len()]);
        }
        let skip = shape.len() - own.len();
        for (s, o) in shape[skip..].iter_mut().zip(&own) {
            if *s == Expr::from(1) {
                *s = o.clone();
            } else if *o != Expr::from(1) && o != s {
                return Err(format!("index tensors of sizes {s} and {o}").into());
            }
        }
    }
    Ok(shape)
}

/// `x[:, i, j]`.
fn index<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let i = indexed(cx, n, x)?;
    let flat = cx.reshape(cx.transpose(x, &i.order)?, &i.merged)?;
    one(gather(cx, flat, i.positions, i.dim)?)
}

/// Positions in the row-major elements of a tensor of `shape`, for the elements of an index tensor: their own position, with the
/// index along `dim`.
pub fn flat_positions<'c, 'a>(
    cx: &mut Cx<'c, 'a>,
    n: &Node,
    index: Value<'c, 'a>,
    dim: usize,
    shape: &[Expr],
) -> One<'c, 'a> {
    let own = cx.ty(index).shape;
    let index = cx.cast(checked(cx, n, index, &shape[dim], Negative::Outside)?, DType::I64)?;
    let mut position: Option<Value> = None;
    for (d, size) in shape.iter().enumerate() {
        let i = if d == dim { index } else { cx.iota(&own, d)? };
        position = Some(match position {
            None => i,
            Some(p) => {
                let size = cx.expand(cx.size(size)?, DType::I64, &own)?;
                cx.op("add", &[cx.op("mul", &[p, size])?, i])?
            }
        });
    }
    Ok(position.ok_or("a tensor of rank 0")?)
}

/// A tensor of rank 0 as one of rank 1.
pub fn at_least_1d<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>) -> One<'c, 'a> {
    if cx.ty(x).rank() == 0 { cx.reshape(x, &[Expr::from(1)]) } else { Ok(x) }
}

/// `x` along `dim` at the places that an index tensor of the result's shape names.
fn gather_elements<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (x, index) = (cx.tensor(n, "self")?, cx.tensor(n, "index")?);
    let (x, index) = (at_least_1d(cx, x)?, at_least_1d(cx, index)?);
    let (ty, out) = (cx.ty(x), n.result(0)?);
    if cx.ty(index).shape.contains(&Expr::from(0)) {
        return one(cx.full(out.dtype, 0.0, &out.shape)?);
    }
    let dim = n.dim("dim", ty.rank())?;
    let position = flat_positions(cx, n, index, dim, &ty.shape)?;
    let all = cx.sizes.affine(&ty.numel());
    let picked = gather(cx, cx.reshape(x, &[all])?, position, 0)?;
    one(cx.reshape(picked, &out.shape)?)
}

/// Elements of a tensor seen as a vector.
fn take<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let (x, index) = (cx.tensor(n, "self")?, cx.tensor(n, "index")?);
    let all = cx.sizes.affine(&cx.ty(x).numel());
    let index = checked(cx, n, index, &all, Negative::FromEnd)?;
    one(gather(cx, cx.reshape(x, &[all])?, index, 0)?)
}

fn flip<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let mut x = cx.tensor(n, "self")?;
    let ty = cx.ty(x);
    for d in n.ints("dims")? {
        let d = super::lower::wrap(d, ty.rank())?;
        let size = &ty.shape[d];
        let last = cx.size(&(size.clone() - Expr::from(1)))?;
        let last = cx.expand(last, DType::I64, std::slice::from_ref(size))?;
        let reversed = cx.op("sub", &[last, cx.iota(std::slice::from_ref(size), 0)?])?;
        x = gather(cx, x, reversed, d)?;
    }
    one(x)
}

/// Two dimensions of sizes n and m, flattened, at positions that are m + 1 apart.
pub struct Diagonal<'c, 'a> {
    /// How the operand's dimensions are permuted: the two come last.
    pub order: Vec<usize>,
    /// The permuted operand's sizes, with the two as one.
    pub merged: Vec<Expr>,
    /// Positions along that.
    pub positions: Value<'c, 'a>,
}

/// The diagonal of `length` elements that a node's arguments name.
pub fn diagonal_of<'c, 'a>(
    cx: &mut Cx<'c, 'a>,
    n: &Node,
    x: Value<'c, 'a>,
    length: Expr,
) -> Result<Diagonal<'c, 'a>, Refusal> {
    let ty = cx.ty(x);
    let get = |key: &str, default: i64| if n.has(key) { n.int(key) } else { Ok(default) };
    let (offset, d1, d2) = (get("offset", 0)?, get("dim1", 0)?, get("dim2", 1)?);
    let (d1, d2) = (super::lower::wrap(d1, ty.rank())?, super::lower::wrap(d2, ty.rank())?);
    let mut order: Vec<usize> = (0..ty.rank()).filter(|&d| d != d1 && d != d2).collect();
    let mut merged: Vec<Expr> = order.iter().map(|&d| ty.shape[d].clone()).collect();
    order.extend([d1, d2]);
    let width = ty.shape[d2].clone();
    merged.push(cx.sizes.affine(&(ty.shape[d1].clone() * width.clone())));
    let length = [length];
    let step = cx.expand(cx.size(&(width.clone() + Expr::from(1)))?, DType::I64, &length)?;
    let first = if offset < 0 { width * Expr::from(-offset) } else { offset.into() };
    let first = cx.expand(cx.size(&first)?, DType::I64, &length)?;
    let positions = cx.op("add", &[cx.op("mul", &[cx.iota(&length, 0)?, step])?, first])?;
    Ok(Diagonal { order, merged, positions })
}

fn diagonal<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let out = n.result(0)?;
    let length = out.shape.last().ok_or("a diagonal of rank 0")?.clone();
    if out.shape.contains(&Expr::from(0)) {
        return one(cx.full(out.dtype, 0.0, &out.shape)?);
    }
    let d = diagonal_of(cx, n, x, length)?;
    let flat = cx.reshape(cx.transpose(x, &d.order)?, &d.merged)?;
    one(gather(cx, flat, d.positions, d.merged.len() - 1)?)
}
