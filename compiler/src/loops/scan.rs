//! Running combinations along a dimension.
//!
//! On the GPU a block takes a row: each thread combines a piece of it, then, knowing what the pieces before its own amount to, goes
//! through its piece again. On the CPU a task goes through whole rows.

use super::combine::Combine;
use super::domain::{block_mapping, is_affine, parts, positions};
use super::emitter::Emitter;
use super::group::{Group, Kind, NodeId, V};
use super::runs::chunk;
use strata_dialects::ops::reductions::ReduceKind;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// A scan as plain data.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    /// How elements are combined.
    pub kind: ReduceKind,
    /// What is combined.
    pub source: NodeId,
    /// The dimension.
    pub dim: usize,
}

/// The scan that computes a node, if one does.
pub fn scan_of(group: &Group<'_>, node: NodeId) -> Option<Scan> {
    match group.nodes[node].kind {
        Kind::Scan { source, kind, dim } => Some(Scan { kind, source, dim }),
        _ => None,
    }
}

/// The sizes of everything but the dimension along which a scan runs.
pub fn rows(group: &Group<'_>, s: &Scan) -> Vec<Expr> {
    let mut shape = group.nodes[s.source].shape.clone();
    shape.remove(s.dim);
    shape
}

impl Scan {
    fn combine<'c>(&self, e: &Emitter<'c, '_>) -> Combine<'c> {
        let dtype = self.kept(e);
        Combine::plain(self.kind.arith(dtype), dtype)
    }

    /// The type in which elements are combined: on a processor f64 for f32, as PyTorch's is there and as it costs nothing.
    fn kept(&self, e: &Emitter<'_, '_>) -> DType {
        match e.group.nodes[self.source].dtype {
            DType::F32 if e.cpu => DType::F64,
            dtype => dtype.accumulator(),
        }
    }

    fn convert<'c>(&self, e: &Emitter<'c, '_>, op: &str, v: V<'c>, to: DType) -> V<'c> {
        if self.kept(e) == e.group.nodes[self.source].dtype {
            return v;
        }
        e.b().value(op, &[v], dtype_to_mlir(e.context(), to), &[])
    }

    /// The element at position `i` of a row, in the type that is combined in.
    fn element<'c>(&self, e: &mut Emitter<'c, '_>, row: &[Expr], i: Expr) -> V<'c> {
        let v = e.value_at(self.source, &self.at(row, i)).v;
        self.convert(e, "arith.extf", v, self.kept(e))
    }

    fn at(&self, row: &[Expr], i: Expr) -> Vec<Expr> {
        [&row[..self.dim], &[i], &row[self.dim..]].concat()
    }

    /// Goes through `count` elements of a row from `first` on, starting with `sum`, and stores each result where `out` is given.
    fn walk<'c>(
        &self,
        e: &mut Emitter<'c, '_>,
        row: &[Expr],
        (first, count): (&Expr, &Expr),
        sum: V<'c>,
        out: Option<V<'c>>,
    ) -> V<'c> {
        let (c, dtype) = (self.combine(e), e.group.nodes[self.source].dtype);
        let k = e.facts.variable(count);
        e.for_loop(count, k, &[sum], |e, sum| {
            let i = first.clone() + Expr::from(k);
            let x = self.element(e, row, i.clone());
            let sum = c.apply(e, sum[0], x);
            if let Some(out) = out {
                let rounded = self.convert(e, "arith.truncf", sum, dtype);
                e.store(rounded, out, &self.at(row, i));
            }
            vec![sum]
        })[0]
    }
}

/// Emits a scan for the GPU, `threads` threads a row. Returns the grid.
pub fn emit_gpu<'c>(e: &mut Emitter<'c, '_>, s: Scan, threads: i64, out: V<'c>) -> Vec<Expr> {
    e.set_lanes(1);
    let parts = parts(&rows(e.group, &s));
    let length = e.group.nodes[s.source].shape[s.dim].clone();
    let grid: Vec<Expr> = parts.iter().map(|p| p.size.clone()).collect();
    let blocks: Vec<_> = grid.iter().map(|g| e.facts.variable(g)).collect();
    let thread = e.facts.variable(&threads.into());
    let c = s.combine(e);
    e.forall(&grid, &block_mapping(grid.len()), &blocks, |e| {
        let at: Vec<Expr> = blocks.iter().map(|&b| b.into()).collect();
        let row = positions(e, &parts, &at);
        let ty = dtype_to_mlir(e.context(), c.dtype);
        let totals = e.array(&[threads], ty, "workgroup");
        let piece = length.ceil_div(&threads.into());
        let first = Expr::from(thread) * piece.clone();
        let neutral = c.neutral(e.context());
        let each = |e: &mut Emitter<'c, '_>, body: &dyn Fn(&mut Emitter<'c, '_>, &Expr)| {
            e.forall(&[threads.into()], "#gpu.thread<linear_dim_0>", &[thread], |e| {
                e.floored(|e| {
                    let count = (length.clone() - first.clone()).minimum(&piece).maximum(&0.into());
                    body(e, &count);
                });
            });
        };
        each(e, &|e, count| {
            let start = e.constant_of(ty, neutral);
            let sum = s.walk(e, &row, (&first, count), start, None);
            e.store(sum, totals, &[thread.into()]);
        });
        each(e, &|e, count| {
            let start = e.constant_of(ty, neutral);
            let before = e.facts.variable(&thread.into());
            let start = e.for_loop(&thread.into(), before, &[start], |e, sum| {
                let x = e.load(totals, &[before.into()]);
                vec![c.apply(e, sum[0], x)]
            })[0];
            s.walk(e, &row, (&first, count), start, Some(out));
        });
    });
    grid
}

/// Emits a scan for the CPU, `per_task` rows a task. Returns the grid.
pub fn emit_tasks<'c>(e: &mut Emitter<'c, '_>, s: Scan, per_task: i64, out: V<'c>) -> Vec<Expr> {
    e.set_lanes(1);
    let sizes = rows(e.group, &s);
    let total: Expr = sizes.iter().cloned().product();
    let length = e.group.nodes[s.source].shape[s.dim].clone();
    let tasks = total.ceil_div(&per_task.into());
    let (grid, per_task) =
        if is_affine(&tasks) { (tasks, Expr::from(per_task)) } else { (1.into(), total.clone()) };
    let number = e.facts.variable(&grid);
    let c = s.combine(e);
    e.forall(std::slice::from_ref(&grid), "#loop.task", &[number], |e| {
        let first = Expr::from(number) * per_task.clone();
        let count = match per_task.as_const() {
            Some(n) => chunk(e, &first, n, &total),
            None => total.clone(),
        };
        let r = e.facts.variable(&count);
        e.for_loop(&count, r, &[], |e, _| {
            e.floored(|e| {
                let row = e.facts.delinearize(&(first.clone() + Expr::from(r)), &sizes);
                let ty = dtype_to_mlir(e.context(), c.dtype);
                let start = e.constant_of(ty, c.neutral(e.context()));
                s.walk(e, &row, (&Expr::default(), &length), start, Some(out));
            });
            vec![]
        });
    });
    vec![grid]
}
