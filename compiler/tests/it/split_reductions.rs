//! Reductions that threads and blocks share: columns and long rows of many shapes under many schedules, against the graph's meaning, and what
//! ptxas says of them.

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

const SUM: i32 = 0;
const MAX: i32 = 1;
const ANY: i32 = 4;

/// `x + x` itself, the sum of its elements along `dims`, and the largest of `x`; of truth values, whether any is true.
fn build<'c>(
    context: &'c Context,
    dtype: DType,
    shape: &[Expr],
    dims: &[i64],
    full: bool,
) -> Result<Module<'c>, Violation> {
    let x = TensorType { dtype, shape: shape.to_vec() };
    module(context, &[x], |b, x| {
        let reduced = |v, kind| {
            b.graph1("reduce", &[v], &[("kind", Attr::Enum(kind)), ("dims", Attr::Ints(dims.to_vec()))])
        };
        if dtype == DType::I1 {
            return Ok(vec![reduced(x[0], ANY)?]);
        }
        let y = b.graph1("add", &[x[0], x[0]], &[])?;
        let sum = reduced(y, SUM)?;
        let out = [y, b.graph1("neg", &[sum], &[])?, reduced(x[0], MAX)?];
        Ok(out[usize::from(!full)..].to_vec())
    })
}

fn columns(vector: i64, lanes: i64, threads: i64, parts: i64) -> String {
    format!(r#"{{"kind":"columns","vector":{vector},"lanes":{lanes},"threads":{threads},"parts":{parts}}}"#)
}

fn long_rows(vector: i64, threads: i64, parts: i64) -> String {
    format!(r#"{{"kind":"long_rows","vector":{vector},"threads":{threads},"parts":{parts}}}"#)
}

#[test]
fn columns_agree() {
    let context = strata_dialects::context();
    let s0 = || Expr::sym(0);
    let mut seed = 100;
    for (shape, dims, vector, parts) in [
        (vec![Expr::from(37), 40.into()], vec![0], 8, 3),
        (vec![300.into(), 6.into()], vec![0], 2, 5),
        (vec![s0(), 24.into()], vec![0], 4, 2),
        (vec![3.into(), s0(), 16.into()], vec![0, 1], 16, 2),
        (vec![4.into(), 19.into(), 8.into()], vec![1], 4, 4),
        (vec![9.into(), s0()], vec![0], 1, 1),
        (vec![2.into(), 5.into(), 3.into(), 7.into()], vec![0, 2], 1, 2),
        (vec![0.into(), 12.into()], vec![0], 4, 2),
    ] {
        for dtype in [DType::F32, DType::BF16, DType::I64, DType::I16, DType::I1] {
            for full in [false, true] {
                let mut all = vec![String::new()];
                for parts in [1, parts] {
                    all.extend([
                        columns(vector, 1, 32, parts),
                        columns(vector, 4, 64, parts),
                        columns(1, 32, 32, parts),
                        columns(vector, 8, 256, parts),
                        columns(vector, 128, 128, parts),
                    ]);
                }
                let list: Vec<_> = all.iter().map(|s| (TARGETS[1], s.as_str())).collect();
                seed += 1;
                let build = || build(&context, dtype, &shape, &dims, full);
                assert!(check(&context, build, seed, "default", &list), "{shape:?} {dtype} is checked");
            }
        }
    }
}

#[test]
fn long_rows_agree() {
    let context = strata_dialects::context();
    let s0 = || Expr::sym(0);
    let mut seed = 300;
    for (shape, dims, vector, parts) in [
        (vec![Expr::from(700)], vec![0], 4, 3),
        (vec![2.into(), 640.into()], vec![1], 8, 2),
        (vec![3.into(), 5.into(), 64.into()], vec![1, 2], 8, 4),
        (vec![3.into(), s0() * Expr::from(4)], vec![1], 4, 2),
        (vec![s0(), 96.into()], vec![1], 2, 1),
        (vec![0.into()], vec![0], 1, 2),
        (vec![], vec![], 1, 1),
    ] {
        for dtype in [DType::F32, DType::F16, DType::I64, DType::I8, DType::I1] {
            for full in [false, true] {
                let mut all = vec![String::new()];
                if !dims.is_empty() {
                    for parts in [1, parts] {
                        all.extend([long_rows(vector, 32, parts), long_rows(1, 128, parts)]);
                    }
                }
                let list: Vec<_> = all.iter().map(|s| (TARGETS[1], s.as_str())).collect();
                seed += 1;
                let build = || build(&context, dtype, &shape, &dims, full);
                assert!(check(&context, build, seed, "default", &list), "{shape:?} {dtype} is checked");
            }
        }
    }
}

fn ptx(context: &Context, shape: &[i64], dims: &[i64], schedule: &str) -> String {
    let shape: Vec<Expr> = shape.iter().map(|&n| n.into()).collect();
    let m = build(context, DType::BF16, &shape, dims, false).expect("a module");
    to_linalg(context, &m, "default").expect("linalg");
    to_loops(context, &m, TARGETS[1], schedule).unwrap_or_else(|e| panic!("{e}"));
    to_ptx(context, &m).unwrap_or_else(|e| panic!("{e}"))
}

/// Reads are wide, sums stay in registers, and what blocks leave for each other is fenced.
#[test]
fn blocks_that_share_columns_fence_what_they_leave() {
    let context = strata_dialects::context();
    for (shape, dims, schedule) in [
        ([16384, 4096], [0], ""),
        ([16384, 4096], [0], &columns(8, 32, 256, 16)),
        ([4, 1 << 24], [1], ""),
        ([4, 1 << 24], [1], &long_rows(8, 256, 32)),
    ] {
        let ptx = ptx(&context, &shape, &dims, schedule);
        assert!(ptx.contains("ld.global.nc.v4"), "{ptx}");
        assert!(!ptx.contains(".local"), "{ptx}");
        let at = |text: &str| ptx.find(text).unwrap_or_else(|| panic!("no {text} in {ptx}"));
        let increment = at("inc.u32");
        assert!(at("fence.acq_rel.gpu") < increment, "{ptx}");
        assert!(ptx[increment..].contains("fence.acq_rel.gpu"), "{ptx}");
        // What other blocks wrote is not read through the cache for what never changes.
        assert!(!ptx[increment..].contains("ld.global.nc"), "{ptx}");
        if let Some(assembler) = ptxas::find() {
            let report = ptxas::report(&assembler, &ptx, "sm_90a").unwrap_or_else(|e| panic!("{e}\n{ptx}"));
            assert_eq!((report.spills, report.stack), (0, 0), "{report:?}");
        }
    }
}

#[test]
fn unfit_schedules_are_refused() {
    let context = strata_dialects::context();
    for (shape, dims, schedule, reason) in [
        ([40, 30], 0, columns(8, 32, 256, 1), "30 is not known to be a multiple of 8"),
        ([40, 30], 1, columns(2, 32, 256, 1), "no reductions of one stage that can be split so"),
        ([40, 30], 0, long_rows(2, 256, 2), "no reductions of one stage that can be split so"),
        ([40, 30], 0, columns(2, 24, 256, 1), "powers of two"),
        ([40, 30], 0, columns(2, 64, 32, 1), "powers of two"),
        ([40, 30000], 0, columns(1, 1, 32, 2), "only where there are at most 1024 of them"),
    ] {
        let shape = shape.map(Expr::from);
        let m = build(&context, DType::F32, &shape, &[dims], true).expect("a module");
        to_linalg(&context, &m, "default").expect("linalg");
        let e = to_loops(&context, &m, TARGETS[1], &schedule).expect_err("refused");
        assert!(e.message.contains(reason), "{schedule}: {e}");
        assert!(!e.next.is_empty());
    }
    assert!(build(&context, DType::F32, &[4.into()], &[0], true).unwrap().as_operation().verify());
}
