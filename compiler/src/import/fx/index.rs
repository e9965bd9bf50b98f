//! Elements picked by index tensors.

use super::lower::{Cx, Many, One, direction};
use super::model::{Arg, Node};
use super::table::{Entry, one};
use melior::ir::Value;
use strata_dialects::Attr;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] = &[
    ("aten.embedding", |cx, n| {
        let (weight, indices) = (cx.tensor(n, "weight")?, cx.tensor(n, "indices")?);
        one(gather(cx, weight, indices, 0)?)
    }),
    ("aten.index_select", |cx, n| {
        let (x, indices) = (cx.tensor(n, "self")?, cx.tensor(n, "index")?);
        let rank = cx.ty(x).rank();
        if rank == 0 {
            return Err("a tensor of rank 0".into());
        }
        let picked = gather(cx, x, indices, n.dim("dim", rank)?)?;
        one(cx.reshape(picked, &n.result(0)?.shape)?)
    }),
    ("aten.index", index),
    ("aten._unsafe_index", index),
    ("aten.flip", flip),
    ("aten.diagonal", diagonal),
];

fn gather<'c, 'a>(cx: &Cx<'c, 'a>, x: Value<'c, 'a>, indices: Value<'c, 'a>, dim: usize) -> One<'c, 'a> {
    let size = &cx.ty(x).shape[dim];
    if *size == Expr::from(0) {
        return Err("the dimension that is indexed is empty".into());
    }
    let indices = match cx.ty(indices).dtype {
        DType::I64 | DType::I32 => indices,
        DType::I8 => cx.cast(indices, DType::I64)?,
        other => return Err(format!("indices of type {other}").into()),
    };
    Ok(cx.b.graph1("gather", &[x, indices], &[("dim", Attr::Int(dim as i64))])?)
}

/// `x[:, i, j]`: index tensors for neighbouring dimensions, which are read as one.
fn index<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let Some(Arg::List(list)) = n.args.get("indices") else { return Err("no list of indices".into()) };
    let mut at = Vec::new();
    for (d, a) in list.iter().enumerate() {
        match a {
            Arg::Value(name) => at.push((d, cx.value(name, 0)?)),
            Arg::None => {}
            other => return Err(format!("an index {other:?}").into()),
        }
    }
    let (Some(&(first, _)), Some(&(last, _))) = (at.first(), at.last()) else {
        return Err("no index tensor".into());
    };
    if at.iter().any(|(_, v)| cx.ty(*v).dtype == DType::I1) {
        return Err("a mask as index: the number of elements is only known when it runs".into());
    }
    if last - first + 1 != at.len() {
        return Err("index tensors for dimensions that are not neighbours".into());
    }
    let ty = cx.ty(x);
    let shape = &n.result(0)?.shape;
    let picked = match at.as_slice() {
        [(d, i)] => gather(cx, x, *i, *d)?,
        _ => {
            let rank = shape.len() - (ty.rank() - at.len());
            let common = &shape[first..first + rank];
            let mut position: Option<Value> = None;
            let mut flat = Expr::from(1);
            for (d, i) in &at {
                let i = cx.expand(*i, DType::I64, common)?;
                let size = cx.expand(cx.size(&ty.shape[*d])?, DType::I64, common)?;
                let negative = cx.compare(direction::LT, i, cx.like(i, 0.0)?)?;
                let i = cx.op("select", &[negative, cx.op("add", &[i, size])?, i])?;
                position = Some(match position {
                    None => i,
                    Some(p) => cx.op("add", &[cx.op("mul", &[p, size])?, i])?,
                });
                flat = flat * ty.shape[*d].clone();
            }
            let flat = cx.sizes.affine(&flat);
            let merged = [&ty.shape[..first], &[flat], &ty.shape[last + 1..]].concat();
            gather(cx, cx.reshape(x, &merged)?, position.ok_or("no index tensor")?, first)?
        }
    };
    one(picked)
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
fn diagonal<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    let x = cx.tensor(n, "self")?;
    let ty = cx.ty(x);
    let get = |key: &str, default: i64| if n.has(key) { n.int(key) } else { Ok(default) };
    let (offset, d1, d2) = (get("offset", 0)?, get("dim1", 0)?, get("dim2", 1)?);
    let (d1, d2) = (super::lower::wrap(d1, ty.rank())?, super::lower::wrap(d2, ty.rank())?);
    let mut order: Vec<usize> = (0..ty.rank()).filter(|&d| d != d1 && d != d2).collect();
    let mut shape: Vec<Expr> = order.iter().map(|&d| ty.shape[d].clone()).collect();
    let count = order.len();
    order.extend([d1, d2]);
    let width = ty.shape[d2].clone();
    shape.push(cx.sizes.affine(&(ty.shape[d1].clone() * width.clone())));
    let flat = cx.reshape(cx.transpose(x, &order)?, &shape)?;
    let length = n.result(0)?.shape[count..].to_vec();
    let step = cx.expand(cx.size(&(width.clone() + Expr::from(1)))?, DType::I64, &length)?;
    let first = if offset < 0 { width * Expr::from(-offset) } else { offset.into() };
    let first = cx.expand(cx.size(&first)?, DType::I64, &length)?;
    let at = cx.op("add", &[cx.op("mul", &[cx.iota(&length, 0)?, step])?, first])?;
    one(gather(cx, flat, at, count)?)
}
