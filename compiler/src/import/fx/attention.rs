//! Scaled dot-product attention in the forms that PyTorch chooses between.

use super::lower::{Cx, Many};
use super::model::Node;
use super::table::Entry;
use strata_dialects::{Attr, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

pub const TABLE: &[Entry] = &[
    ("aten.scaled_dot_product_attention", |cx, n| attention(cx, n, "attn_mask")),
    ("aten._scaled_dot_product_flash_attention_for_cpu", |cx, n| attention(cx, n, "attn_mask")),
    ("aten._scaled_dot_product_flash_attention", |cx, n| attention(cx, n, "attn_mask")),
    ("aten._scaled_dot_product_efficient_attention", |cx, n| attention(cx, n, "attn_bias")),
    ("aten._scaled_dot_product_cudnn_attention", |cx, n| attention(cx, n, "attn_bias")),
    ("aten._scaled_dot_product_fused_attention_overrideable", |cx, n| attention(cx, n, "attn_bias")),
];

/// Scores that are computed here, as a product: of more, a kernel that never writes them, PyTorch's, is faster although its call goes
/// through Python.
const SCORES: i64 = 1 << 21;

/// How many scores there typically are.
fn scores(cx: &Cx<'_, '_>, q: &TensorType, k: &TensorType) -> Option<i64> {
    let rows = q.shape[..q.rank() - 1].iter().cloned().product::<Expr>();
    let all = rows * k.shape[k.rank() - 2].clone();
    let hints: Vec<Option<i64>> = cx.sizes.symbols().iter().map(|s| s.info.hint).collect();
    let known = all.symbols().iter().all(|s| hints.get(s.0 as usize).is_some_and(Option::is_some));
    let hints: Vec<i64> = hints.iter().map(|h| h.unwrap_or(0)).collect();
    known.then(|| all.eval(&hints)).flatten()
}

fn attention<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, mask: &str) -> Many<'c, 'a> {
    if !n.only_first() {
        return Err("its statistics are used, by the backward graph".into());
    }
    if n.has("dropout_p") && n.float("dropout_p")? != 0.0 {
        return Err("dropout in attention".into());
    }
    let [q, k, v] = ["query", "key", "value"].map(|key| cx.tensor(n, key));
    let (q, k, v) = (q?, k?, v?);
    let ty = cx.ty(q);
    let rank = ty.rank();
    let library = n.base() != "aten.scaled_dot_product_attention";
    if library && cx.gpu && !cx.standalone && scores(cx, &ty, &cx.ty(k)).is_none_or(|n| n > SCORES) {
        return Err("scores that are better not written to memory".into());
    }
    let scale = match n.has("scale") {
        true => n.float("scale")?,
        false => match ty.shape[rank - 1].as_const() {
            Some(width) => 1.0 / (width as f64).sqrt(),
            None => return Err("a dynamic head width".into()),
        },
    };
    let mut operands = vec![q, k, v];
    if let Some(mask) = cx.optional(n, mask)? {
        let mut scores = ty.shape.clone();
        scores[rank - 1] = cx.ty(k).shape[rank - 2].clone();
        let bias = if cx.ty(mask).dtype == DType::I1 {
            let [zero, low] = [0.0, f64::NEG_INFINITY].map(|x| cx.full(ty.dtype, x, &scores));
            cx.op("select", &[cx.expand(mask, DType::I1, &scores)?, zero?, low?])?
        } else {
            cx.expand(mask, ty.dtype, &scores)?
        };
        operands.push(bias);
    }
    let attrs = [("scale", Attr::Float(scale)), ("causal", Attr::Bool(n.flag("is_causal", false)?))];
    let y = cx.b.graph1("attention", &operands, &attrs)?;
    let mut results = vec![Some(y)];
    results.resize(n.out.len(), None);
    Ok(results)
}
