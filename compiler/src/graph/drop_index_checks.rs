//! `drop-index-checks`: a check of indices that are known to be inside is no work.

use crate::driver::pass::{Failure, Level, Pass, PassCx};
use crate::graph::ranges::Ranges;
use crate::ir;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use strata_dialects::OpView;

/// The pass.
pub static PASS: Pass = Pass {
    name: "drop-index-checks",
    summary: "drop checks of indices whose ranges show that they are inside",
    from: Level::Graph,
    to: Level::Graph,
    exact: true,
    options: &[],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    for function in ir::functions(module) {
        let Some(body) = ir::body(&function) else { continue };
        let checks: Vec<_> =
            ir::ops(body).into_iter().filter(|op| ir::name(op) == "graph.check_index").collect();
        if checks.is_empty() {
            continue;
        }
        let mut ranges = Ranges::of(function).map_err(|m| Failure::new(function.location(), m))?;
        // Users first: what a check is replaced by is then still what the ranges were asked about.
        for op in checks.into_iter().rev() {
            let view = OpView::new(&op).map_err(|m| Failure::new(op.location(), m))?;
            let index = op.operand(0).expect("as viewed");
            if ranges.within(index, &view.dims("size")[0]) && cx.may_rewrite() {
                ir::replace(op, &[index]);
                cx.count("checks", 1);
            }
        }
    }
    Ok(())
}
