//! `linalg-to-loops` on every op and on random fused programs, for both devices: the loops verify, and computing them gives what the
//! graph gives.

use crate::interp_cases::{Gen, case, module, module_of};
use melior::Context;
use melior::ir::operation::OperationLike;
use melior::ir::{Module, Value};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use strata_compiler::driver::pass::{Failure, PassCx};
use strata_compiler::interp::{compare, run_function, signature};
use strata_compiler::loops::linalg_to_loops::PASS;
use strata_dialects::build::Builder;
use strata_dialects::reference::{RefTensor, Rounding};
use strata_dialects::spec::Violation;
use strata_dialects::{Attr, Lowering, TensorType, ops};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

const BUDGET: u64 = 20_000_000;
pub const TARGETS: [&str; 2] = ["cpu:x86-64-v3", "nvptx:sm_90a"];

/// Runs `graph-to-linalg`.
pub fn to_linalg<'c>(context: &'c Context, module: &Module<'c>, numerics: &str) -> Result<(), Failure> {
    let options = BTreeMap::from([("numerics".to_owned(), numerics.to_owned())]);
    let target = TARGETS[0].parse().expect("a target");
    let cx = PassCx { context, target, options, stats: RefCell::default(), rewrites: Default::default() };
    (strata_compiler::tensor::graph_to_linalg::PASS.run)(&cx, module)
}

/// Runs `linalg-to-loops` and the verifier.
pub fn to_loops<'c>(
    context: &'c Context,
    module: &Module<'c>,
    target: &str,
    schedule: &str,
) -> Result<(), Failure> {
    let options = BTreeMap::from([("schedule".to_owned(), schedule.to_owned())]);
    let cx = PassCx {
        context,
        target: target.parse().expect("a target"),
        options,
        stats: RefCell::default(),
        rewrites: Default::default(),
    };
    (PASS.run)(&cx, module)?;
    assert!(module.as_operation().verify(), "the loops do not verify:\n{}", module.as_operation());
    Ok(())
}

/// Emits for both devices and compares with the graph. False where the sizes do not make a valid program.
pub fn check<'c>(
    context: &'c Context,
    build: impl Fn() -> Result<Module<'c>, Violation>,
    seed: u64,
    numerics: &str,
    schedules: &[(&str, &str)],
) -> bool {
    let Ok(graph) = build() else { return false };
    let s = signature(&graph, "f").expect("a function");
    let symbols = s.random_symbols(seed).expect("symbols");
    if !s.inputs.iter().flat_map(|t| &t.shape).all(|e| e.eval(&symbols).is_some_and(|n| n >= 0)) {
        return false;
    }
    let inputs = s.random_tensors(&symbols, seed).expect("tensors");
    let run = |m: &Module<'c>, r| run_function(m, "f", &inputs, r, BUDGET);
    let (Ok(exact), Ok(float64)) = (run(&graph, Rounding::Exact), run(&graph, Rounding::Float64)) else {
        return false;
    };
    for &(target, schedule) in schedules {
        let m = build().expect("built before");
        let before = m.as_operation().to_string();
        to_linalg(context, &m, numerics).unwrap_or_else(|e| panic!("{e}\n{before}"));
        let tensor = m.as_operation().to_string();
        to_loops(context, &m, target, schedule)
            .unwrap_or_else(|e| panic!("{target}: {e}\n{before}\n{tensor}"));
        let got = match run(&m, Rounding::Exact) {
            // Reductions of different shapes inside of each other are computed again for every element: right, but long.
            Err(e) if e.message.contains("budget") => continue,
            r => r.unwrap_or_else(|e| panic!("{target}: {e}\n{before}\n{tensor}\n{}", m.as_operation())),
        };
        if let Err(e) = compare(&got, &exact, &float64) {
            let shown: String = inputs.iter().map(|t: &RefTensor| format!("\n  {t}")).collect();
            panic!("{target}: {e}\n{before}\n{tensor}\n{}\ninputs:{shown}", m.as_operation());
        }
    }
    true
}

const CHOSEN: [(&str, &str); 2] = [(TARGETS[0], ""), (TARGETS[1], "")];

type Built<'c, 'a> = Result<Value<'c, 'a>, Violation>;

/// Applies a random op to `v`; `seen` are the values so far.
fn step<'c, 'a>(
    b: &Builder<'c, 'a>,
    g: &mut Gen,
    v: Value<'c, 'a>,
    seen: &[Value<'c, 'a>],
    x: &[Value<'c, 'a>],
    compares: bool,
) -> Built<'c, 'a> {
    let ty = b.tensor_type(v);
    let rank = ty.rank();
    let some_dim = |g: &mut Gen| g.below(rank);
    let float = ty.dtype.is_float();
    Ok(match g.below(12) {
        0 if float => b.graph1(["exp", "tanh", "neg", "abs"][g.below(4)], &[v], &[])?,
        1 | 2 => {
            let other =
                seen.iter().rev().find(|o| **o != v && b.tensor_type(**o) == ty).copied().unwrap_or(v);
            b.graph1(["add", "mul", "sub", "max"][g.below(4)], &[v, other], &[])?
        }
        3 | 4 if rank > 0 && ty.dtype != DType::I1 => {
            let dims: Vec<usize> = match g.below(3) {
                0 => vec![rank - 1],
                1 => vec![some_dim(g)],
                _ => (0..rank).filter(|_| g.chance(2)).collect(),
            };
            let list = dims.iter().map(|&d| d as i64).collect();
            let kind = Attr::Enum(g.below(3) as i32);
            let r = b.graph1("reduce", &[v], &[("kind", kind), ("dims", Attr::Ints(list))])?;
            let kept: Vec<usize> = (0..rank).filter(|d| !dims.contains(d)).collect();
            let back = b.broadcast(r, &kept, &ty.shape)?;
            b.graph1("sub", &[v, back], &[])?
        }
        5 if rank > 1 => {
            let mut p: Vec<i64> = (0..rank as i64).collect();
            let (i, j) = (some_dim(g), some_dim(g));
            p.swap(i, j);
            b.graph1("transpose", &[v], &[("permutation", Attr::Ints(p))])?
        }
        6 if rank > 0 => {
            let amount = |g: &mut Gen| (0..rank).map(|_| Expr::from(g.below(3))).collect::<Vec<_>>();
            let zero = b.number(ty.dtype, 1.0)?;
            let (low, high) = (amount(g), amount(g));
            b.graph1("pad", &[v, zero], &[("low", Attr::Dims(low)), ("high", Attr::Dims(high))])?
        }
        7 if rank > 0 => {
            let d = some_dim(g);
            let mut starts = vec![Expr::from(0); rank];
            let mut strides = vec![1; rank];
            // The start stays inside, whatever the size is.
            starts[d] = if ty.shape[d].as_const().is_some_and(|n| n > 2) { g.below(2) } else { 0 }.into();
            strides[d] = 1 + g.below(2) as i64;
            let attrs = [
                ("starts", Attr::Dims(starts)),
                ("limits", Attr::Dims(ty.shape.clone())),
                ("strides", Attr::Ints(strides)),
            ];
            b.graph1("slice", &[v], &attrs)?
        }
        8 if rank > 0 => b.graph1("concat", &[v, v], &[("dim", Attr::Int(some_dim(g) as i64))])?,
        9 if rank > 0 => b.graph1("gather", &[v, x[1]], &[("dim", Attr::Int(some_dim(g) as i64))])?,
        10 if rank > 1 => {
            let d = g.below(rank - 1);
            let mut shape = ty.shape.clone();
            let inner = shape.remove(d + 1);
            shape[d] = shape[d].clone() * inner;
            b.reshape(v, &shape)?
        }
        11 if float && compares => {
            let c = b.graph1("compare", &[v, seen[0]], &[("direction", Attr::Enum(g.below(6) as i32))]);
            match c {
                Ok(c) => b.graph1("select", &[c, v, seen[0]], &[])?,
                Err(_) => b.cast(v, [DType::F32, DType::BF16, DType::F16][g.below(3)])?,
            }
        }
        _ => v,
    })
}

/// A random program of several ops, one or two results.
fn program<'c>(
    context: &'c Context,
    seed: u64,
    dtype: DType,
    extent: usize,
    compares: bool,
) -> Result<Module<'c>, Violation> {
    let mut g = Gen::new(seed);
    let rank = 1 + g.below(3);
    let mut shape: Vec<Expr> = (0..rank)
        .map(|_| if g.chance(4) { Expr::sym(g.below(2) as u32) } else { (1 + g.below(5)).into() })
        .collect();
    if g.chance(2) {
        shape[rank - 1] = (extent + g.below(extent)).into();
    }
    let x = [TensorType { dtype, shape }, TensorType::new(DType::I64, [3i64])];
    module(context, &x, |b, x| {
        let mut seen = vec![x[0]];
        let mut v = x[0];
        let n = 2 + g.below(5);
        for _ in 0..n {
            v = step(b, &mut g, v, &seen, x, compares)?;
            seen.push(v);
        }
        let mut out = vec![v];
        if g.chance(3) {
            out.push(seen[g.below(seen.len())]);
        }
        out.retain(|o| *o != x[0]);
        Ok(if out.is_empty() { vec![b.graph1("add", &[v, v], &[])?] } else { out })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_op(seed: u64) {
        let context = strata_dialects::context();
        for spec in ops::all().filter(|s| matches!(s.lowering, Lowering::Pointwise { .. } | Lowering::Structural)) {
            if spec.name == "graph.constant" {
                continue;
            }
            for (i, dtype) in DType::ALL.into_iter().enumerate() {
                // A sum in another order is another sum: in f64 there is no more accurate run to measure both by.
                if dtype == DType::F64 && !spec.is_pointwise() {
                    continue;
                }
                let mut g = Gen::new(seed ^ (i as u64) << 32);
                for k in 0..10 {
                    let Some(c) = case(spec.name, dtype, &mut g) else { break };
                    if check(&context, || module_of(&context, &c), seed.wrapping_add(k), "default", &CHOSEN) {
                        break;
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fused_programs(seed: u64) {
        let context = strata_dialects::context();
        const TYPES: [DType; 7] =
            [DType::F32, DType::BF16, DType::F16, DType::I32, DType::I8, DType::U8, DType::I16];
        let dtype = TYPES[(seed % 7) as usize];
        let numerics = ["strict", "default"][(seed / 7 % 2) as usize];
        // A comparison of values that were not rounded may come out in another way, and the results are then not close.
        let compares = numerics == "strict" || dtype == DType::F32;
        check(&context, || program(&context, seed, dtype, 16, compares), seed, numerics, &CHOSEN);
    }
}

/// Compiles loop-level kernels for the GPU.
pub fn to_ptx<'c>(context: &'c Context, module: &Module<'c>) -> Result<String, Failure> {
    use crate::support::run_pass;
    run_pass(context, module, &strata_compiler::gpu::loop_to_gpu::PASS, TARGETS[1])?;
    run_pass(context, module, &strata_compiler::gpu::math_to_nvvm::PASS, TARGETS[1])?;
    let kernels = strata_compiler::gpu::codegen::compile_kernels(context, module, "sm_90a")?;
    Ok(kernels.into_iter().map(|k| k.ptx).collect())
}

/// The whole way down to PTX: what ptxas says of the kernels that have to reach the rate of memory.
#[test]
fn row_kernels_keep_their_rows_in_registers() {
    for (name, loads, stores) in [("softmax", 4, 4), ("layernorm", 12, 4), ("sum-rows", 4, 0)] {
        let path = format!("{}/../lit-tests/loop/linalg-to-loops-{name}.mlir", env!("CARGO_MANIFEST_DIR"));
        let context = strata_dialects::context();
        let text = std::fs::read_to_string(path).expect("the lit test");
        let module = Module::parse(&context, &text).expect("it parses");
        to_loops(&context, &module, TARGETS[1], "").unwrap_or_else(|e| panic!("{name}: {e}"));
        let ptx = to_ptx(&context, &module).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(ptx.matches("ld.global.nc.v4").count(), loads, "{name}\n{ptx}");
        assert_eq!(ptx.matches("st.global.v4").count(), stores, "{name}\n{ptx}");
        assert!(!ptx.contains(".local"), "{name}: local memory\n{ptx}");
        if let Some(ptxas) = strata_compiler::gpu::ptxas::find() {
            let report =
                strata_compiler::gpu::ptxas::report(&ptxas, &ptx, "sm_90a").expect("ptxas accepts it");
            assert_eq!((report.spills, report.stack), (0, 0), "{name}: {report:?}");
            println!("{name}: {report:?}");
        }
    }
}

/// Softmax along the last dimension and a column-affine, by hand: two stages and an output.
fn normalised<'c>(context: &'c Context, dtype: DType, shape: &[Expr]) -> Result<Module<'c>, Violation> {
    let rank = shape.len();
    let x = TensorType { dtype, shape: shape.to_vec() };
    let w = TensorType { dtype, shape: shape[rank - 1..].to_vec() };
    module(context, &[x, w], |b, x| {
        let kept: Vec<usize> = (0..rank - 1).collect();
        let dims = || Attr::Ints(vec![rank as i64 - 1]);
        let wide = b.cast(x[0], DType::F32)?;
        let reduced = |v, kind| {
            let r = b.graph1("reduce", &[v], &[("kind", Attr::Enum(kind)), ("dims", dims())])?;
            Ok::<_, Violation>((r, b.broadcast(r, &kept, shape)?))
        };
        let e = b.graph1("exp", &[b.graph1("sub", &[wide, reduced(wide, 1)?.1], &[])?], &[])?;
        let (sum, back) = reduced(e, 0)?;
        let y = b.graph1("div", &[e, back], &[])?;
        let scale = b.broadcast(b.cast(x[1], DType::F32)?, &[rank - 1], shape)?;
        let y = b.cast(b.graph1("mul", &[y, scale], &[])?, dtype)?;
        Ok(vec![y, sum])
    })
}

/// In the default numerics a value keeps its extra digits in every stage or in none: the largest element of a row, less itself, is 0.
#[test]
fn a_kept_value_is_the_same_in_every_stage() {
    let context = strata_dialects::context();
    let shape = [Expr::from(3), 64.into()];
    for dtype in [DType::BF16, DType::F16] {
        for (target, _) in CHOSEN {
            let x = TensorType { dtype, shape: shape.to_vec() };
            let m = module(&context, &[x], |b, x| {
                let e = b.graph1("exp", &[x[0]], &[])?;
                let attrs = [("kind", Attr::Enum(1)), ("dims", Attr::Ints(vec![1]))];
                let largest = b.broadcast(b.graph1("reduce", &[e], &attrs)?, &[0], &shape)?;
                Ok(vec![b.graph1("sub", &[e, largest], &[])?])
            })
            .expect("a module");
            let s = signature(&m, "f").expect("a function");
            let inputs = s.random_tensors(&[], 3).expect("tensors");
            to_linalg(&context, &m, "default").expect("linalg");
            to_loops(&context, &m, target, "").unwrap_or_else(|e| panic!("{target}: {e}"));
            let got = run_function(&m, "f", &inputs, Rounding::Exact, BUDGET).expect("it runs");
            for row in got[0].floats().chunks(64) {
                let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                assert_eq!(largest, 0.0, "{target} {dtype}: {row:?}\n{}", m.as_operation());
            }
        }
    }
}

#[test]
fn row_schedules_agree() {
    let context = strata_dialects::context();
    let s0 = || Expr::sym(0);
    let gpu = |text: &str| (TARGETS[1], text.to_owned());
    let cpu = |text: &str| (TARGETS[0], text.to_owned());
    let rows = |vector: i64, threads: i64, rows: i64, looped: bool| {
        gpu(&format!(
            r#"{{"kind":"rows","vector":{vector},"threads":{threads},"rows":{rows},"looped":{looped}}}"#
        ))
    };
    let mut seed = 0;
    let mut checked = 0;
    for (shape, vector) in [
        (vec![Expr::from(5), 600.into()], 8),
        (vec![3.into(), 1037.into()], 1),
        (vec![s0(), 264.into()], 4),
        (vec![s0(), Expr::sym(1), 48.into()], 2),
        (vec![2.into(), s0() * Expr::from(40)], 8),
        (vec![3.into(), s0() * Expr::from(7) + Expr::from(1)], 1),
        (vec![3.into(), 0.into()], 1),
    ] {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let known = shape.last().is_some_and(|n| n.as_const().is_some());
            let mut all = vec![cpu(""), gpu(""), rows(vector, 64, 1, true), rows(1, 32, 3, true)];
            all.extend(
                [1, 16].map(|v| cpu(&format!(r#"{{"kind":"row_tasks","vector":{v},"rows":2,"unroll":2}}"#))),
            );
            if known {
                all.extend([
                    rows(vector, 32, 1, false),
                    rows(1, 32, 2, false),
                    rows(vector, 128, 1, false),
                    rows(vector, 1024, 1, false),
                ]);
            }
            let list: Vec<(&str, &str)> = all.iter().map(|(t, s)| (*t, s.as_str())).collect();
            seed += 1;
            checked +=
                usize::from(check(&context, || normalised(&context, dtype, &shape), seed, "default", &list));
        }
    }
    assert_eq!(checked, 21, "every case is checked");
}

#[test]
fn unfit_schedules_are_refused() {
    let context = strata_dialects::context();
    let shape = [Expr::from(4), 30.into()];
    for (target, schedule, reason) in [
        (
            TARGETS[1],
            r#"{"kind":"rows","vector":8,"threads":32,"rows":1}"#,
            "30 is not known to be a multiple of 8",
        ),
        (
            TARGETS[1],
            r#"{"kind":"rows","vector":2,"threads":64,"rows":2}"#,
            "several rows a block need 32 threads a row",
        ),
        (
            TARGETS[0],
            r#"{"kind":"pointwise","vector":2,"threads":64,"per_thread":1}"#,
            "it is for the other device",
        ),
        (TARGETS[1], r#"{"kind":"columns"}"#, "the option schedule is not a schedule"),
    ] {
        let m = normalised(&context, DType::F32, &shape).expect("a module");
        to_linalg(&context, &m, "default").expect("linalg");
        let e = to_loops(&context, &m, target, schedule).expect_err("refused");
        assert!(e.message.contains(reason), "{e}");
        assert_eq!(e.location, "case.py:7:3");
        assert!(!e.next.is_empty());
    }
}
