//! `legalize-library-calls`: brings products and convolutions into the forms that libraries take.
//!
//! A product whose dimensions do not form one batched matrix product gets its factors transposed to (batch, free, contracting); a
//! convolution with unequal padding before and after is padded by an op of its own.

use crate::driver::pass::{Failure, Level, Pass, PassCx};
use crate::graph::product_layout::{contiguous, product_layout};
use crate::ir;
use melior::ir::Module;
use melior::ir::operation::{OperationLike, OperationRef};
use strata_dialects::ops::products::free_dims;
use strata_dialects::{Attr, Builder, OpView, Violation};
use strata_runtime::sym::Expr;

/// The pass.
pub static PASS: Pass = Pass {
    name: "legalize-library-calls",
    summary: "transpose factors and pad inputs so that libraries take products and convolutions",
    from: Level::Graph,
    to: Level::Graph,
    exact: true,
    options: &[],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    for function in ir::functions(module) {
        let Some(body) = ir::body(&function) else { continue };
        for op in ir::ops(body) {
            let done = match ir::name(&op) {
                "graph.dot_general" => product(cx, op),
                "graph.convolution" => convolution(cx, op),
                _ => continue,
            };
            done.map_err(|v| Failure::new(op.location(), v))?;
        }
    }
    Ok(())
}

fn product<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Result<(), String> {
    let view = OpView::new(&op)?;
    let (l, r) = (&view.operands[0], &view.operands[1]);
    if !l.dtype.is_float() || product_layout(&view, &contiguous(&l.shape), &contiguous(&r.shape)).is_some() {
        return Ok(());
    }
    let builder = Builder::before(cx.context, op);
    let (lf, rf) = free_dims(&view);
    let mut operands = Vec::new();
    let mut attrs = Vec::new();
    for (side, free) in [("lhs", lf), ("rhs", rf)] {
        let (batch, contracting) =
            (view.indices(&format!("{side}_batch")), view.indices(&format!("{side}_contracting")));
        let order: Vec<i64> = batch.iter().chain(&free).chain(&contracting).map(|&d| d as i64).collect();
        let x = op.operand(operands.len()).map_err(|e| e.to_string())?;
        operands.push(
            builder
                .graph1("transpose", &[x], &[("permutation", Attr::Ints(order))])
                .map_err(|v| v.to_string())?,
        );
        let range = |from: usize, n: usize| Attr::Ints((from as i64..(from + n) as i64).collect());
        attrs.push((format!("{side}_batch"), range(0, batch.len())));
        attrs.push((format!("{side}_contracting"), range(batch.len() + free.len(), contracting.len())));
    }
    let attrs: Vec<(&str, Attr)> = attrs.iter().map(|(n, a)| (n.as_str(), a.clone())).collect();
    let result = builder.graph("dot_general", &operands, &attrs).map_err(|v| v.to_string())?;
    ir::replace(op, &result);
    cx.count("products", 1);
    Ok(())
}

fn convolution<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Result<(), String> {
    let view = OpView::new(&op)?;
    let (low, high) = (view.ints("low"), view.ints("high"));
    if low == high {
        return Ok(());
    }
    let builder = Builder::before(cx.context, op);
    let spatial = low.len();
    let amounts =
        |list: &[i64]| -> Attr { Attr::Dims([0, 0].iter().chain(list).map(|&n| Expr::from(n)).collect()) };
    let build = || -> Result<_, Violation> {
        let zero = builder.number(view.operands[0].dtype, 0.0)?;
        let input = op.operand(0).expect("as viewed");
        let padded =
            builder.graph1("pad", &[input, zero], &[("low", amounts(low)), ("high", amounts(high))])?;
        let mut attrs: Vec<(&str, Attr)> =
            vec![("low", Attr::Ints(vec![0; spatial])), ("high", Attr::Ints(vec![0; spatial]))];
        for name in ["strides", "dilation"] {
            attrs.push((name, Attr::Ints(view.ints(name).to_vec())));
        }
        attrs.push(("groups", Attr::Int(view.int("groups"))));
        builder.graph("convolution", &[padded, op.operand(1).expect("as viewed")], &attrs)
    };
    let result = build().map_err(|v| v.to_string())?;
    ir::replace(op, &result);
    cx.count("convolutions", 1);
    Ok(())
}
