//! Sorts of rows of many lengths, with ties, NaN, infinities and both zeros: the loops for both devices interpreted, compiled ones run on
//! this processor, and what ptxas says of the others, against the graph's meaning.

use crate::interp_cases::{Gen, module};
use crate::loop_emission::{TARGETS, to_linalg, to_loops, to_ptx};
use crate::strided::Strided;
use melior::Context;
use melior::ir::Module;
use proptest::prelude::*;
use std::sync::Arc;
use strata_compiler::compile::{Options, compile};
use strata_compiler::interp::{compare, run_function};
use strata_compiler::target::Target;
use strata_dialects::reference::{RefTensor, Rounding, Scalar};
use strata_dialects::{Attr, TensorType};
use strata_runtime::DType;
use strata_runtime::device::cpu::CpuDevice;
use strata_runtime::device::{Device, Stream};
use strata_runtime::exec::{DeviceTensor, Executable};
use strata_runtime::sym::Expr;

const BUDGET: u64 = 50_000_000;

/// What is sorted, and how.
#[derive(Clone, Debug)]
struct Case {
    ty: TensorType,
    dim: usize,
    descending: bool,
    /// Whether the operand is computed in the kernel.
    computed: bool,
    /// Which of the results are returned.
    results: Vec<usize>,
}

fn build<'c>(context: &'c Context, c: &Case) -> Module<'c> {
    // The other argument shows what the symbol of a size is.
    module(context, &[c.ty.clone(), witness()], |b, x| {
        let x = if c.computed && c.ty.dtype != DType::I1 { b.graph1("neg", &x[..1], &[])? } else { x[0] };
        let attrs = [("dim", Attr::Int(c.dim as i64)), ("descending", Attr::Bool(c.descending))];
        let sorted = b.graph("sort", &[x], &attrs)?;
        Ok(c.results.iter().map(|&r| sorted[r]).collect())
    })
    .expect("a valid sort")
}

fn witness() -> TensorType {
    TensorType { dtype: DType::I8, shape: vec![Expr::sym(0)] }
}

/// Few different values, so that many are equal, and what is special among floats.
fn elements(dtype: DType, shape: &[usize], g: &mut Gen) -> RefTensor {
    let spread = [2, 9, 1000][g.below(3)];
    RefTensor::generate(dtype, shape, Rounding::Exact, |_| {
        let n = g.below(spread) as i64 - spread as i64 / 2;
        match g.below(16) {
            0 if dtype.is_float() => Scalar::F(f64::NAN),
            1 if dtype.is_float() => Scalar::F([f64::INFINITY, f64::NEG_INFINITY][g.below(2)]),
            2 if dtype.is_float() => Scalar::F(-0.0),
            _ if dtype.is_float() => Scalar::F(n as f64 / 4.0),
            0 => Scalar::I([i64::MIN, i64::MAX][g.below(2)] >> (64 - 8 * dtype.size())),
            _ if dtype == DType::I1 => Scalar::I(n & 1),
            _ => Scalar::I(n),
        }
    })
}

fn on_this_processor(context: &Context, c: &Case, inputs: &[RefTensor]) -> Vec<RefTensor> {
    let device: Arc<dyn Device> = Arc::new(CpuDevice::new(2).expect("two threads"));
    let mut m = build(context, c);
    let options = Options::new(Target::native());
    let compiled = compile(context, &mut m, &options).unwrap_or_else(|e| panic!("{:?}", e.diagnostics));
    let executable = Executable::new(compiled.artifact, device.clone()).expect("it loads");
    let placed: Vec<Strided> = inputs.iter().map(Strided::contiguous).collect();
    let given: Vec<DeviceTensor> = placed.iter().zip(inputs).map(|(p, t)| p.tensor(&device, t)).collect();
    let results = executable.run(&given).expect("it runs");
    let down = |t: &DeviceTensor| {
        let t = t.download(Stream::default()).expect("memory");
        RefTensor::from_bytes(t.dtype(), t.shape(), t.bytes(), false).expect("the sizes fit")
    };
    results.iter().map(down).collect()
}

fn check(context: &Context, c: &Case, shape: &[usize], symbol: usize, seed: u64) {
    let input = elements(c.ty.dtype, shape, &mut Gen::new(seed));
    let other = RefTensor::generate(DType::I8, &[symbol], Rounding::Exact, |_| Scalar::I(0));
    let inputs = &[input.clone(), other];
    let graph = build(context, c);
    let [exact, float64] = [Rounding::Exact, Rounding::Float64]
        .map(|r| run_function(&graph, "f", inputs, r, BUDGET).expect("the graph has a meaning"));
    let same = |got: &[RefTensor], what: &str| {
        compare(got, &exact, &float64).unwrap_or_else(|e| panic!("{what}: {e}\n{c:?}\n{input}"));
    };
    same(&on_this_processor(context, c, inputs), "compiled");
    if c.results.len() < 2 {
        return;
    }
    let fits = c.ty.shape[c.dim].as_const().is_some();
    for (target, schedule) in [
        (TARGETS[0], r#"{"kind":"sort_tasks","rows":3}"#),
        (TARGETS[1], ""),
        (TARGETS[1], r#"{"kind":"sort","threads":32}"#),
        (TARGETS[1], r#"{"kind":"sort","threads":96,"shared":true}"#),
    ] {
        if schedule.contains("shared") && !fits {
            continue;
        }
        let m = build(context, c);
        to_linalg(context, &m, "strict").expect("linalg");
        to_loops(context, &m, target, schedule).unwrap_or_else(|e| panic!("{target} {schedule}: {e}"));
        let got = run_function(&m, "f", inputs, Rounding::Exact, BUDGET)
            .unwrap_or_else(|e| panic!("{target} {schedule}: {e}\n{}", m.as_operation()));
        same(&got, &format!("{target} {schedule}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_of_any_length(seed: u64, length in 0usize..140, symbolic: bool, dtype in 0usize..10) {
        let context = strata_dialects::context();
        let types: Vec<DType> = DType::ALL.into_iter().filter(|d| !d.is_float8()).collect();
        let mut g = Gen::new(seed);
        let mut shape: Vec<usize> = (0..g.below(3)).map(|_| 1 + g.below(4)).collect();
        let dim = g.below(shape.len() + 1);
        // The symbol s0 is from 1 to 6.
        let symbol = 1 + g.below(6);
        let length = if symbolic { length / symbol * symbol } else { length };
        shape.insert(dim, length);
        let mut sizes: Vec<Expr> = shape.iter().map(|&n| n.into()).collect();
        if symbolic {
            sizes[dim] = Expr::sym(0) * Expr::from(length / symbol);
        }
        let results = if g.chance(3) { vec![g.below(2)] } else { vec![0, 1] };
        let ty = TensorType { dtype: types[dtype], shape: sizes };
        let c = Case { ty, dim, descending: g.chance(2), computed: g.chance(2), results };
        check(&context, &c, &shape, symbol, seed);
    }
}

#[test]
fn rows_as_long_as_runs_and_their_doubles() {
    let context = strata_dialects::context();
    for (i, n) in
        [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1025].into_iter().enumerate()
    {
        let dtype = [DType::F32, DType::I64, DType::F64, DType::BF16, DType::I8][i % 5];
        let ty = TensorType::new(dtype, [2, n as i64]);
        let c = Case { ty, dim: 1, descending: i % 2 == 0, computed: false, results: vec![0, 1] };
        check(&context, &c, &[2, n], 1, i as u64);
    }
}

#[test]
fn both_results_come_from_one_kernel_whose_steps_stay_in_registers() {
    let context = strata_dialects::context();
    for (dtype, shape, schedule) in [
        (DType::F32, [7, 1000], ""),
        (DType::BF16, [3, 12288], ""),
        (DType::F64, [2, 100_000], ""),
        (DType::I1, [64, 64], r#"{"kind":"sort","threads":32}"#),
    ] {
        let c = Case {
            ty: TensorType::new(dtype, shape),
            dim: 1,
            descending: true,
            computed: false,
            results: vec![0, 1],
        };
        let m = build(&context, &c);
        to_linalg(&context, &m, "default").expect("linalg");
        to_loops(&context, &m, TARGETS[1], schedule).expect("loops");
        let ptx = to_ptx(&context, &m).unwrap_or_else(|e| panic!("{dtype}: {e}"));
        assert_eq!(ptx.matches(".entry").count(), 1, "{ptx}");
        assert!(ptx.contains("bar.sync") && !ptx.contains(".local"), "{ptx}");
        if let Some(ptxas) = strata_compiler::gpu::ptxas::find() {
            let report =
                strata_compiler::gpu::ptxas::report(&ptxas, &ptx, "sm_90a").expect("ptxas accepts it");
            // The assembler gives 1024 threads 32 registers each, so that two blocks fit on a processor, and may spill a few values for it.
            assert!(report.spills + report.stack <= 64, "{dtype}: {report:?}");
        }
    }
}

#[test]
fn unfit_schedules_are_refused() {
    let context = strata_dialects::context();
    let ty = |shape: &[Expr]| TensorType { dtype: DType::F32, shape: shape.to_vec() };
    for (shape, target, schedule, reason) in [
        (
            vec![Expr::sym(0)],
            TARGETS[1],
            r#"{"kind":"sort","threads":64,"shared":true}"#,
            "a row of unknown length",
        ),
        (vec![Expr::from(5)], TARGETS[1], r#"{"kind":"sort","threads":40}"#, "threads are a multiple of 32"),
        (vec![Expr::from(5)], TARGETS[0], r#"{"kind":"sort_tasks","rows":0}"#, "tasks have at least one row"),
        (vec![Expr::from(5)], TARGETS[0], r#"{"kind":"sort","threads":64}"#, "it is for the other device"),
        (
            vec![Expr::from(5)],
            TARGETS[0],
            r#"{"kind":"tasks","vector":1,"task":8}"#,
            "sorts have schedules of their own",
        ),
    ] {
        let c = Case { ty: ty(&shape), dim: 0, descending: false, computed: false, results: vec![0, 1] };
        let m = build(&context, &c);
        to_linalg(&context, &m, "default").expect("linalg");
        let e = to_loops(&context, &m, target, schedule).expect_err("refused");
        assert!(e.message.contains(reason) && !e.next.is_empty(), "{e}");
    }
    // One result alone is no kernel: the positions are where the elements are sorted.
    let m = build(
        &context,
        &Case { ty: ty(&[5.into()]), dim: 0, descending: false, computed: false, results: vec![1] },
    );
    to_linalg(&context, &m, "default").expect("linalg");
    let e = to_loops(&context, &m, TARGETS[0], "").expect_err("refused");
    assert!(e.message.contains("both results of one sort"), "{e}");
}
