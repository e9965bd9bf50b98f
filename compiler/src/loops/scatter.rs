//! Scatters: every update is written where an index says, into a buffer that holds the operand's elements already
//! (`loop.init`).
//!
//! On the GPU a thread writes an update, atomically where it is combined with what is there. On the CPU the tasks share the dimensions
//! that are not indexed, so that no two of them meet, and go through the updates in order.

use super::combine::Combine;
use super::domain::is_affine;
use super::emitter::Emitter;
use super::group::{Group, Kind, NodeId, V};
use super::runs::chunk;
use crate::kernel::atomic;
use melior::ir::{Type, ValueLike};
use strata_dialects::ops::indexing::ScatterKind;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// A scatter as plain data.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    /// How an update meets the element.
    pub kind: ScatterKind,
    /// The operand, which the result's buffer holds before.
    pub dest: NodeId,
    /// Places along `dim`.
    pub indices: NodeId,
    /// What is written.
    pub updates: NodeId,
    /// The dimension that the indices are places of.
    pub dim: usize,
    /// Whether no index is outside or counts from the end.
    pub in_bounds: bool,
}

/// The scatter that computes a node, if one does.
pub fn scatter_of(group: &Group<'_>, node: NodeId) -> Option<Scatter> {
    match group.nodes[node].kind {
        Kind::Scatter { kind, dest, indices, updates, dim, in_bounds } => {
            Some(Scatter { kind, dest, indices, updates, dim, in_bounds })
        }
        _ => None,
    }
}

/// The positions that a kernel goes through to compute an output: the updates' for a scatter, its own for anything else.
pub fn domain<'g>(group: &'g Group<'_>, output: NodeId) -> &'g [Expr] {
    &group.nodes[scatter_of(group, output).map_or(output, |s| s.updates)].shape
}

/// The kind of `memref.atomic_rmw`.
fn atomic_kind(kind: ScatterKind, dtype: DType) -> &'static str {
    match kind.combination().map(|c| c.arith(dtype)) {
        None => "assign",
        Some("arith.maxsi") => "maxs",
        Some("arith.minsi") => "mins",
        Some(op) => op.strip_prefix("arith.").expect("an op of arith"),
    }
}

impl Scatter {
    /// Runs `fill` with the place along `dim` that the indices name for a position of the updates, where it is inside.
    fn place<'c>(&self, e: &mut Emitter<'c, '_>, at: &[Expr], fill: impl FnOnce(&mut Emitter<'c, '_>, Expr)) {
        let rank = e.group.nodes[self.indices].shape.len();
        let picked = e.value_at(self.indices, &at[self.dim..self.dim + rank]).v;
        let index = Type::index(e.context());
        let i1 = dtype_to_mlir(e.context(), DType::I1);
        let size = e.group.nodes[self.dest].shape[self.dim].clone();
        let (zero, size) = (e.index(&0.into()), e.index(&size));
        let (below, at_least) = (e.attribute("2 : i64"), e.attribute("5 : i64"));
        let b = e.b();
        let picked = b.value("arith.index_cast", &[picked], index, &[]);
        let known = |e: &mut Emitter<'c, '_>, picked: V<'c>| {
            let picked = e.variable_of(picked);
            fill(e, picked);
        };
        if self.in_bounds {
            return match e.some_position(self.dest, &[self.dim]) {
                Some(some) => e.when(some, |e| known(e, picked)),
                None => known(e, picked),
            };
        }
        let negative = b.value("arith.cmpi", &[picked, zero], i1, &[("predicate", below)]);
        let wrapped = b.value("arith.addi", &[picked, size], index, &[]);
        let picked = b.value("arith.select", &[negative, wrapped, picked], index, &[]);
        let from = b.value("arith.cmpi", &[picked, zero], i1, &[("predicate", at_least)]);
        let to = b.value("arith.cmpi", &[picked, size], i1, &[("predicate", below)]);
        let inside = b.value("arith.andi", &[from, to], i1, &[]);
        e.when(inside, |e| known(e, picked));
    }

    /// The position in the result for a position of the updates, with `picked` along `dim`.
    fn target(&self, e: &Emitter<'_, '_>, at: &[Expr], picked: Expr) -> Vec<Expr> {
        let rank = e.group.nodes[self.indices].shape.len();
        [&at[..self.dim], &[picked], &at[self.dim + rank..]].concat()
    }

    /// Writes the update at a position, as one of many threads.
    pub fn write_atomically<'c>(&self, e: &mut Emitter<'c, '_>, memref: V<'c>, at: &[Expr]) {
        self.place(e, at, |e, picked| {
            let target = self.target(e, at, picked);
            let v = e.value_at(self.updates, at).v;
            let mut operands = vec![v, memref];
            operands.extend(target.iter().map(|i| e.index(i)).collect::<Vec<_>>());
            let kind = atomic_kind(self.kind, e.group.nodes[self.updates].dtype);
            let kind = e.attribute(&format!("{} : i64", atomic::number(kind)));
            e.b().value("memref.atomic_rmw", &operands, v.r#type(), &[("kind", kind)]);
        });
    }

    /// Writes the update at a position; nobody else writes there meanwhile.
    fn write<'c>(&self, e: &mut Emitter<'c, '_>, memref: V<'c>, at: &[Expr], picked: &Expr) {
        let target = self.target(e, at, picked.clone());
        let v = e.value_at(self.updates, at).v;
        let Some(kind) = self.kind.combination() else { return e.store(v, memref, &target) };
        let dtype = e.group.nodes[self.updates].dtype;
        let old = e.load(memref, &target);
        let [old, new] = [old, v].map(|v| e.wide(v, dtype));
        let wide = dtype.accumulator();
        let sum = Combine::plain(kind.arith(wide), wide).apply(e, old, new);
        let sum = e.narrow(sum, dtype);
        e.store(sum, memref, &target);
    }
}

/// Emits a scatter for the CPU: tasks of `task` positions in the dimensions after the indexed one. Returns the grid.
pub fn emit_tasks<'c>(e: &mut Emitter<'c, '_>, s: Scatter, task: i64, out: V<'c>) -> Vec<Expr> {
    e.set_lanes(1);
    let shape = e.group.nodes[s.updates].shape.clone();
    let rank = e.group.nodes[s.indices].shape.len();
    let (outer, rest) = shape.split_at(s.dim);
    let (many, inner) = rest.split_at(rank);
    let size = |list: &[Expr]| -> Expr { list.iter().cloned().product() };
    let width = size(inner);
    let pieces = width.ceil_div(&task.into());
    let total = size(outer) * pieces.clone();
    let grid = if is_affine(&total) { total.clone() } else { 1.into() };
    let number = e.facts.variable(&grid);
    e.forall(std::slice::from_ref(&grid), "#loop.task", &[number], |e| {
        let body = |e: &mut Emitter<'c, '_>, n: Expr| {
            let outer_at = {
                let row = e.facts.floor_div(&n, &pieces);
                e.facts.delinearize(&row, outer)
            };
            let from = e.facts.modulo(&n, &pieces) * Expr::from(task);
            let length = chunk(e, &from, task, &width);
            let updates = size(many);
            let j = e.facts.variable(&updates);
            e.for_loop(&updates, j, &[], |e, _| {
                e.floored(|e| {
                    let many_at = e.facts.delinearize(&j.into(), many);
                    let first = vec![Expr::default(); inner.len()];
                    s.place(e, &[&outer_at[..], &many_at, &first].concat(), |e, picked| {
                        let k = e.facts.variable(&length);
                        e.for_loop(&length, k, &[], |e, _| {
                            let column = from.clone() + Expr::from(k);
                            let inner_at = e.facts.delinearize(&column, inner);
                            s.write(e, out, &[&outer_at[..], &many_at, &inner_at].concat(), &picked);
                            vec![]
                        });
                    });
                });
                vec![]
            });
        };
        if grid == total {
            return body(e, number.into());
        }
        let n = e.facts.variable(&total);
        e.for_loop(&total, n, &[], |e, _| {
            e.floored(|e| body(e, n.into()));
            vec![]
        });
    });
    vec![grid]
}
