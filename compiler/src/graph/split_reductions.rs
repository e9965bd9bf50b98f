//! `split-reductions`: a long reduction with few results, such as the mean of a loss, becomes one of its parts and one of their results (CPU).
//!
//! law: `reduce(x) = reduce(reduce(x as parts))` for every kind of reduction, which is associative but for rounding. Tasks of the thread pool do not
//! wait for each other, so that one kernel would leave all but as many threads idle as it has results. On a GPU blocks share such a reduction
//! (schedule `long_rows`). Sums of f16 and bf16 stay in f32 between the two, and are rounded once.

use crate::driver::pass::{Failure, Level, Pass, PassCx};
use crate::ir;
use melior::ir::Module;
use melior::ir::operation::{OperationLike, OperationRef};
use strata_dialects::{Attr, Builder, OpView, Violation};
use strata_runtime::plan::DeviceKind;
use strata_runtime::sym::Expr;

/// More results than these keep the threads of most processors busy.
const FEW: i64 = 32;
/// Elements of a part at least: some microseconds of work.
const LEAST: i64 = 8192;
/// Parts of a reduction at most.
const MOST_PARTS: i64 = 256;
/// Elements of the longest vector: parts of whole vectors need no loop for the rest.
const VECTOR: i64 = 16;

/// The pass.
pub static PASS: Pass = Pass {
    name: "split-reductions",
    summary: "reduce long rows in parts, where there are too few rows for the threads of a CPU",
    from: Level::Graph,
    to: Level::Graph,
    exact: false,
    options: &[],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    if cx.target.device() != DeviceKind::Cpu {
        return Ok(());
    }
    for function in ir::functions(module) {
        let Some(body) = ir::body(&function) else { continue };
        for op in ir::ops(body) {
            if ir::name(&op) == "graph.reduce" {
                let view = OpView::new(&op).map_err(|m| Failure::new(op.location(), m))?;
                let Some(parts) = parts(&view).filter(|_| cx.may_rewrite()) else { continue };
                split(cx, op, &view, parts).map_err(|v| Failure::new(op.location(), v.to_string()))?;
                cx.count("reductions", 1);
            }
        }
    }
    Ok(())
}

/// In how many parts a reduction is split, if it is: one of the innermost dimensions, with few results.
fn parts(view: &OpView) -> Option<i64> {
    let (shape, dims) = (&view.operands[0].shape, view.indices("dims"));
    let first = *dims.first()?;
    if dims.iter().copied().ne(first..shape.len()) {
        return None;
    }
    let size = |list: &[Expr]| list.iter().cloned().product::<Expr>().as_const();
    let (results, length) = (size(&shape[..first])?, size(&shape[first..])?);
    let fits = |p: &i64| length % (p * VECTOR) == 0 && length / p >= LEAST;
    let sizes = std::iter::successors(Some(MOST_PARTS), |p| Some(p / 2)).take_while(|p| *p > 1);
    if results > FEW { None } else { sizes.into_iter().find(fits) }
}

fn split<'c>(cx: &PassCx<'c>, op: OperationRef<'c, '_>, view: &OpView, parts: i64) -> Result<(), Violation> {
    let b = Builder::before(cx.context, op).at(op.location());
    let (whole, narrow) = (&view.operands[0], view.results[0].dtype);
    let first = view.indices("dims")[0];
    let wide = if narrow.is_float() { narrow.accumulator() } else { narrow };
    let length: Expr = whole.shape[first..].iter().cloned().product();
    let mut shape = whole.shape[..first].to_vec();
    shape.extend([parts.into(), length.floor_div(&parts.into())]);
    let kind = view.attr("kind").cloned().expect("a reduction has a kind");
    let reduced = |v, dim: usize| {
        b.graph1("reduce", &[v], &[("kind", kind.clone()), ("dims", Attr::Ints(vec![dim as i64]))])
    };
    let x = b.cast(op.operand(0).expect("one operand"), wide)?;
    let x = b.reshape(x, &shape)?;
    let y = reduced(reduced(x, first + 1)?, first)?;
    let y = b.cast(y, narrow)?;
    ir::replace(op, &[y]);
    Ok(())
}
