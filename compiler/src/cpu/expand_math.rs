//! `expand-math`: elementary functions of CPU kernels become polynomials, narrow floats bit arithmetic where the processor has no
//! instruction, so that objects call no library.

use super::narrow;
use super::processor::Processor;
use crate::driver::pass::{Failure, Level, Pass, PassCx, PassOption};
use crate::ir::{name, ops, replace};
use crate::kernel::{Builder, Val};
use crate::math::{self, Emit, Hardware};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, Module, RegionLike, ValueLike};
use strata_dialects::build::element_type;

/// The pass.
pub static PASS: Pass = Pass {
    name: "expand-math",
    summary: "turn elementary functions and narrow floats of CPU kernels into arithmetic",
    from: Level::Llvm,
    to: Level::Llvm,
    exact: false,
    options: &[PassOption {
        name: "emulate",
        default: "none",
        help: "nvptx: the formulas of GPU kernels with exact stand-ins for the approximate instructions, to measure them",
    }],
    run,
};

/// What the expansions depend on.
#[derive(Clone, Copy)]
struct Choice {
    hw: Hardware,
    f16c: bool,
}

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    let fail = |m: String| Failure::new(module.as_operation().location(), m);
    let processor = Processor::of(&cx.target).map_err(fail)?;
    let hw =
        match cx.option("emulate") {
            "none" => Hardware::Cpu { fma: processor.fma() },
            "nvptx" if processor.fma() => Hardware::NvptxOnCpu,
            "nvptx" => {
                return Err(fail("emulate=nvptx needs fused multiply-add".into())
                    .next("write --target=cpu:x86-64-v3"));
            }
            other => {
                return Err(fail(format!("emulate={other} does not exist"))
                    .next("write emulate=none or emulate=nvptx"));
            }
        };
    let choice = Choice { hw, f16c: processor.f16c() };
    // SAFETY: the body lives as long as the module.
    let body: BlockRef<'c, 'c> = unsafe { BlockRef::from_raw(module.body().to_raw()) };
    for op in ops(body) {
        if name(&op) == "llvm.func" {
            walk(cx, op, choice)?;
            super::narrow_moves::erase_bf16(cx.context, op)?;
        }
    }
    Ok(())
}

fn walk<'c>(cx: &PassCx<'c>, op: OperationRef<'c, 'c>, choice: Choice) -> Result<(), Failure> {
    for r in 0..op.region_count() {
        let mut block = op.region(r).expect("in range").first_block();
        while let Some(b) = block {
            // SAFETY: handles into the module, which outlives the pass.
            let here: BlockRef<'c, 'c> = unsafe { BlockRef::from_raw(b.to_raw()) };
            for inner in ops(here) {
                walk(cx, inner, choice)?;
                rewrite(cx, inner, choice)?;
            }
            block = here.next_in_region();
        }
    }
    Ok(())
}

fn rewrite<'c>(cx: &PassCx<'c>, op: OperationRef<'c, 'c>, choice: Choice) -> Result<(), Failure> {
    let which = name(&op);
    if op.result_count() != 1 || op.operand_count() == 0 {
        return Ok(());
    }
    let b = Builder::before(cx.context, op);
    let operands: Vec<Val<'c>> = op.operands().collect();
    let emit = Emit { b, hw: choice.hw, ty: op.result(0).expect("one result").r#type() };
    let new = match which {
        "vector.reduction" => math::reduction(&emit, op),
        "arith.remf" if matches!(element_type(emit.ty), t if t == b.ty("f32") || t == b.ty("f64")) => {
            Some(math::remainder(&emit, operands[0], operands[1]))
        }
        "arith.extf" => narrow::extend(&emit, operands[0], choice.f16c),
        "arith.truncf" => narrow::truncate(&emit, operands[0], choice.f16c),
        // Upstream folds a truncation into the conversion before it; LLVM has no instruction for that either.
        "arith.sitofp" | "arith.uitofp" => narrow::from_integer(&emit, which, operands[0], choice.f16c),
        _ if which.starts_with("math.") => Some(
            math::expand(&emit, which, &operands)
                .map_err(|m| Failure::new(op.location(), m).next("compute it in f32 or f64"))?,
        ),
        _ => None,
    };
    if let Some(v) = new {
        cx.count("expanded", 1);
        replace(op, &[v]);
    }
    Ok(())
}
