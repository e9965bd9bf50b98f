//! `--check-semantics` over the demo's model: every pass of both pipelines.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use strata_compiler::driver::phase::pipeline;
use strata_compiler::driver::run::{Observer, RunConfig, run};
use strata_compiler::driver::semantics::{Checked, Semantics};
use strata_compiler::interp::signature;
use strata_compiler::source::{Input, module};
use strata_compiler::target::Target;

fn check(model: &str, target: &str) -> Checked {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(model);
    let context = strata_dialects::context();
    let input = Input::read(&path).expect("the model is there");
    let mut program = module(&context, &input, model, path.parent()).expect("it imports");
    let target: Target = target.parse().expect("a target");
    let steps = pipeline(&target, None, Some("loop")).expect("a pipeline");
    // The least batch: the interpreters are slow, and each step runs them four times.
    let signature = signature(&program, "digits").expect("an entry function");
    let least: Vec<i64> = signature.symbols.iter().map(|f| f.symbol.min.max(1)).collect();
    let seed = (0..100).find(|&seed| signature.random_symbols(seed).is_ok_and(|values| values == least));
    let checked = Rc::new(RefCell::new(Checked::default()));
    let mut observers: [Box<dyn Observer>; 1] =
        [Box::new(Semantics::new(seed.expect("a seed"), Rc::clone(&checked)))];
    run(&context, &mut program, &steps, &RunConfig::new(target), &mut observers)
        .unwrap_or_else(|stopped| panic!("{}: {:?}", stopped.pipeline, stopped.diagnostics));
    drop(observers);
    let checked = checked.borrow().clone();
    assert_eq!(
        checked.compared + checked.skipped.len() as u64,
        steps.len() as u64,
        "one function, one comparison a step"
    );
    checked
}

#[test]
fn no_pass_changes_what_the_demo_computes() {
    for target in ["cpu:x86-64-v3", "nvptx:sm_90a"] {
        let checked = check("tools/demo/digits.onnx", target);
        assert_eq!(checked.skipped, Vec::<String>::new(), "{target}");
        assert_eq!(checked.compared, 11, "{target}");
    }
}
