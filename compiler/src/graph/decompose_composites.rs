//! `decompose-composites`: rewrites softmax, layer norm and attention in simpler graph ops.

use crate::driver::pass::{Failure, Level, Pass, PassCx};
use crate::ir;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use strata_dialects::{Builder, Lowering, OpView};

/// The pass.
pub static PASS: Pass = Pass {
    name: "decompose-composites",
    summary: "rewrite softmax, layer_norm and attention in simpler graph ops",
    from: Level::Graph,
    to: Level::Graph,
    exact: false,
    options: &[],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    for function in ir::functions(module) {
        let Some(body) = ir::body(&function) else { continue };
        // Decompositions may contain composites themselves: repeat until none is left.
        loop {
            let mut changed = false;
            for op in ir::ops(body) {
                let Some(spec) = strata_dialects::ops::lookup(ir::name(&op)) else { continue };
                let Lowering::Composite(decompose) = spec.lowering else { continue };
                if !cx.may_rewrite() {
                    continue;
                }
                let view = OpView::new(&op).map_err(|m| Failure::new(op.location(), m))?;
                let builder = Builder::before(cx.context, op);
                let operands: Vec<_> = op.operands().collect();
                let results = decompose(&builder, &view, &operands)
                    .map_err(|v| Failure::new(op.location(), format!("{}: {v}", spec.name)))?;
                ir::replace(op, &results);
                cx.count(spec.mnemonic(), 1);
                changed = true;
            }
            if !changed {
                break;
            }
        }
    }
    Ok(())
}
