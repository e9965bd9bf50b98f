//! `fuse-epilogues`: a product and the bias added to it become one `linear`, which a library does in one call.
//!
//! law: `dot_general(a, b) + broadcast(v) = linear(a, b, v)` for a vector v along the last dimension, where nothing else reads the product.
//! The sum is rounded once, so this is not for `strict` numerics; and it is not for own kernels, which fuse on the tensor level.

use crate::driver::pass::{Failure, Level, Pass, PassCx, PassOption};
use crate::graph::users;
use crate::ir;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Module, Value, ValueLike};
use strata_dialects::build::definition;
use strata_dialects::ops::products::free_dims;
use strata_dialects::{Attr, Builder, OpView, TensorType};
use strata_runtime::DType;
use strata_runtime::device::Libraries;

/// The pass.
pub static PASS: Pass = Pass {
    name: "fuse-epilogues",
    summary: "make one library call of a product and the bias added to it",
    from: Level::Graph,
    to: Level::Graph,
    exact: false,
    options: &[
        PassOption {
            name: "numerics",
            default: "default",
            help: "default: the product is not rounded before the bias is added; strict: nothing is fused",
        },
        PassOption {
            name: "libraries",
            default: "all",
            help: "none, convolutions: nothing is fused, products become own kernels",
        },
    ],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    if cx.strict()? || !cx.parsed::<Libraries>("libraries")?.products {
        return Ok(());
    }
    for function in ir::functions(module) {
        let Some(body) = ir::body(&function) else { continue };
        // Backwards, so that what becomes unused is met after its users.
        for op in ir::ops(body).into_iter().rev() {
            match ir::name(&op) {
                "graph.add" => bias(cx, op).map_err(|m| Failure::new(op.location(), m))?,
                "graph.dot_general" | "graph.broadcast" | "graph.cast" if ir::unused(&op) => {
                    ir::erase(op.to_raw())
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A sum of a product and a vector.
struct Sum<'c, 'a> {
    product: OperationRef<'c, 'a>,
    vector: Value<'c, 'a>,
}

fn bias<'c>(cx: &PassCx<'c>, add: OperationRef<'c, '_>) -> Result<(), String> {
    let Some(sum) = sum_of(add)?.filter(|_| cx.may_rewrite()) else { return Ok(()) };
    let view = OpView::new(&sum.product)?;
    let mut values = [operand(&sum.product, 0), operand(&sum.product, 1), sum.vector];
    let mut replaced = add;
    // The same in f32 between conversions, as `linear` decomposes: the library computes in f32 anyway.
    if let Some((narrow, last)) = narrowed(&values, add) {
        (values, replaced) = (narrow, last);
    }
    let dims = ["lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting"];
    let attrs = dims.map(|n| (n, Attr::Ints(view.ints(n).to_vec())));
    let builder = Builder::before(cx.context, replaced).at(sum.product.location());
    let result = builder.graph("linear", &values, &attrs).map_err(|v| v.to_string())?;
    ir::replace(replaced, &result);
    if replaced.to_raw().ptr != add.to_raw().ptr {
        ir::erase(add.to_raw());
    }
    cx.count("biases", 1);
    Ok(())
}

fn sum_of<'c, 'a>(add: OperationRef<'c, 'a>) -> Result<Option<Sum<'c, 'a>>, String> {
    for (a, b) in [(0, 1), (1, 0)] {
        let (Some(product), Some(repeated)) = (definition(operand(&add, a)), definition(operand(&add, b)))
        else {
            continue;
        };
        if ir::name(&product) != "graph.dot_general" || ir::name(&repeated) != "graph.broadcast" {
            continue;
        }
        let (view, broadcast) = (OpView::new(&product)?, OpView::new(&repeated)?);
        let read_once = users(product.result(0).expect("one result").into()).len() == 1;
        // A vector of one element that is repeated along the last dimension is no bias of a library's.
        let along_last = broadcast.indices("dims") == [view.results[0].rank().wrapping_sub(1)]
            && broadcast.operands[0].shape.last() == view.results[0].shape.last();
        if view.operands[0].dtype.is_float() && read_once && along_last && free_dims(&view).1.len() == 1 {
            return Ok(Some(Sum { product, vector: operand(&repeated, 0) }));
        }
    }
    Ok(None)
}

/// What the values are conversions of, and the conversion of the sum back to that type, where all of that is so.
fn narrowed<'c, 'a>(
    values: &[Value<'c, 'a>; 3],
    add: OperationRef<'c, 'a>,
) -> Option<([Value<'c, 'a>; 3], OperationRef<'c, 'a>)> {
    let list = users(add.result(0).expect("one result").into());
    let [user] = list.as_slice() else { return None };
    // SAFETY: the only user of a live value, in the same function.
    let last = unsafe { OperationRef::from_raw(*user) };
    if ir::name(&last) != "graph.cast" {
        return None;
    }
    let dtype = |v: Value<'c, 'a>| TensorType::from_mlir(v.r#type()).ok().map(|t| t.dtype);
    let narrow = dtype(last.result(0).expect("one result").into())?;
    let source = |v: Value<'c, 'a>| {
        let cast = definition(v).filter(|op| ir::name(op) == "graph.cast")?;
        Some(operand(&cast, 0)).filter(|s| dtype(*s) == Some(narrow))
    };
    let sources = [source(values[0])?, source(values[1])?, source(values[2])?];
    matches!(narrow, DType::F16 | DType::BF16).then_some((sources, last))
}

fn operand<'c, 'a>(op: &OperationRef<'c, 'a>, i: usize) -> Value<'c, 'a> {
    op.operand(i).expect("checked by the verifier")
}
