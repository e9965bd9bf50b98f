//! Largest elements and sums of exponentials in one pass: rows with every special value, against the graph's meaning.

use crate::interp_cases::module;
use crate::loop_emission::{TARGETS, to_linalg, to_loops};
use strata_compiler::interp::{compare, run_function};
use strata_dialects::reference::{RefTensor, Rounding, Scalar};
use strata_dialects::{Attr, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

const COLUMNS: usize = 520;
const BUDGET: u64 = 50_000_000;

/// Element `j` of a row of each kind.
fn element(kind: usize, j: usize) -> f64 {
    let plain = ((j * 37 + kind * 11) % 101) as f64 / 9.0 - 5.0;
    match kind {
        0 => plain,
        1 => f64::NEG_INFINITY,
        // Nothing but -∞ at first, and between.
        2 if j < 400 || j.is_multiple_of(3) => f64::NEG_INFINITY,
        3 if j == 300 => f64::NAN,
        4 if j == 10 => f64::INFINITY,
        5 => plain * 1e4,
        // Ever larger: each step has another factor.
        6 => j as f64 / 4.0,
        7 if j == COLUMNS - 1 => 60.0,
        _ => plain,
    }
}

#[test]
fn special_values_stay_what_they_are() {
    let context = strata_dialects::context();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        for vector in [1, 8] {
            let schedule = |shared: bool| {
                format!(
                    r#"{{"kind":"rows","vector":{vector},"threads":32,"rows":1,"looped":true,"shared":{shared}}}"#
                )
            };
            let shape = [Expr::from(8), (COLUMNS as i64).into()];
            let x = TensorType { dtype, shape: shape.to_vec() };
            let build = || {
                module(&context, std::slice::from_ref(&x), |b, x| {
                    let reduced = |v, kind| {
                        b.graph1("reduce", &[v], &[("kind", Attr::Enum(kind)), ("dims", Attr::Ints(vec![1]))])
                    };
                    let wide = b.cast(x[0], DType::F32)?;
                    let largest = reduced(wide, 1)?;
                    let less = b.graph1("sub", &[wide, b.broadcast(largest, &[0], &shape)?], &[])?;
                    let e = b.graph1("exp", &[less], &[])?;
                    let sum = reduced(e, 0)?;
                    let y = b.graph1("div", &[e, b.broadcast(sum, &[0], &shape)?], &[])?;
                    Ok(vec![largest, sum, y])
                })
                .expect("a module")
            };
            let input = RefTensor::generate(dtype, &[8, COLUMNS], Rounding::Exact, |i| {
                Scalar::F(element(i / COLUMNS, i % COLUMNS))
            });
            let run = |m: &melior::ir::Module<'_>, r| {
                run_function(m, "f", std::slice::from_ref(&input), r, BUDGET)
                    .unwrap_or_else(|e| panic!("{e}"))
            };
            let graph = build();
            let (exact, float64) = (run(&graph, Rounding::Exact), run(&graph, Rounding::Float64));
            for shared in [false, true] {
                let m = build();
                to_linalg(&context, &m, "default").expect("linalg");
                to_loops(&context, &m, TARGETS[1], &schedule(shared)).unwrap_or_else(|e| panic!("{e}"));
                // One pass: as many reads of the row as before its results are written, and none again where it is in shared memory.
                let text = m.as_operation().to_string();
                assert_eq!(text.matches("loop.all_reduce").count(), 2);
                compare(&run(&m, Rounding::Exact), &exact, &float64)
                    .unwrap_or_else(|e| panic!("{dtype} {vector} {shared}: {e}\n{text}"));
            }
        }
    }
}
