//! Operands that cross the order of the results: many shapes, element types and tiles, against the graph's meaning, and what becomes of their
//! accesses.

use crate::interp_cases::module;
use crate::loop_emission::{TARGETS, check, to_linalg, to_loops, to_ptx};
use melior::Context;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use strata_compiler::gpu::ptxas;
use strata_dialects::spec::Violation;
use strata_dialects::{Attr, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// `f(a + permuted b)`, and that times two where `two` results are asked for; `shape` is the results'.
fn build<'c>(
    context: &'c Context,
    dtype: DType,
    shape: &[Expr],
    permutation: &[i64],
    two: bool,
) -> Result<Module<'c>, Violation> {
    let mut from = shape.to_vec();
    permutation.iter().enumerate().for_each(|(d, &p)| from[p as usize] = shape[d].clone());
    let a = TensorType { dtype, shape: shape.to_vec() };
    let b = TensorType { dtype, shape: from };
    module(context, &[a, b], |g, x| {
        let t = g.graph1("transpose", &[x[1]], &[("permutation", Attr::Ints(permutation.to_vec()))])?;
        if dtype == DType::I1 {
            return Ok(vec![g.graph1("and", &[x[0], t], &[])?]);
        }
        let y = g.graph1("sub", &[x[0], t], &[])?;
        Ok(if two { vec![y, g.graph1("add", &[y, t], &[])?] } else { vec![g.graph1("neg", &[y], &[])?] })
    })
}

fn tiles(tile: i64, vector: i64, read: i64, threads: i64) -> String {
    format!(r#"{{"kind":"tiles","tile":{tile},"vector":{vector},"read":{read},"threads":{threads}}}"#)
}

fn tile_tasks(vector: i64, along: i64, across: i64) -> String {
    format!(r#"{{"kind":"tile_tasks","vector":{vector},"along":{along},"across":{across}}}"#)
}

#[test]
fn tiles_agree() {
    let context = strata_dialects::context();
    let s0 = || Expr::sym(0);
    let mut seed = 700;
    for (shape, permutation, vector, read) in [
        (vec![Expr::from(64), 48.into()], vec![1, 0], 8, 8),
        (vec![33.into(), 70.into()], vec![1, 0], 2, 1),
        (vec![3.into(), 40.into(), 36.into()], vec![0, 2, 1], 4, 8),
        (vec![40.into(), 3.into(), 34.into()], vec![2, 1, 0], 2, 4),
        (vec![2.into(), 36.into(), 3.into(), 33.into()], vec![0, 3, 2, 1], 1, 4),
        (vec![s0() * Expr::from(8), 40.into()], vec![1, 0], 8, 8),
        (vec![3.into(), s0(), 35.into()], vec![0, 2, 1], 1, 1),
        (vec![0.into(), 40.into()], vec![1, 0], 4, 1),
    ] {
        for dtype in [DType::F32, DType::BF16, DType::I64, DType::I8, DType::I1] {
            for two in [false, true] {
                let mut all = vec![String::new()];
                if dtype != DType::I1 {
                    all.extend([
                        tiles(32, vector, read, 64),
                        tiles(64, 1, read, 256),
                        tiles(16, vector, 1, 32),
                    ]);
                }
                let mut list: Vec<_> = all.iter().map(|s| (TARGETS[1], s.as_str())).collect();
                let tasks =
                    [String::new(), tile_tasks(8, 16, 4), tile_tasks(1, 7, 5), tile_tasks(16, 64, 16)];
                let wanted = if dtype == DType::I1 { 1 } else { tasks.len() };
                list.extend(tasks[..wanted].iter().map(|s| (TARGETS[0], s.as_str())));
                seed += 1;
                let build = || build(&context, dtype, &shape, &permutation, two);
                assert!(check(&context, build, seed, "default", &list), "{shape:?} {dtype} is checked");
            }
        }
    }
}

/// All of memory is read and written in vectors; nothing spills.
#[test]
fn accesses_are_wide() {
    let context = strata_dialects::context();
    for (dtype, loads, stores) in [(DType::BF16, 4, 2), (DType::F32, 2, 1)] {
        for permutation in [[0, 2, 1], [2, 1, 0]] {
            let shape = [256.into(), 256.into(), Expr::from(256)];
            let m = build(&context, dtype, &shape, &permutation, false).expect("a module");
            to_linalg(&context, &m, "default").expect("linalg");
            to_loops(&context, &m, TARGETS[1], "").unwrap_or_else(|e| panic!("{e}"));
            let ptx = to_ptx(&context, &m).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(ptx.matches("ld.global.nc.v4").count(), loads, "{ptx}");
            assert_eq!(ptx.matches("ld.global").count(), loads, "{ptx}");
            assert_eq!(ptx.matches("st.global.v4").count(), stores, "{ptx}");
            if let Some(assembler) = ptxas::find() {
                let report =
                    ptxas::report(&assembler, &ptx, "sm_90a").unwrap_or_else(|e| panic!("{e}\n{ptx}"));
                assert_eq!((report.spills, report.stack), (0, 0), "{report:?}");
            }
        }
    }
}

#[test]
fn unfit_schedules_are_refused() {
    let context = strata_dialects::context();
    for (permutation, schedule, reason) in [
        ([0, 1], tile_tasks(8, 64, 16), "no operand crosses the order of the outputs"),
        ([1, 0], tile_tasks(8, 4, 16), "fit into a tile"),
        ([0, 1], tiles(32, 1, 1, 64), "no operand crosses the order of the outputs"),
        ([1, 0], tiles(32, 4, 1, 64), "30 is not known to be a multiple of 4"),
        ([1, 0], tiles(32, 2, 16, 64), "40 is not known to be a multiple of 16"),
        ([1, 0], tiles(48, 1, 1, 64), "powers of two"),
        ([1, 0], tiles(8, 2, 2, 64), "a vector for each thread"),
    ] {
        let shape = [40, 30].map(Expr::from);
        let m = build(&context, DType::F32, &shape, &permutation, true).expect("a module");
        assert!(m.as_operation().verify());
        to_linalg(&context, &m, "default").expect("linalg");
        let target = TARGETS[usize::from(!schedule.contains("tasks"))];
        let e = to_loops(&context, &m, target, &schedule).expect_err("refused");
        assert!(e.message.contains(reason), "{schedule}: {e}");
        assert!(!e.next.is_empty());
    }
}
