//! `widen-sums`: a running sum of f16 or bf16 tensors, such as a transformer's residual stream, is kept in f32.
//!
//! law: rounding each partial sum of n addends to p bits adds an error that grows with √n · 2⁻ᵖ; in f32 it vanishes beside the addends' own.
//! Only sums whose readers compute in f32 anyway (norms) are widened: the f32 tensor then takes the place of the narrow one, and no second
//! copy is written. It costs 2 bytes more for each element written and read. `strict` numerics round as the program says.

use crate::driver::pass::{Failure, Level, Pass, PassCx, PassOption};
use crate::graph::users;
use crate::ir;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Module, Value, ValueLike};
use std::collections::BTreeMap;
use strata_dialects::build::definition;
use strata_dialects::{Builder, TensorType};
use strata_runtime::DType;

/// Shorter running sums lose less than a bit to rounding.
const LINKS: usize = 4;

/// The pass.
pub static PASS: Pass = Pass {
    name: "widen-sums",
    summary: "keep running sums of f16 and bf16 tensors in f32",
    from: Level::Graph,
    to: Level::Graph,
    exact: false,
    options: &[PassOption {
        name: "numerics",
        default: "default",
        help: "default: long running sums are kept in f32; strict: each is rounded",
    }],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    if cx.strict()? {
        return Ok(());
    }
    for function in ir::functions(module) {
        let Some(body) = ir::body(&function) else { continue };
        for chain in chains(&ir::ops(body)) {
            if chain.len() >= LINKS && cx.may_rewrite() {
                widen(cx, &chain).map_err(|(op, m)| Failure::new(op.location(), m))?;
                cx.count("sums", 1);
                cx.count("links", chain.len() as u64);
            }
        }
    }
    Ok(())
}

/// The running sums among `ops`, each with its links in order: sums of which one is an addend of the next.
fn chains<'c, 'a>(ops: &[OperationRef<'c, 'a>]) -> Vec<Vec<OperationRef<'c, 'a>>> {
    let mut lists: Vec<Vec<OperationRef<'c, 'a>>> = Vec::new();
    let mut list_of: BTreeMap<usize, usize> = BTreeMap::new();
    for op in ops.iter().filter(|op| is_link(op)) {
        let before = op.operands().filter_map(definition).find_map(|d| list_of.get(&address(&d)).copied());
        let list = before.unwrap_or_else(|| {
            lists.push(vec![]);
            lists.len() - 1
        });
        lists[list].push(*op);
        list_of.insert(address(op), list);
    }
    lists
}

fn address(op: &OperationRef<'_, '_>) -> usize {
    op.to_raw().ptr as usize
}

/// A narrow sum that is read by further sums and by conversions to f32, and by nothing that needs it narrow.
fn is_link(op: &OperationRef<'_, '_>) -> bool {
    let narrow = |v: Value<'_, '_>| {
        TensorType::from_mlir(v.r#type()).is_ok_and(|t| matches!(t.dtype, DType::F16 | DType::BF16))
    };
    if ir::name(op) != "graph.add" {
        return false;
    }
    let result: Value<'_, '_> = op.result(0).expect("one result").into();
    let (mut converted, mut only) = (false, narrow(result));
    for user in users(result) {
        // SAFETY: a user of a live value.
        let user = unsafe { OperationRef::from_raw(user) };
        match ir::name(&user) {
            "graph.add" => {}
            "graph.cast" if is_f32(user.result(0).expect("one result").into()) => converted = true,
            _ => only = false,
        }
    }
    only && converted
}

fn is_f32(v: Value<'_, '_>) -> bool {
    TensorType::from_mlir(v.r#type()).is_ok_and(|t| t.dtype == DType::F32)
}

fn widen<'c, 'a>(
    cx: &PassCx<'c>,
    chain: &[OperationRef<'c, 'a>],
) -> Result<(), (OperationRef<'c, 'a>, String)> {
    // What the links became: the narrow value's address → it, and the sum in f32.
    let mut sums: BTreeMap<usize, [Value<'c, 'a>; 2]> = BTreeMap::new();
    for &link in chain {
        let build = || {
            let b = Builder::before(cx.context, link);
            let addend = |i: usize| {
                let v = link.operand(i).expect("two operands");
                sums.get(&(v.to_raw().ptr as usize))
                    .map_or_else(|| b.cast(v, DType::F32), |[_, sum]| Ok(*sum))
            };
            let sum = b.graph1("add", &[addend(0)?, addend(1)?], &[])?;
            let narrow = b.tensor_type(link.result(0).expect("one result").into()).dtype;
            Ok::<_, strata_dialects::Violation>((sum, b.cast(sum, narrow)?))
        };
        let (sum, narrow) = build().map_err(|v| (link, v.to_string()))?;
        for user in users(link.result(0).expect("one result").into()) {
            // SAFETY: a user of a live value.
            let user = unsafe { OperationRef::from_raw(user) };
            if ir::name(&user) == "graph.cast" {
                ir::replace(user, &[sum]);
            }
        }
        ir::replace(link, &[narrow]);
        sums.insert(narrow.to_raw().ptr as usize, [narrow, sum]);
    }
    for cast in sums.values().filter_map(|[narrow, _]| definition(*narrow)).filter(ir::unused) {
        ir::erase(cast.to_raw());
    }
    Ok(())
}
