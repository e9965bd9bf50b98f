//! Tests of the pass: what it writes (snapshots), and that what it writes computes the same.

use crate::driver::pass::{Failure, PassCx};
use melior::Context;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Runs the pass over a module's text; the result is verified.
fn lower<'c>(context: &'c Context, text: &str, target: &str, schedule: &str) -> Result<Module<'c>, Failure> {
    let module = Module::parse(context, text).expect("the input parses");
    assert!(module.as_operation().verify(), "the input verifies");
    let cx = PassCx {
        context,
        target: target.parse().expect("a target"),
        options: BTreeMap::from([("schedule".to_owned(), schedule.to_owned())]),
        stats: RefCell::default(),
        rewrites: Default::default(),
    };
    (super::linalg_to_loops::PASS.run)(&cx, &module)?;
    assert!(module.as_operation().verify(), "the output verifies:\n{}", module.as_operation());
    Ok(module)
}

fn snapshot(text: &str, target: &str) -> String {
    let context = strata_dialects::context();
    lower(&context, text, target, "").unwrap_or_else(|e| panic!("{e}")).as_operation().to_string()
}

const GPU: &str = "nvptx:sm_90a";

macro_rules! lit {
    ($name:literal) => {
        include_str!(concat!("../../../../lit-tests/loop/linalg-to-loops-", $name, ".mlir"))
    };
}

#[test]
fn softmax_gpu() {
    insta::assert_snapshot!(snapshot(lit!("softmax"), GPU));
}

#[test]
fn layernorm_gpu() {
    insta::assert_snapshot!(snapshot(lit!("layernorm"), GPU));
}

#[test]
fn bias_gelu_residual_gpu() {
    insta::assert_snapshot!(snapshot(lit!("bias-gelu-residual"), GPU));
}

#[test]
fn sum_rows_gpu() {
    insta::assert_snapshot!(snapshot(lit!("sum-rows"), GPU));
}

const CPU: &str = "cpu:x86-64-v3";

#[test]
fn softmax_cpu() {
    insta::assert_snapshot!(snapshot(lit!("softmax"), CPU));
}

#[test]
fn layernorm_cpu() {
    insta::assert_snapshot!(snapshot(lit!("layernorm"), CPU));
}

#[test]
fn bias_gelu_residual_cpu() {
    insta::assert_snapshot!(snapshot(lit!("bias-gelu-residual"), CPU));
}
