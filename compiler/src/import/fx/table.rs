//! Which function lowers an op, and what happens where none does.

use super::fallback;
use super::lower::{Cx, Many, Refusal};
use super::model::{Arg, Meta, Node};
use super::{
    attention, create, elementary, exact, index, norm, pointwise, pool, powers, products, reduce, scan,
    scatter, sort, special, unary, views,
};
use melior::ir::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Lowers a node; a refusal makes it a call of the embedding program.
pub type Lower = for<'c, 'a> fn(&mut Cx<'c, 'a>, &Node) -> Many<'c, 'a>;
/// An op without its overload, and what lowers it.
pub type Entry = (&'static str, Lower);

static THEMES: [&[Entry]; 15] = [
    pointwise::TABLE,
    powers::TABLE,
    unary::TABLE,
    elementary::TABLE,
    views::TABLE,
    create::TABLE,
    reduce::TABLE,
    products::TABLE,
    pool::TABLE,
    norm::TABLE,
    index::TABLE,
    scatter::TABLE,
    scan::TABLE,
    sort::TABLE,
    attention::TABLE,
];

/// What PyTorch gives to a library of its own that nothing here surpasses: fused attention with its gradients, and gradients of
/// convolutions and transposed ones, by FlashAttention, cuDNN or oneDNN. Calls of these are library calls, not fallbacks: their
/// reason is empty.
const LIBRARY: [&str; 12] = [
    "aten._scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_flash_attention_backward",
    "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_efficient_attention_backward",
    "aten._scaled_dot_product_cudnn_attention",
    "aten._scaled_dot_product_cudnn_attention_backward",
    "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward",
    "aten._scaled_dot_product_fused_attention_overrideable",
    "aten._scaled_dot_product_fused_attention_overrideable_backward",
    "aten.convolution_backward",
    "aten.cudnn_batch_norm_backward",
];

fn is_library(n: &Node) -> bool {
    let transposed = n.base() == "aten.convolution" && n.flag("transposed", false).unwrap_or(false);
    let floats = n.out.iter().flatten().all(|m| m.dtype.is_float());
    transposed && floats || LIBRARY.contains(&n.base())
}

static TABLE: LazyLock<BTreeMap<&'static str, Lower>> =
    LazyLock::new(|| THEMES.iter().chain(&special::TABLES).copied().flatten().copied().collect());

/// The ops that have a lowering, in alphabetical order.
#[cfg(test)]
pub fn names() -> Vec<&'static str> {
    TABLE.keys().copied().collect()
}

/// How many rows the themes have together.
#[cfg(test)]
pub fn entries() -> usize {
    THEMES.iter().chain(&special::TABLES).map(|t| t.len()).sum()
}

/// A single result.
pub fn one<'c, 'a>(x: Value<'c, 'a>) -> Many<'c, 'a> {
    Ok(vec![Some(x)])
}

/// Lowers a node, or makes it a call of the embedding program.
pub fn lower_or_fall_back(cx: &mut Cx<'_, '_>, n: &Node) -> Result<(), Refusal> {
    let values = match lower(cx, n) {
        Ok(values) => values,
        Err(reason) if n.op == "getitem" => return Err(reason),
        Err(_) if is_library(n) || sort::left_to_library(cx, n) => fallback::custom_call(cx, n, "")?,
        Err(reason) => fallback::custom_call(cx, n, &reason.0)?,
    };
    cx.define(&n.name, values, n.out.clone());
    Ok(())
}

fn lower<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    if n.op == "getitem" {
        return pick(cx, n);
    }
    let Some(f) = TABLE.get(n.base()) else { return Err("no lowering for this op".into()) };
    if sort::left_to_library(cx, n) {
        return Err("a row that is too long to be sorted by a block or for what is picked of it".into());
    }
    if cx.strict
        && let Some(reason) = exact::left_to_pytorch(n)
    {
        return Err(reason.into());
    }
    if !views::keeps_bits(n.base())
        && let Some(foreign) = foreign_type(cx, n)
    {
        return Err(format!("element type {foreign}").into());
    }
    if !moves(n.base())
        && let Some(name) = types(cx, n).find(|m| m.dtype.is_float8()).map(|m| m.torch.clone())
    {
        return Err(format!("nothing is computed in {name}: it holds elements only").into());
    }
    let values = f(cx, n)?;
    for (i, value) in values.iter().enumerate() {
        if let (Some(v), Some(Some(meta))) = (value, n.out.get(i)) {
            let ty = cx.ty(*v);
            if ty.dtype != meta.dtype || ty.shape != meta.shape {
                return Err(format!(
                    "the lowering gives {ty}, PyTorch says {} {:?}",
                    meta.torch,
                    meta.shape.iter().map(ToString::to_string).collect::<Vec<_>>()
                )
                .into());
            }
        }
    }
    Ok(values)
}

/// One result of a node with several.
fn pick<'c, 'a>(cx: &Cx<'c, 'a>, n: &Node) -> Many<'c, 'a> {
    match n.args.get("a0") {
        Some(Arg::Value(name)) => one(cx.value(name, n.int("a1")? as usize)?),
        other => Err(format!("getitem of {other:?}").into()),
    }
}

/// An element type among operands and results that is not Strata's.
fn foreign_type(cx: &Cx<'_, '_>, n: &Node) -> Option<String> {
    types(cx, n).find(|m| !m.native).map(|m| m.torch.clone())
}

/// Operands and results.
fn types<'x>(cx: &'x Cx<'_, '_>, n: &'x Node) -> impl Iterator<Item = &'x Meta> {
    let mut names = Vec::new();
    n.args.values().for_each(|a| collect(a, &mut names));
    names.into_iter().filter_map(|name| cx.meta(name, 0)).chain(n.out.iter().flatten())
}

/// Whether an op makes, moves, converts or compares elements: what there is for those that nothing is computed in.
fn moves(base: &str) -> bool {
    const MORE: [&str; 11] = [
        "aten.where",
        "aten.eq",
        "aten.ne",
        "aten.isnan",
        "aten._to_copy",
        "aten.to",
        "prims.convert_element_type",
        "aten.copy",
        "aten.roll",
        "aten.fill",
        "aten.masked_fill",
    ];
    let moving = [views::TABLE, index::TABLE, scatter::TABLE, create::TABLE];
    MORE.contains(&base)
        || moving.iter().any(|t| t.iter().any(|(name, _)| *name == base))
            && !matches!(base, "aten.arange" | "prims.iota")
}

/// The nodes that an argument names, in order.
pub fn collect<'n>(arg: &'n Arg, into: &mut Vec<&'n str>) {
    match arg {
        Arg::Value(name) => into.push(name),
        Arg::List(list) => list.iter().for_each(|a| collect(a, into)),
        _ => {}
    }
}
