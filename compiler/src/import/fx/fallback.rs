//! Ops that the embedding program runs: `graph.custom_call` with what it needs to call them again.

use super::lower::{Cx, Many};
use super::model::Node;
use serde_json::{Map, Value as Json, json};
use strata_dialects::{Attr, TensorType};
use strata_runtime::sym::Expr;

/// Ops whose result depends on how the operand lies in memory, which is not kept.
const READ_MEMORY: [&str; 4] =
    ["aten.as_strided", "aten.as_strided_copy", "aten.as_strided_scatter", "aten.view_as_complex"];

/// The call of an op in the embedding program.
///
/// The payload is `{"op": name, "args": {…}, "in": [types], "out": [types]}`: PyTorch's element types of operands and results
/// (`null` for what is no tensor), and the arguments as the package wrote them, with `{"tensor": k}` for operand k and `{"symbol": k}`
/// for the call's integer argument k.
pub fn custom_call<'c, 'a>(cx: &mut Cx<'c, 'a>, n: &Node, reason: &str) -> Many<'c, 'a> {
    let mut call = Call { cx, operands: Vec::new(), types: Vec::new(), symbols: Vec::new() };
    let mut args = Map::new();
    for (name, value) in n.raw.as_object().into_iter().flatten() {
        args.insert(name.clone(), call.argument(value, n)?);
    }
    let Call { operands, types, symbols, .. } = call;
    let results: Vec<TensorType> =
        n.out.iter().flatten().map(|m| TensorType { dtype: m.dtype, shape: m.shape.clone() }).collect();
    let out: Vec<Json> = n.out.iter().map(|m| m.as_ref().map_or(Json::Null, |m| json!(m.torch))).collect();
    if results.is_empty() {
        return Err(format!("its result is no tensor, and {reason}").into());
    }
    let payload = json!({ "op": n.op, "args": args, "in": types, "out": out });
    let attrs = [
        ("target", Attr::Str(n.op.clone())),
        ("payload", Attr::Str(payload.to_string())),
        ("reason", Attr::Str(reason.to_owned())),
        ("symbols", Attr::Dims(symbols)),
    ];
    let mut values = cx.b.graph_as("custom_call", &operands, &attrs, &results)?.into_iter();
    Ok(n.out.iter().map(|m| m.as_ref().and_then(|_| values.next())).collect())
}

struct Call<'x, 'c, 'a> {
    cx: &'x mut Cx<'c, 'a>,
    operands: Vec<melior::ir::Value<'c, 'a>>,
    types: Vec<String>,
    symbols: Vec<Expr>,
}

impl Call<'_, '_, '_> {
    fn argument(&mut self, arg: &Json, n: &Node) -> Result<Json, super::lower::Refusal> {
        Ok(match arg {
            Json::Array(list) => {
                Json::Array(list.iter().map(|a| self.argument(a, n)).collect::<Result<_, _>>()?)
            }
            Json::Object(o) => {
                if let Some(name) = o.get("node").and_then(Json::as_str) {
                    let value = self.cx.value(name, 0)?;
                    let meta = self.cx.meta(name, 0).ok_or("an operand without type")?;
                    if READ_MEMORY.contains(&n.base()) && !meta.is_contiguous() {
                        return Err(format!(
                            "{} reads the memory of an operand that is not contiguous",
                            n.op
                        )
                        .into());
                    }
                    self.types.push(meta.torch.clone());
                    self.operands.push(value);
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
