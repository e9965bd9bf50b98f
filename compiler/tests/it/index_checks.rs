//! Indices under check, by random programs: with indices that are inside every level computes what the graph says, and with one that is
//! not every level says so, in the same words.

use crate::interp_cases::{Gen, module};
use crate::loop_emission::{TARGETS, to_linalg, to_loops};
use melior::Context;
use melior::ir::{Module, Value};
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};
use strata_compiler::compile::{Options, compile};
use strata_compiler::interp::{compare, run_function, signature};
use strata_compiler::target::Target;
use strata_dialects::build::Builder;
use strata_dialects::reference::{RefTensor, Rounding, Scalar};
use strata_dialects::spec::Violation;
use strata_dialects::{Attr, TensorType};
use strata_runtime::DType;
use strata_runtime::device::cpu::CpuDevice;
use strata_runtime::error::ErrorKind;
use strata_runtime::exec::Executable;
use strata_runtime::sym::Expr;
use strata_runtime::tensor::HostTensor;

const BUDGET: u64 = 20_000_000;
const MESSAGE: &str = "picked: an index is out of range";

static DEVICE: LazyLock<Arc<CpuDevice>> = LazyLock::new(|| Arc::new(CpuDevice::new(2).expect("two threads")));

/// What is done with the indices.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// Rows of a table.
    Rows,
    /// The largest element of rows of a table: no sums, whose order is each level's own.
    RowMaxima,
    /// Columns of a table: the picked dimension is the innermost.
    Columns,
    /// Single elements, by a position in the table that is computed from the index.
    Elements,
    /// Rows of a table whose elements are all the same.
    Same,
    /// Rows added to a table.
    AddRows,
    /// The checked indices themselves, twice: with the same size and with a larger one.
    Themselves,
}

const USES: [Use; 7] =
    [Use::Rows, Use::RowMaxima, Use::Columns, Use::Elements, Use::Same, Use::AddRows, Use::Themselves];

struct Program {
    how: Use,
    wrap: bool,
    rows: Expr,
    columns: i64,
    indices: TensorType,
}

impl Program {
    fn random(g: &mut Gen) -> Self {
        let how = USES[g.below(USES.len())];
        let rows = if g.chance(2) { Expr::sym(g.below(2) as u32) } else { (1 + g.below(70) as i64).into() };
        let columns = 1 + g.below(40) as i64;
        let mut shape: Vec<Expr> = vec![(1 + g.below(40) as i64).into()];
        if g.chance(3) {
            shape.push((1 + g.below(3) as i64).into());
        }
        let dtype = if g.chance(3) { DType::I32 } else { DType::I64 };
        Self { how, wrap: g.chance(2), rows, columns, indices: TensorType { dtype, shape } }
    }

    fn table(&self) -> TensorType {
        let columns = self.columns.into();
        let shape = match self.how {
            Use::Columns => vec![columns, self.rows.clone()],
            _ => vec![self.rows.clone(), columns],
        };
        TensorType { dtype: DType::F32, shape }
    }

    fn build<'c>(&self, context: &'c Context) -> Result<Module<'c>, Violation> {
        module(context, &[self.table(), self.indices.clone()], |b, x| self.body(b, x[0], x[1]))
    }

    fn check<'c, 'a>(
        &self,
        b: &Builder<'c, 'a>,
        i: Value<'c, 'a>,
        size: Expr,
    ) -> Result<Value<'c, 'a>, Violation> {
        let attributes = [
            ("size", Attr::Dims(vec![size])),
            ("wrap", Attr::Bool(self.wrap)),
            ("message", Attr::Str(MESSAGE.into())),
        ];
        b.graph1("check_index", &[i], &attributes)
    }

    fn body<'c, 'a>(
        &self,
        b: &Builder<'c, 'a>,
        table: Value<'c, 'a>,
        indices: Value<'c, 'a>,
    ) -> Result<Vec<Value<'c, 'a>>, Violation> {
        let i = self.check(b, indices, self.rows.clone())?;
        let dim = |d: i64| [("dim", Attr::Int(d))];
        let shape = &self.indices.shape;
        let rank = shape.len();
        Ok(match self.how {
            Use::Rows => vec![b.graph1("gather", &[table, i], &dim(0))?],
            Use::RowMaxima => {
                let rows = b.graph1("gather", &[table, i], &dim(0))?;
                let dims = Attr::Ints(vec![rank as i64]);
                vec![b.graph1("reduce", &[rows], &[("kind", Attr::Enum(1)), ("dims", dims)])?]
            }
            Use::Columns => vec![b.graph1("gather", &[table, i], &dim(1))?],
            Use::Elements => {
                let all = self.rows.clone() * Expr::from(self.columns);
                let flat = TensorType { dtype: DType::F32, shape: vec![all] };
                let flat = b.graph_as("reshape", &[table], &[], &[flat])?[0];
                let columns = b.full(self.indices.dtype, self.columns as f64, shape)?;
                let at = b.graph1("mul", &[i, columns], &[])?;
                let last = b.full(self.indices.dtype, (self.columns - 1) as f64, shape)?;
                let at = b.graph1("add", &[at, last], &[])?;
                vec![b.graph1("gather", &[flat, at], &dim(0))?]
            }
            Use::Same => {
                let same = b.full(DType::F32, 2.5, &self.table().shape)?;
                vec![b.graph1("gather", &[same, i], &dim(0))?]
            }
            Use::AddRows => {
                let mut updates = shape.clone();
                updates.push(self.columns.into());
                let ones = b.full(DType::F32, 1.5, &updates)?;
                let attributes = [("kind", Attr::Enum(1)), ("dim", Attr::Int(0))];
                vec![b.graph1("scatter", &[table, i, ones], &attributes)?]
            }
            Use::Themselves => vec![i, self.check(b, indices, self.rows.clone() + Expr::from(3))?],
        })
    }
}

fn host(t: &RefTensor) -> HostTensor {
    HostTensor::from_bytes(t.dtype, &t.shape, &t.to_bytes()).expect("the sizes fit")
}

fn check(seed: u64) {
    let context = strata_dialects::context();
    let mut g = Gen::new(seed);
    let p = Program::random(&mut g);
    let graph = p.build(&context).expect("a program");
    let before = graph.as_operation().to_string();
    let s = signature(&graph, "f").expect("a function");
    let symbols = s.random_symbols(seed).expect("symbols");
    let size = p.rows.eval(&symbols).expect("a size");
    let table = s.random_tensors(&symbols, seed).expect("tensors").remove(0);
    let shape: Vec<usize> = p.indices.shape.iter().map(|e| e.as_const().expect("static") as usize).collect();
    let first = if p.wrap { -size } else { 0 };
    let inside: Vec<i64> =
        (0..shape.iter().product()).map(|_| first + g.below((size - first) as usize) as i64).collect();
    let mut outside = inside.clone();
    let wrong = [size, first - 1, size + 100, i64::from(i32::MAX), i64::from(i32::MIN)][g.below(5)];
    let wrong = if p.indices.dtype == DType::I64 && g.chance(3) { wrong ^ (1 << 40) } else { wrong };
    let place = g.below(outside.len());
    outside[place] = wrong;
    // A dimension without elements has no index that is inside.
    let some = size > 0;
    if !some {
        outside.fill(wrong);
    }

    let tensor =
        |list: &[i64]| RefTensor::generate(p.indices.dtype, &shape, Rounding::Exact, |i| Scalar::I(list[i]));
    let good = [table.clone(), tensor(&inside)];
    let bad = [table, tensor(&outside)];
    let run = |m: &Module<'_>, inputs: &[RefTensor], r| run_function(m, "f", inputs, r, BUDGET);
    let result = |rounding| some.then(|| run(&graph, &good, rounding).expect("a result"));
    let wanted = result(Rounding::Exact).zip(result(Rounding::Float64));
    let says = |m: &Module<'_>, level: &str| {
        let Err(e) = run(m, &bad, Rounding::Exact) else { panic!("{level}: a result\n{}", m.as_operation()) };
        assert!(
            e.message.contains(&format!("{MESSAGE}: {wrong} is not in {first}..{size}")),
            "{level}: {e}\n{before}"
        );
    };
    says(&graph, "graph");
    for target in TARGETS {
        let m = p.build(&context).expect("built before");
        to_linalg(&context, &m, "default").unwrap_or_else(|e| panic!("{e}\n{before}"));
        says(&m, "tensor");
        to_loops(&context, &m, target, "").unwrap_or_else(|e| panic!("{target}: {e}\n{before}"));
        if let Some((exact, float64)) = &wanted {
            let got = run(&m, &good, Rounding::Exact)
                .unwrap_or_else(|e| panic!("{target}: {e}\n{}", m.as_operation()));
            compare(&got, exact, float64)
                .unwrap_or_else(|e| panic!("{target}: {e}\n{before}\n{}", m.as_operation()));
        }
        says(&m, target);
    }

    let mut m = p.build(&context).expect("built before");
    let compiled = compile(&context, &mut m, &Options::new(Target::native()))
        .unwrap_or_else(|e| panic!("{:?}", e.diagnostics));
    let executable =
        Executable::new(compiled.artifact, DEVICE.clone()).unwrap_or_else(|e| panic!("{e}\n{before}"));
    let call = |inputs: &[RefTensor]| executable.run_host(&inputs.iter().map(host).collect::<Vec<_>>());
    for _ in 0..2 {
        if let Some((exact, float64)) = &wanted {
            let got = call(&good).unwrap_or_else(|e| panic!("{e}\n{before}"));
            let got: Vec<_> = got
                .iter()
                .map(|t| {
                    RefTensor::from_bytes(t.dtype(), t.shape(), t.bytes(), false).expect("the sizes fit")
                })
                .collect();
            compare(&got, exact, float64).unwrap_or_else(|e| panic!("{e}\n{before}\n{}", m.as_operation()));
        }
        // A failed call leaves nothing behind: the next one is right again.
        let Err(e) = call(&bad) else { panic!("compiled: a result\n{before}") };
        assert_eq!((e.kind(), e.reason()), (ErrorKind::Index, MESSAGE), "{before}");
        assert!(e.place().contains("case.py:7:3"), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_is_inside_or_every_level_says_that_it_is_not(seed: u64) {
        check(seed);
    }
}
