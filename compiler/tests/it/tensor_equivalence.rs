//! Every op on every element type, with random shapes: the graph interpreter against the lowering to linalg, interpreted.

use crate::interp_cases::{Case, Gen, case, module_of, special};
use melior::Context;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use strata_compiler::driver::pass::{Failure, PassCx};
use strata_compiler::interp::{compare, run_function, signature};
use strata_compiler::target::Target;
use strata_compiler::tensor::graph_to_linalg::PASS;
use strata_dialects::reference::{RefTensor, Rounding};
use strata_dialects::{Lowering, ops};
use strata_runtime::DType;

const BUDGET: u64 = 10_000_000;

/// Runs the pass and the verifier.
pub fn lower<'c>(context: &'c Context, module: &Module<'c>) -> Result<(), Failure> {
    let options = PASS.options.iter().map(|o| (o.name.to_owned(), o.default.to_owned())).collect();
    let target = Target::Cpu { cpu: "x86-64".into(), features: String::new() };
    let cx = PassCx {
        context,
        target,
        options,
        stats: RefCell::new(BTreeMap::new()),
        rewrites: Default::default(),
    };
    (PASS.run)(&cx, module)?;
    assert!(module.as_operation().verify(), "the result does not verify:\n{}", module.as_operation());
    Ok(())
}

fn run(module: &Module<'_>, inputs: &[RefTensor], rounding: Rounding) -> Vec<RefTensor> {
    run_function(module, "f", inputs, rounding, BUDGET)
        .unwrap_or_else(|e| panic!("{e}\ninputs: {}\n{}", text(inputs), module.as_operation()))
}

fn text(tensors: &[RefTensor]) -> String {
    tensors.iter().map(|t| format!("\n  {t}")).collect()
}

/// Compares both levels on one case; false where the random sizes do not make a valid op.
fn check(context: &Context, c: &Case, seed: u64) -> bool {
    let Ok(module) = module_of(context, c) else { return false };
    let s = signature(&module, "f").expect("a function");
    let symbols = s.random_symbols(seed).expect("symbols");
    let positive = s.inputs.iter().flat_map(|t| &t.shape).all(|e| e.eval(&symbols).is_some_and(|n| n >= 0));
    if !positive {
        return false;
    }
    let mut inputs = s.random_tensors(&symbols, seed).expect("tensors");
    // Special values where the op treats elements one by one: a sum with an infinity tells nothing about the rest.
    let by_element = ops::lookup(c.op).is_some_and(|o| o.is_pointwise())
        || ["graph.arg_reduce", "graph.sort"].contains(&c.op);
    if seed % 2 == 1 && by_element {
        inputs = s.inputs.iter().zip(0..).map(|(t, i)| special(t, &symbols, seed + i)).collect();
    }
    let reference = [Rounding::Exact, Rounding::Float64].map(|r| run(&module, &inputs, r));
    let before = module.as_operation().to_string();
    lower(context, &module).unwrap_or_else(|e| panic!("{e}\n{before}"));
    assert_eq!(signature(&module, "f").map(|s| s.inputs), Ok(s.inputs), "the signature changed\n{before}");
    let exact = run(&module, &inputs, Rounding::Exact);
    if let Err(e) = compare(&exact, &reference[0], &reference[1]) {
        panic!("{e}\n{before}\n{}\ninputs:{}", module.as_operation(), text(&inputs));
    }
    true
}

/// All ops of the table that pass `filter`, on all element types. Every op must have had a case.
fn check_all(seed: u64, filter: impl Fn(&str) -> bool) {
    let context = strata_dialects::context();
    for spec in ops::all().filter(|s| matches!(s.lowering, Lowering::Pointwise { .. } | Lowering::Structural))
    {
        if !filter(spec.name) || spec.name == "graph.constant" {
            continue;
        }
        let mut tried = 0;
        for (i, dtype) in DType::ALL.into_iter().enumerate() {
            let mut g = Gen::new(seed ^ (i as u64) << 32);
            // Some random sizes make no valid op, such as an empty dimension to pick from.
            let done = (0..10).find_map(|k| {
                let c = case(spec.name, dtype, &mut g)?;
                check(&context, &c, seed.wrapping_add(k)).then_some(())
            });
            tried += usize::from(done.is_some());
        }
        assert!(tried > 0, "{} has no case", spec.name);
    }
}

fn pointwise(name: &str) -> bool {
    ops::lookup(name).is_some_and(|s| s.is_pointwise())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pointwise_ops(seed: u64) {
        check_all(seed, pointwise);
    }

    #[test]
    fn structural_ops(seed: u64) {
        check_all(seed, |n| !pointwise(n));
    }
}
