//! Faults planted in lowerings are found in a transformer block, and `strata reduce` leaves less than ten ops of it.
//!
//! Three in every run; all of them, with the table of `docs/measured.md`:
//! `cargo nextest run -p strata-mlir-compiler --run-ignored all --no-capture reduced_faults`.

use std::path::Path;
use std::time::Instant;
use strata_compiler::driver::reduce::ending::{Checks, Kind, Way};
use strata_compiler::driver::reduce::{Limits, Oracle, Reduced, reduce};
use strata_compiler::driver::step::steps;

const GRAPH: &str = "decompose-composites,legalize-library-calls,canonicalize,cse,fuse-epilogues,widen-sums,fuse,outline-kernels";

/// A planted fault: the passes before it, itself, the target.
struct Fault {
    before: &'static [&'static str],
    pass: &'static str,
    target: &'static str,
}

const fn fault(before: &'static [&'static str], pass: &'static str, target: &'static str) -> Fault {
    Fault { before, pass, target }
}

const PRODUCTS: &[&str] = &["decompose-composites,legalize-library-calls,canonicalize,cse"];
const GROUPS: &[&str] =
    &["decompose-composites,legalize-library-calls,canonicalize,cse,fuse-epilogues,widen-sums,fuse"];
const KERNELS: &[&str] = &[GRAPH];
const LINALG: &[&str] = &[GRAPH, "graph-to-linalg,cse"];

/// Those of every run first: one of each level.
static FAULTS: &[Fault] = &[
    fault(&[], "test-decompose-layer-norm", "cpu"),
    fault(KERNELS, "test-linalg-swap-subtrahend", "cpu"),
    fault(LINALG, "test-loops-max-for-sum", "nvptx:sm_90a"),
    fault(&[], "test-decompose-softmax", "cpu"),
    fault(&[], "test-decompose-attention", "cpu"),
    fault(PRODUCTS, "test-fuse-epilogues-without-bias", "cpu"),
    fault(GROUPS, "test-outline-kernels-swapped", "cpu"),
    fault(KERNELS, "test-linalg-sum-from-one", "cpu"),
    fault(KERNELS, "test-linalg-slice-from-zero", "cpu"),
    fault(KERNELS, "test-linalg-other-index", "cpu"),
    fault(LINALG, "test-loops-short-loop", "cpu:x86-64-v3"),
    fault(LINALG, "test-loops-drop-last-tile", "nvptx:sm_90a"),
];

fn block() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lit-tests/models/gpt2-block.mlir");
    std::fs::read_to_string(path).expect("the sample is there")
}

fn reduced(fault: &Fault) -> Reduced {
    let pipeline: Vec<&str> = fault.before.iter().copied().chain([fault.pass]).collect();
    let way = Way {
        steps: steps(&pipeline.join(",")).expect("a pipeline"),
        target: fault.target.parse().expect("a target"),
        verify_each: true,
        checks: Checks::Semantics(0),
    };
    let program = block();
    let first = way.send(&program, &mut |_, _| {});
    assert_eq!((first.kind, first.pass.as_deref()), (Kind::Wrong, Some(fault.pass)), "{}", first.message);
    let oracle = Oracle::Wrong { seed: 0 };
    let mut shows = |text: &str| Ok(oracle.shows(&way.send(text, &mut |_, _| {}), Some(&first)));
    let limits = Limits { candidates: 1000, time: None };
    let reduced = reduce(&program, limits, &mut shows, &mut |_| {}).expect("a reduction");
    assert!(reduced.after.ops < 10, "{}: {} ops are left:\n{}", fault.pass, reduced.after.ops, reduced.text);
    assert!(!reduced.limited);
    reduced
}

#[test]
fn faults_in_lowerings_are_reduced_to_less_than_ten_ops() {
    for fault in &FAULTS[..3] {
        reduced(fault);
    }
}

#[test]
#[ignore = "takes a minute"]
fn every_fault_in_a_lowering_is_reduced_to_less_than_ten_ops() {
    println!("| fault | ops before | ops after | programs tried | seconds |\n|---|---|---|---|---|");
    for fault in FAULTS {
        let begun = Instant::now();
        let r = reduced(fault);
        let seconds = begun.elapsed().as_secs_f64();
        println!("| {} | {} | {} | {} | {seconds:.1} |", fault.pass, r.before.ops, r.after.ops, r.tried);
    }
}

#[test]
fn a_reduction_gives_the_same_program_twice() {
    let [first, second] = [(), ()].map(|()| reduced(&FAULTS[0]));
    assert_eq!(first.text, second.text);
    insta::assert_snapshot!(first.text, @r"
    module {
      func.func @block(%arg0: tensor<1x1xf32>) -> tensor<1x1xf32> {
        %0 = graph.layer_norm %arg0 dims = 1 epsilon = 1.000000e-05 : (tensor<1x1xf32>) -> tensor<1x1xf32>
        return %0 : tensor<1x1xf32>
      }
    }
    ");
}
