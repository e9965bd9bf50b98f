//! Passes that misbehave on purpose: the driver's own tests run them. Listed by `--list-passes=all` only.

use crate::driver::pass::{Failure, Level, Pass, PassCx, PassOption};
use crate::driver::planted;
use crate::ir;
use melior::ir::operation::{OperationBuilder, OperationLike};
use melior::ir::{BlockLike, Location, Module, ValueLike};

/// Every one of them, and those of [`planted`].
pub fn all() -> impl Iterator<Item = &'static Pass> {
    MISBEHAVING.iter().copied().chain(planted::all())
}

static MISBEHAVING: &[&Pass] = &[&FAIL, &PANIC, &ABORT, &OVERFLOW, &HANG, &BREAK_IR, &WRONG_RESULT];

const fn pass(
    name: &'static str,
    summary: &'static str,
    run: for<'c> fn(&PassCx<'c>, &Module<'c>) -> Result<(), Failure>,
) -> Pass {
    Pass { name, summary, from: Level::Graph, to: Level::Graph, exact: true, options: &[], run }
}

static FAIL: Pass = Pass {
    options: &[PassOption { name: "message", default: "test-fail fails", help: "what the diagnostic says" }],
    ..pass("test-fail", "fails at the first op of the first function", fail)
};

static PANIC: Pass = pass("test-panic", "panics", |_, _| panic!("test-panic panics"));

static ABORT: Pass = pass("test-abort", "aborts the process, as LLVM does", |_, _| std::process::abort());

static OVERFLOW: Pass = pass("test-overflow", "overflows the stack", |_, _| {
    std::hint::black_box(deeper(0));
    Ok(())
});

static HANG: Pass = pass("test-hang", "never ends", |_, _| {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
});

static BREAK_IR: Pass =
    pass("test-break-ir", "makes the first op of a function with operands use itself", break_ir);

static WRONG_RESULT: Pass = pass("test-wrong-result", "turns graph.add into graph.sub", wrong_result);

fn fail<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    let function = ir::functions(module).into_iter().next();
    let op = function.and_then(|f| ir::ops(ir::body(&f)?).into_iter().next());
    let location = op.map_or_else(|| Location::unknown(cx.context), |op| op.location());
    Err(Failure::new(location, cx.option("message")).next("take test-fail out of the pipeline"))
}

fn deeper(n: u64) -> u64 {
    let here = std::hint::black_box([n; 64]);
    if n == u64::MAX { 0 } else { deeper(n + 1) + here[(n % 64) as usize] }
}

fn break_ir<'c>(_: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    for function in ir::functions(module) {
        let ops = ir::body(&function).map(ir::ops).unwrap_or_default();
        if let Some(op) = ops.iter().find(|op| op.operand_count() > 0 && op.result_count() > 0) {
            // SAFETY: live handles; the verifier refuses what results, which is the point.
            unsafe {
                let own = mlir_sys::mlirOperationGetResult(op.to_raw(), 0);
                mlir_sys::mlirOperationSetOperand(op.to_raw(), 0, own);
            }
        }
    }
    Ok(())
}

fn wrong_result<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    for function in ir::functions(module) {
        for op in ir::body(&function).map(ir::ops).unwrap_or_default() {
            if ir::name(&op) != "graph.add" {
                continue;
            }
            let (Ok(a), Ok(b)) = (op.operand(0), op.operand(1)) else { continue };
            let sub = OperationBuilder::new("graph.sub", op.location())
                .add_operands(&[a, b])
                .add_results(&[a.r#type()])
                .build()
                .map_err(|e| Failure::new(op.location(), e.to_string()))?;
            let block = op.block().expect("an op of a function is in a block");
            let sub = block.insert_operation_before(op, sub);
            let value = sub.result(0).expect("has one result").into();
            ir::replace(op, &[value]);
            cx.count("ops made wrong", 1);
        }
    }
    Ok(())
}
