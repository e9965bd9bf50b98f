//! Every op on every element type, compiled for the CPU and run by the runtime, against the graph interpreter.

use crate::interp_cases::{Case, Gen, case, module_of, special};
use crate::strided::{Strided, random_strides, set_strides};
use melior::Context;
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};
use strata_compiler::compile::{Options, compile};
use strata_compiler::interp::{compare, run_function, signature};
use strata_compiler::target::Target;
use strata_dialects::reference::{RefTensor, Rounding};
use strata_dialects::{Lowering, ops};
use strata_runtime::DType;
use strata_runtime::device::cpu::CpuDevice;
use strata_runtime::device::{Device, Libraries, Stream};
use strata_runtime::exec::{DeviceTensor, Executable};
use strata_runtime::sym::Expr;
use strata_runtime::tensor::HostTensor;

static DEVICE: LazyLock<Arc<CpuDevice>> = LazyLock::new(|| Arc::new(CpuDevice::new(2).expect("two threads")));

fn to_reference(t: &HostTensor) -> RefTensor {
    RefTensor::from_bytes(t.dtype(), t.shape(), t.bytes(), false).expect("the sizes fit")
}

/// Compiles and runs a case; false where the random sizes make no program that can be called.
fn check(context: &Context, c: &Case, seed: u64, options: &Options) -> bool {
    let Ok(mut module) = module_of(context, c) else { return false };
    let s = signature(&module, "f").expect("a function");
    let symbols = s.random_symbols(seed).expect("symbols");
    if !s.inputs.iter().flat_map(|t| &t.shape).all(|e| e.eval(&symbols).is_some_and(|n| n >= 0)) {
        return false;
    }
    let mut inputs = s.random_tensors(&symbols, seed).expect("tensors");
    let by_element = ops::lookup(c.op).is_some_and(|o| o.is_pointwise())
        || ["graph.arg_reduce", "graph.sort"].contains(&c.op);
    if seed % 2 == 1 && by_element {
        inputs = s.inputs.iter().zip(0..).map(|(t, i)| special(t, &symbols, seed + i)).collect();
    }
    let run = |r| run_function(&module, "f", &inputs, r, 10_000_000).unwrap_or_else(|e| panic!("{e}"));
    let reference = [Rounding::Exact, Rounding::Float64].map(run);
    // Two of three times some arguments lie in memory in another order and with gaps.
    let mut g = Gen::new(seed ^ 5);
    let strides: Vec<Option<Vec<Expr>>> = s
        .inputs
        .iter()
        .map(|t| if g.chance(3) { None } else { random_strides(context, t, &mut g) })
        .collect();
    set_strides(context, &module, &strides);
    let before = module.as_operation().to_string();
    let compiled = match compile(context, &mut module, options) {
        Ok(c) => c,
        // A symbol that no argument shows as a plain size has no value in a call.
        Err(e) if e.diagnostics.iter().any(|d| d.to_string().contains("is not the size of any input")) => {
            return false;
        }
        Err(e) => panic!("{:?}\n{before}", e.diagnostics),
    };
    let text = compiled.artifact.plan.to_string();
    let executable =
        Executable::new(compiled.artifact, DEVICE.clone()).unwrap_or_else(|e| panic!("{e}\n{before}"));
    let placed: Vec<Strided> = inputs
        .iter()
        .zip(&strides)
        .map(|(t, strides)| match strides {
            Some(list) => {
                let list: Vec<i64> = list.iter().map(|e| e.eval(&symbols).expect("bound")).collect();
                Strided::new(t, &list)
            }
            None => Strided::contiguous(t),
        })
        .collect();
    let device: Arc<dyn Device> = DEVICE.clone();
    let arguments: Vec<DeviceTensor> =
        placed.iter().zip(&inputs).map(|(p, t)| p.tensor(&device, t)).collect();
    let results = executable
        .run(&arguments)
        .and_then(|r| r.iter().map(|t| t.download(Stream::default())).collect::<Result<Vec<_>, _>>())
        .unwrap_or_else(|e| panic!("{e}\n{before}\n{text}"));
    let results: Vec<RefTensor> = results.iter().map(to_reference).collect();
    if let Err(e) = compare(&results, &reference[0], &reference[1]) {
        let inputs: String = inputs.iter().map(|t| format!("\n  {t}")).collect();
        panic!("{e}\n{before}\n{text}\n{}\ninputs:{inputs}", module.as_operation());
    }
    true
}

fn check_all(seed: u64, options: &Options) {
    let context = strata_dialects::context();
    let mut cases = 0;
    for spec in ops::all().filter(|s| !matches!(s.lowering, Lowering::Plan) && s.name != "graph.constant") {
        let mut tried = 0usize;
        for (i, dtype) in DType::ALL.into_iter().enumerate() {
            let mut g = Gen::new(seed ^ (i as u64) << 32);
            let done = (0..10).find_map(|k| {
                let c = case(spec.name, dtype, &mut g)?;
                check(&context, &c, seed.wrapping_add(k), options).then_some(())
            });
            tried += usize::from(done.is_some());
        }
        cases += tried;
    }
    assert!(cases > 270, "only {cases} pairs of op and type were tried");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_op_compiled_for_this_processor(seed: u64) {
        check_all(seed, &Options::new(Target::native()));
    }

    #[test]
    fn every_op_by_own_kernels_strictly_on_a_common_processor(seed: u64) {
        let target = Target::Cpu { cpu: "x86-64-v3".into(), features: String::new() };
        check_all(seed, &Options { libraries: Libraries::NONE, strict: true, ..Options::new(target) });
    }
}
