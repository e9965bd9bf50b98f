//! `--check-semantics` over whole models: every pass of both pipelines.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use strata_compiler::driver::phase::pipeline;
use strata_compiler::driver::run::{Observer, RunConfig, run};
use strata_compiler::driver::semantics::{Checked, Semantics};
use strata_compiler::interp::signature;
use strata_compiler::source::{Input, module};
use strata_compiler::target::Target;

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)
}

/// Checks every step down to loops. `seed`: of the inputs, or one that gives the symbols their least values.
fn check(input: &Input, function: &str, target: &str, seed: Option<u64>) {
    let context = strata_dialects::context();
    let mut program = module(&context, input, function, None).expect("a program");
    let target: Target = target.parse().expect("a target");
    let steps = pipeline(&target, None, Some("loop")).expect("a pipeline");
    let seed = seed.unwrap_or_else(|| {
        let signature = signature(&program, function).expect("an entry function");
        let least: Vec<i64> = signature.symbols.iter().map(|f| f.symbol.min.max(1)).collect();
        let fits = |seed: &u64| signature.random_symbols(*seed).is_ok_and(|values| values == least);
        (0..100).find(fits).expect("a seed")
    });
    let checked = Rc::new(RefCell::new(Checked::default()));
    let mut observers: [Box<dyn Observer>; 1] = [Box::new(Semantics::new(seed, Rc::clone(&checked)))];
    run(&context, &mut program, &steps, &RunConfig::new(target), &mut observers)
        .unwrap_or_else(|stopped| panic!("{}: {:?}", stopped.pipeline, stopped.diagnostics));
    let checked = checked.borrow();
    assert_eq!(checked.skipped, Vec::<String>::new());
    assert_eq!(checked.compared, steps.len() as u64, "one function, so one comparison a step");
}

#[test]
fn no_pass_changes_what_the_demo_computes() {
    let model = Input::read(&path("tools/demo/digits.onnx")).expect("the model is there");
    for target in ["cpu:x86-64-v3", "nvptx:sm_90a"] {
        check(&model, "digits", target, None);
    }
}

/// The block of `lit-tests/models`, edited.
fn block(edit: impl Fn(&str) -> String) -> Input {
    let text =
        std::fs::read_to_string(path("lit-tests/models/gpt2-block.mlir")).expect("the sample is there");
    Input::Mlir(text.lines().map(|line| edit(line) + "\n").collect())
}

#[test]
fn no_pass_changes_what_a_transformer_block_computes() {
    let symbolic = block(str::to_owned);
    let bf16 = block(|line| line.replace("f32", "bf16"));
    // A sequence of six: no symbol, no dynamic size.
    let fixed = block(|line| {
        let types = line.split_once(", #graph.dims<").map_or(line.to_owned(), |(ty, _)| format!("{ty}>"));
        let known = types.replace('?', "6").replace("to <s0", "to <6");
        if known.contains("graph.symbols") { String::new() } else { known }
    });
    for target in ["cpu", "nvptx:sm_90a"] {
        for program in [&symbolic, &bf16, &fixed] {
            check(program, "block", target, Some(1));
        }
    }
}
