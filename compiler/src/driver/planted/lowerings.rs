//! Mistakes in lowerings: the pass does its work, and one thing of it is wrong. Lowerings below loops are not here: no interpreter runs
//! what they leave.

use super::loops::{drop_last_tile, max_for_sum, short_loop};
use super::{array, each, set, swap_operands};
use crate::driver::pass::{Failure, Level, Pass, PassCx};
use crate::graph::{decompose_composites, fuse_epilogues, outline_kernels};
use crate::ir;
use crate::loops::linalg_to_loops;
use crate::tensor::graph_to_linalg;
use melior::ir::Module;
use melior::ir::attribute::DenseI64ArrayAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use strata_dialects::build::definition;
use strata_dialects::{Attr, Builder, OpView};

/// A row: like the lowering, but for its name and what it does.
const fn like(
    from: Level,
    to: Level,
    name: &'static str,
    summary: &'static str,
    run: for<'c> fn(&PassCx<'c>, &Module<'c>) -> Result<(), Failure>,
) -> Pass {
    Pass { from, to, ..super::planted(from, name, summary, run) }
}

/// Runs the lowering, then makes the mistake on what it left. Options have their default values.
fn after<'c>(
    lowering: &'static Pass,
    cx: &PassCx<'c>,
    module: &Module<'c>,
    names: &[&str],
    edit: super::Edit,
) -> Result<(), Failure> {
    let options = lowering.options.iter().map(|o| (o.name.to_owned(), o.default.to_owned())).collect();
    let own = PassCx {
        context: cx.context,
        target: cx.target.clone(),
        options,
        stats: Default::default(),
        rewrites: Default::default(),
    };
    (lowering.run)(&own, module)?;
    each(cx, module, names, edit)
}

use Level::{Graph, Loop, Tensor};

pub(super) static PASSES: &[Pass] = &[
    like(Graph, Graph, "test-decompose-softmax", "mistake: divides the sum by the exponential", |cx, m| {
        after(&decompose_composites::PASS, cx, m, &["graph.div"], |_, op| {
            is_made_by(op, 0, "graph.exp").then(|| swap_operands(op, 0, 1))?
        })
    }),
    like(Graph, Graph, "test-decompose-layer-norm", "mistake: forgets epsilon", |cx, m| {
        after(&decompose_composites::PASS, cx, m, &["graph.rsqrt"], forget_epsilon)
    }),
    like(
        Graph,
        Graph,
        "test-decompose-attention",
        "mistake: shows the future and hides the past",
        |cx, m| {
            after(&decompose_composites::PASS, cx, m, &["graph.compare"], |_, op| {
                is_made_by(op, 0, "graph.iota").then(|| swap_operands(op, 0, 1))?
            })
        },
    ),
    like(Graph, Graph, "test-fuse-epilogues-without-bias", "mistake: loses the bias", |cx, m| {
        after(&fuse_epilogues::PASS, cx, m, &["graph.linear"], lose_bias)
    }),
    like(Graph, Graph, "test-outline-kernels-swapped", "mistake: swaps operands of calls", |cx, m| {
        after(&outline_kernels::PASS, cx, m, &["graph.call"], swap_equal_operands)
    }),
    like(Graph, Tensor, "test-linalg-sum-from-one", "mistake: starts sums at 1", |cx, m| {
        after(&graph_to_linalg::PASS, cx, m, &["linalg.fill"], sum_from_one)
    }),
    like(
        Graph,
        Tensor,
        "test-linalg-swap-subtrahend",
        "mistake: swaps the operands of differences",
        |cx, m| after(&graph_to_linalg::PASS, cx, m, &["arith.subf"], |_, op| swap_operands(op, 0, 1)),
    ),
    like(Graph, Tensor, "test-linalg-slice-from-zero", "mistake: takes slices from the start", |cx, m| {
        after(&graph_to_linalg::PASS, cx, m, &["tensor.extract_slice"], slice_from_zero)
    }),
    like(Graph, Tensor, "test-linalg-other-index", "mistake: counts along the dimension before", |cx, m| {
        after(&graph_to_linalg::PASS, cx, m, &["linalg.index"], |cx, op| {
            let dim = op.attribute("dim").ok()?.to_string();
            let before = dim.split_once(' ')?.0.parse::<i64>().ok()?.checked_sub(1).filter(|d| *d >= 0)?;
            set(cx, op, "dim", &format!("{before} : i64"))
        })
    }),
    like(Tensor, Loop, "test-loops-short-loop", "mistake: ends loops one step early", |cx, m| {
        after(&linalg_to_loops::PASS, cx, m, &["scf.for"], short_loop)
    }),
    like(Tensor, Loop, "test-loops-drop-last-tile", "mistake: leaves out the last iteration", |cx, m| {
        after(&linalg_to_loops::PASS, cx, m, &["scf.forall"], drop_last_tile)
    }),
    like(Tensor, Loop, "test-loops-max-for-sum", "mistake: combines threads' sums by max", |cx, m| {
        after(&linalg_to_loops::PASS, cx, m, &["loop.all_reduce"], max_for_sum)
    }),
];

fn is_made_by(op: OperationRef<'_, '_>, operand: usize, name: &str) -> bool {
    op.operand(operand).ok().and_then(definition).is_some_and(|d| ir::name(&d) == name)
}

fn forget_epsilon<'c>(_: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let sum = definition(op.operand(0).ok()?).filter(|d| ir::name(d) == "graph.add")?;
    let variance = sum.operand(0).ok()?;
    // SAFETY: live handles; the variance stands before the sum and so before its user.
    unsafe {
        use melior::ir::ValueLike;
        mlir_sys::mlirOperationSetOperand(op.to_raw(), 0, variance.to_raw());
    }
    Some(())
}

fn lose_bias<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let view = OpView::new(&op).ok()?;
    let dims = ["lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting"];
    let attrs = dims.map(|n| (n, Attr::Ints(view.ints(n).to_vec())));
    let factors = [op.operand(0).ok()?, op.operand(1).ok()?];
    let product = Builder::before(cx.context, op).graph("dot_general", &factors, &attrs).ok()?;
    ir::replace(op, &product);
    Some(())
}

fn swap_equal_operands<'c>(_: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    use melior::ir::ValueLike;
    let types: Vec<_> = op.operands().map(|v| v.r#type()).collect();
    let pair =
        (0..types.len()).find_map(|i| Some((i, (i + 1..types.len()).find(|j| types[*j] == types[i])?)));
    let (a, b) = pair?;
    swap_operands(op, a, b)
}

fn sum_from_one<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    use melior::ir::ValueLike;
    let start = op.operand(0).ok()?;
    let text = definition(start)?.attribute("value").ok()?.to_string();
    if !text.starts_with("0.0") {
        return None;
    }
    let one = Builder::before(cx.context, op).float(1.0, start.r#type());
    // SAFETY: live handles; the constant stands before its user.
    unsafe { mlir_sys::mlirOperationSetOperand(op.to_raw(), 0, one.to_raw()) };
    Some(())
}

fn slice_from_zero<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>) -> Option<()> {
    let list = DenseI64ArrayAttribute::try_from(op.attribute("static_offsets").ok()?).ok()?;
    let offsets: Vec<i64> = (0..list.len()).map(|i| list.element(i).ok()).collect::<Option<_>>()?;
    // A dynamic offset is an operand and stays.
    let from: Vec<i64> = offsets.iter().map(|o| if *o > 0 { 0 } else { *o }).collect();
    if from == offsets {
        return None;
    }
    set(cx, op, "static_offsets", &array(&from))
}
