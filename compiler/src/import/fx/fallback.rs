//! Ops that the embedding program runs: `graph.custom_call` with what it needs to call them again.

use super::lower::{Cx, Many, One, Refusal, inverse};
use super::model::{Meta, Node};
use melior::ir::Value;
use serde_json::{Map, Value as Json, json};
use strata_dialects::reference::Scalar;
use strata_dialects::{Attr, TensorType};
use strata_runtime::sym::Expr;

/// Ops whose result depends on how the operand lies in memory, which is kept of dense ones.
const READ_MEMORY: [&str; 4] =
    ["aten.as_strided", "aten.as_strided_copy", "aten.as_strided_scatter", "aten.view_as_complex"];

/// The call of an op in the embedding program.
///
/// The payload is `{"op": name, "args": {…}, "in": [types], "out": [types]}`: PyTorch's element types of operands and results
/// (`null` for what is no tensor), and the arguments as the package wrote them, with `{"tensor": k}` for operand k and `{"symbol": k}`
/// for the call's integer argument k. Operands and results lie in memory as PyTorch's own would.
pub fn custom_call<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, reason: &str) -> Many<'c, 'a> {
    let mut call = Call {
        cx,
        operands: Vec::new(),
        types: Vec::new(),
        symbols: Vec::new(),
        layouts: Vec::new(),
        sizes: Vec::new(),
        as_is: Vec::new(),
    };
    let mut args = Map::new();
    for (name, value) in n.raw.as_object().into_iter().flatten() {
        args.insert(name.clone(), call.argument(value, n)?);
    }
    let Call { operands, types, symbols, mut layouts, sizes, as_is, .. } = call;
    // What nobody uses may not even exist, such as the statistics of attention that has no gradient.
    let any = n.used.iter().any(|&used| used);
    let used = |i: usize| !any || n.used.get(i).copied().unwrap_or(true);
    let out: Vec<Option<&Meta>> =
        n.out.iter().enumerate().map(|(i, m)| m.as_ref().filter(|_| used(i))).collect();
    let mut results = Vec::new();
    for m in out.iter().flatten() {
        let order = m.order.clone().unwrap_or_else(|| (0..m.shape.len()).collect());
        results
            .push(TensorType { dtype: m.dtype, shape: order.iter().map(|&d| m.shape[d].clone()).collect() });
        layouts.extend(layout(&order));
    }
    let types_out: Vec<Json> = out.iter().map(|m| m.map_or(Json::Null, |m| json!(m.torch))).collect();
    if results.is_empty() {
        return Err(format!("its result is no tensor, and {reason}").into());
    }
    let payload = json!({ "op": n.op, "args": args, "in": types, "out": types_out });
    let mut attrs = vec![
        ("target", Attr::Str(n.op.clone())),
        ("payload", Attr::Str(payload.to_string())),
        ("reason", Attr::Str(reason.to_owned())),
        ("symbols", Attr::Dims(symbols)),
    ];
    let ranks = || operands.iter().map(|&v| cx.ty(v)).chain(results.iter().cloned()).map(|t| t.rank());
    if layouts != ranks().flat_map(|rank| 0..rank as i64).collect::<Vec<_>>() {
        attrs.push(("layouts", Attr::Ints(layouts)));
    }
    if sizes.iter().any(|(whole, seen)| whole != seen) {
        attrs.push(("sizes", Attr::Dims(sizes.into_iter().map(|(_, seen)| seen).collect())));
    }
    if !as_is.is_empty() {
        attrs.push(("as_is", Attr::Ints(as_is)));
    }
    let mut values = cx.b.graph_as("custom_call", &operands, &attrs, &results)?.into_iter();
    let mut list = Vec::new();
    for m in out {
        list.push(match (m, m.and_then(|_| values.next())) {
            (Some(Meta { order: Some(order), .. }), Some(v)) => Some(cx.transpose(v, &inverse(order))?),
            (_, v) => v,
        });
    }
    Ok(list)
}

/// Which dimension of what lies in an order each dimension is.
fn layout(order: &[usize]) -> impl Iterator<Item = i64> {
    inverse(order).into_iter().map(|d| d as i64)
}

struct Call<'x, 'c, 'a> {
    cx: &'x mut Cx<'c, 'a>,
    operands: Vec<Value<'c, 'a>>,
    types: Vec<String>,
    symbols: Vec<Expr>,
    /// Which dimension of what is passed each dimension is.
    layouts: Vec<i64>,
    /// Sizes of the dimensions in memory, and as the op sees them.
    sizes: Vec<(Expr, Expr)>,
    /// Operands that are passed as they lie.
    as_is: Vec<i64>,
}

impl<'c, 'a> Call<'_, 'c, 'a> {
    /// An operand, its dimensions in the order of memory: libraries read strides and trust that these are what PyTorch makes them.
    fn operand(&mut self, name: &str, value: Value<'c, 'a>, meta: &Meta) -> Result<(), Refusal> {
        let rank = meta.shape.len();
        let (mut value, mut order, mut whole) = (value, (0..rank).collect(), meta.shape.clone());
        match (&meta.order, &meta.part) {
            (Some(dense), _) => order = dense.clone(),
            _ if self.cx.with_gaps.contains(name) => self.as_is.push(self.operands.len() as i64),
            (None, Some(part)) => {
                (order, whole) = (part.order.clone(), part.shape.clone());
                value = self.part(value, &meta.shape, &whole)?;
            }
            (None, None) => {}
        }
        self.layouts.extend(layout(&order));
        self.sizes.extend(whole.into_iter().zip(meta.shape.iter().cloned()));
        self.operands.push(self.cx.transpose(value, &order)?);
        self.types.push(meta.torch.clone());
        Ok(())
    }

    /// A tensor cut or filled up with zeros to other sizes.
    fn part(&self, value: Value<'c, 'a>, shape: &[Expr], whole: &[Expr]) -> One<'c, 'a> {
        let (mut value, mut high) = (value, vec![Expr::from(0); shape.len()]);
        for (d, (n, w)) in shape.iter().zip(whole).enumerate() {
            if *w == Expr::from(1) {
                value = self.cx.slice(value, d, &Expr::from(0), &Expr::from(1), 1)?;
            } else {
                high[d] = w.clone() - n.clone();
            }
        }
        if high.iter().all(|e| *e == Expr::from(0)) {
            return Ok(value);
        }
        let zero = self.cx.scalar(self.cx.ty(value).dtype, Scalar::I(0))?;
        let amounts = [("low", Attr::Dims(vec![Expr::from(0); shape.len()])), ("high", Attr::Dims(high))];
        Ok(self.cx.b.graph1("pad", &[value, zero], &amounts)?)
    }

    fn argument(&mut self, arg: &Json, n: &Node) -> Result<Json, Refusal> {
        Ok(match arg {
            Json::Array(list) => {
                Json::Array(list.iter().map(|a| self.argument(a, n)).collect::<Result<_, _>>()?)
            }
            Json::Object(o) => {
                if let Some(name) = o.get("node").and_then(Json::as_str) {
                    let value = self.cx.value(name, 0)?;
                    let meta = self.cx.meta(name, 0).ok_or("an operand without type")?;
                    let meta = meta.clone();
                    if READ_MEMORY.contains(&n.base()) && meta.order.is_none() {
                        return Err(
                            format!("{} reads the memory of an operand that is not dense", n.op).into()
                        );
                    }
                    self.operand(name, value, &meta)?;
                    return Ok(json!({ "tensor": self.operands.len() - 1 }));
                }
                if let Some(size) = o.get("size") {
                    let e = self.cx.sizes.parse(size)?;
                    let e = self.cx.sizes.affine(&e);
                    if let Some(c) = e.as_const() {
                        return Ok(json!(c));
                    }
                    self.symbols.push(e);
                    return Ok(json!({ "symbol": self.symbols.len() - 1 }));
                }
                let mut out = Map::new();
                for (k, v) in o {
                    out.insert(k.clone(), self.argument(v, n)?);
                }
                Json::Object(out)
            }
            other => other.clone(),
        })
    }
}
