//! Kernels on the CPU: tasks for the thread pool, loops inside of them, vectors in the innermost.

use super::combine::Combine;
use super::domain::{Part, parts, positions};
use super::emitter::{Emitter, Val};
use super::group::{NodeId, V};
use super::pointwise::store_at;
use super::rows_plan::{Extent, Keep, Plan, Rows, plan};
use super::runs::{chunk, in_runs};
use melior::ir::Type;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::sym::{Expr, SymbolId};

/// Outputs of one shape: rows (all dimensions but the last) and columns.
struct Segment<'c> {
    rows: Vec<Part>,
    columns: Expr,
    scalar: bool,
    outputs: Vec<(NodeId, V<'c>)>,
}

/// Emits a kernel whose elements are independent: `task` elements a task. Returns the grid.
pub fn emit_tasks<'c>(e: &mut Emitter<'c, '_>, vector: i64, task: i64, outs: &[V<'c>]) -> Vec<Expr> {
    let mut segments: Vec<(Vec<Expr>, Segment<'c>)> = Vec::new();
    for (&o, &memref) in e.group.outputs.iter().zip(outs) {
        let shape = e.group.nodes[o].shape.clone();
        if let Some((_, s)) = segments.iter_mut().find(|(s, _)| *s == shape) {
            s.outputs.push((o, memref));
            continue;
        }
        let (columns, rows) = shape.split_last().map_or((1.into(), &[][..]), |(c, r)| (c.clone(), r));
        let rows = parts(rows);
        segments.push((
            shape.clone(),
            Segment { rows, columns, scalar: shape.is_empty(), outputs: vec![(o, memref)] },
        ));
    }
    // Tasks are rows of the outermost part, and pieces of long rows.
    let shapes: Vec<_> = segments
        .iter()
        .map(|(_, s)| {
            let inner: Option<i64> = s.rows[1..].iter().map(|p| p.size.as_const()).product();
            let (piece, rows) = match (s.columns.as_const(), inner) {
                (Some(c), _) if c > task && s.rows.len() == 1 => (task, 1),
                (Some(c), Some(inner)) => (c.max(1), (task / (c * inner).max(1)).max(1)),
                _ => (task, 1),
            };
            let pieces = s.columns.ceil_div(&piece.into());
            let rows_tasks = s.rows[0].size.ceil_div(&rows.into());
            let total = rows_tasks.clone() * pieces.clone();
            if super::domain::is_affine(&total) {
                (rows, piece, pieces, total)
            } else {
                (rows, 0, 1.into(), rows_tasks)
            }
        })
        .collect();
    let grid: Expr = shapes.iter().map(|s| s.3.clone()).sum();
    let number = e.facts.variable(&grid);
    e.forall(std::slice::from_ref(&grid), "#loop.task", &[number], |e| {
        let mut start = Expr::default();
        for ((_, segment), (rows, piece, pieces, count)) in segments.iter().zip(&shapes) {
            let local = Expr::from(number) - start.clone();
            start = start + count.clone();
            let body = |e: &mut Emitter<'c, '_>, local: &Expr| {
                let row_task = e.facts.floor_div(local, pieces);
                let from = if *piece == 0 {
                    Expr::default()
                } else {
                    e.facts.modulo(local, pieces) * Expr::from(*piece)
                };
                let length = if *piece == 0 || pieces.as_const() == Some(1) {
                    segment.columns.clone()
                } else {
                    (segment.columns.clone() - from.clone()).minimum(&(*piece).into())
                };
                segment.task(e, vector, &row_task, *rows, &from, &length);
            };
            if segments.len() == 1 {
                body(e, &local);
                continue;
            }
            let (from, below) = (e.compare("sge", &local, &0.into()), e.compare("slt", &local, count));
            let mine = e.and(Some(from), below);
            e.when(mine, |e| {
                let (variable, v) = (e.facts.variable(count), e.index(&local));
                e.bind(variable, v);
                body(e, &variable.into());
            });
        }
    });
    vec![grid]
}

impl<'c> Segment<'c> {
    /// One task: `rows` rows of the outermost part from `row_task * rows` on, columns `from..from + length`.
    fn task(
        &self,
        e: &mut Emitter<'c, '_>,
        vector: i64,
        row_task: &Expr,
        rows: i64,
        from: &Expr,
        length: &Expr,
    ) {
        let size = &self.rows[0].size;
        let first = row_task.clone() * Expr::from(rows);
        let count = chunk(e, &first, rows, size);
        let mut at = Vec::new();
        loop_over(e, &count, |e, r| {
            at.push(e.facts.simplify(&(first.clone() + r)));
            self.inner(e, vector, &mut at, from, length);
        });
    }

    fn inner(&self, e: &mut Emitter<'c, '_>, vector: i64, at: &mut Vec<Expr>, from: &Expr, length: &Expr) {
        if at.len() < self.rows.len() {
            let size = self.rows[at.len()].size.clone();
            loop_over(e, &size, |e, r| {
                at.push(r);
                self.inner(e, vector, at, from, length);
                at.pop();
            });
            return;
        }
        let at = at.clone();
        walk(e, Walk { vector, unroll: 1, length }, &[], |e, column, _| {
            let mut index = positions(e, &self.rows, &at);
            if !self.scalar {
                index.push(from.clone() + column);
            }
            for &(o, memref) in &self.outputs {
                store_at(e, o, memref, &index);
            }
            vec![]
        });
    }
}

/// A loop, unless there is exactly one iteration.
pub(super) fn loop_over<'c>(
    e: &mut Emitter<'c, '_>,
    count: &Expr,
    body: impl FnOnce(&mut Emitter<'c, '_>, Expr),
) {
    if count.as_const() == Some(1) {
        return e.floored(|e| body(e, Expr::default()));
    }
    let variable = e.facts.variable(count);
    e.for_loop(count, variable, &[], |e, _| {
        e.floored(|e| body(e, variable.into()));
        vec![]
    });
}

/// How a row is walked.
#[derive(Clone, Copy)]
pub(super) struct Walk<'e> {
    /// Elements of a vector.
    pub vector: i64,
    /// Vectors that are combined side by side.
    pub unroll: i64,
    /// Elements.
    pub length: &'e Expr,
}

pub(super) type Values<'c> = Vec<V<'c>>;

/// Vectors over `0..length`, then single elements. Each combination is carried in vectors first, in one scalar at the end.
pub(super) fn walk<'c>(
    e: &mut Emitter<'c, '_>,
    w: Walk<'_>,
    carried: &[(Combine<'c>, V<'c>)],
    mut body: impl FnMut(&mut Emitter<'c, '_>, Expr, Values<'c>) -> Values<'c>,
) -> Values<'c> {
    let mut scalars: Values<'c> = carried.iter().map(|c| c.1).collect();
    let mut start = Expr::default();
    if w.vector > 1 && w.length.as_const().is_none_or(|n| n >= w.vector) {
        e.set_lanes(w.vector);
        let neutral = carried
            .iter()
            .map(|(c, _)| e.constant_of(e.vector_type(c.dtype), c.neutral(e.context())))
            .collect::<Values<'c>>();
        let mut sums = neutral.clone();
        let unroll = if carried.is_empty() { 1 } else { w.unroll };
        for side_by_side in [unroll, 1] {
            let step = side_by_side * w.vector;
            let count = e.facts.floor_div(&(w.length.clone() - start.clone()), &step.into());
            if side_by_side == 1 && unroll > 1 && count.as_const() == Some(0)
                || side_by_side > 1 && count.as_const() == Some(0)
            {
                continue;
            }
            let n = carried.len();
            sums = in_runs(e, &count, carried, &sums, &neutral, &mut |e, first, count, sums| {
                let variable = e.facts.variable(count);
                let mut initial = sums.to_vec();
                (1..side_by_side).for_each(|_| initial.extend(&neutral));
                let out = e.for_loop(count, variable, &initial, |e, values| {
                    let mut next = Vec::new();
                    for u in 0..side_by_side {
                        let column = start.clone()
                            + (first.clone() + Expr::from(variable)) * Expr::from(step)
                            + Expr::from(u * w.vector)
                            + e.lane_expr();
                        let mine = values[u as usize * n..(u as usize + 1) * n].to_vec();
                        next.extend(body(e, column, mine));
                    }
                    next
                });
                let all = |k: usize, c: &Combine<'c>| {
                    (1..side_by_side as usize).fold(out[k], |s, u| c.apply(e, s, out[u * n + k]))
                };
                carried.iter().enumerate().map(|(k, (c, _))| all(k, c)).collect()
            });
            start = start + count * Expr::from(step);
            if unroll == 1 {
                break;
            }
        }
        for ((c, _), (scalar, sum)) in carried.iter().zip(scalars.iter_mut().zip(sums)) {
            let lanes = c.lanes(e, sum);
            *scalar = c.apply(e, *scalar, lanes);
        }
    }
    e.set_lanes(1);
    let rest = e.facts.simplify(&(w.length.clone() - start.clone()));
    if rest.as_const() == Some(0) {
        return scalars;
    }
    let neutral: Values<'c> = carried.iter().map(|c| c.1).collect();
    let after_vectors = scalars != neutral;
    let last = in_runs(e, &rest, carried, &neutral, &neutral, &mut |e, first, count, sums| {
        let variable = e.facts.variable(count);
        e.for_loop(count, variable, sums, |e, values| {
            body(e, start.clone() + first.clone() + Expr::from(variable), values.to_vec())
        })
    });
    if !after_vectors {
        return last;
    }
    carried.iter().zip(scalars.iter().zip(last)).map(|((c, _), (sum, last))| c.apply(e, *sum, last)).collect()
}

/// The shape of the work of a task of rows.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Elements of a vector.
    pub vector: i64,
    /// Rows of a task.
    pub rows: i64,
    /// Vectors that are combined side by side.
    pub unroll: i64,
}

/// Kept values of a row are at most this many bytes of stack.
const STACK: i64 = 128 * 1024;

/// Emits a kernel of row reductions. Returns the grid.
pub fn emit_rows<'c>(e: &mut Emitter<'c, '_>, rows: &Rows, shape: Shape, outs: &[V<'c>]) -> Vec<Expr> {
    let task_rows = shape.rows;
    let row_parts = parts(&rows.row_sizes);
    let grid = row_parts[0].size.ceil_div(&task_rows.into());
    let number = e.facts.variable(&grid);
    let column = e.facts.variable(&rows.columns);
    e.forall(std::slice::from_ref(&grid), "#loop.task", &[number], |e| {
        let first = Expr::from(number) * Expr::from(task_rows);
        let count = chunk(e, &first, task_rows, &row_parts[0].size);
        let keep =
            if rows.columns.as_const().is_some_and(|c| 4 * c <= STACK) { Keep::All } else { Keep::Nothing };
        let probe = plan(e, rows, &Expr::from(number), column, keep);
        let nodes: Vec<NodeId> = probe.held.iter().map(|h| h.place.0).filter(|&n| !is_input(e, n)).collect();
        let arrays: Vec<V<'c>> = nodes
            .into_iter()
            .map(|n| {
                let ty = dtype_to_mlir(e.context(), e.held_dtype(n));
                e.stack(rows.columns.as_const().expect("kept rows have a static length"), ty)
            })
            .collect();
        let mut at = Vec::new();
        loop_over(e, &count, |e, r| {
            at.push(e.facts.simplify(&(first.clone() + r)));
            row_loops(e, &row_parts, &mut at, &mut |e, row| {
                let mut plan = plan(e, rows, row, column, keep);
                plan.held.retain(|h| !is_input(e, h.place.0));
                let task = RowTask {
                    rows,
                    vector: shape.vector,
                    unroll: shape.unroll,
                    row: row.clone(),
                    plan,
                    column,
                    arrays: &arrays,
                    outs,
                };
                task.emit(e);
            });
        });
    });
    vec![grid]
}

fn is_input(e: &Emitter<'_, '_>, node: NodeId) -> bool {
    matches!(e.group.nodes[node].kind, super::group::Kind::Input(_))
}

fn row_loops<'c>(
    e: &mut Emitter<'c, '_>,
    parts: &[Part],
    at: &mut Vec<Expr>,
    body: &mut dyn FnMut(&mut Emitter<'c, '_>, &Expr),
) {
    if at.len() == parts.len() {
        let row = super::domain::number(parts, at);
        return body(e, &row);
    }
    let size = parts[at.len()].size.clone();
    loop_over(e, &size, |e, r| {
        at.push(r);
        row_loops(e, parts, at, body);
        at.pop();
    });
}

struct RowTask<'r, 'c> {
    rows: &'r Rows,
    vector: i64,
    unroll: i64,
    row: Expr,
    plan: Plan,
    column: SymbolId,
    arrays: &'r [V<'c>],
    outs: &'r [V<'c>],
}

impl<'c> RowTask<'_, 'c> {
    fn emit(&self, e: &mut Emitter<'c, '_>) {
        let w = Walk { vector: self.vector, unroll: 1, length: &self.rows.columns };
        for (s, stage) in self.rows.stages.iter().enumerate() {
            let carried: Vec<_> = stage
                .iter()
                .map(|&g| {
                    let c = Combine::of(e, g);
                    (c, e.constant_of(dtype_to_mlir(e.context(), c.dtype), c.neutral(e.context())))
                })
                .collect();
            let sums = walk(e, Walk { unroll: self.unroll, ..w }, &carried, |e, column, values| {
                self.recall(e, s, &column);
                let next = stage
                    .iter()
                    .zip(values)
                    .map(|(&g, sum)| {
                        let combine = Combine::of(e, g);
                        let loops = self.rows.loops(e, g, &self.row, &column);
                        let v = e.contribution(g, loops);
                        let v = if e.lanes > 1 { e.widen(v) } else { v.v };
                        combine.apply(e, sum, v)
                    })
                    .collect();
                self.keep(e, s, &column);
                next
            });
            for (&g, v) in stage.iter().zip(sums) {
                let place = self.rows.result(e, g, &self.row);
                let v = match e.initial(g, &place.1) {
                    Some(initial) => Combine::of(e, g).apply(e, v, initial.v),
                    None => v,
                };
                e.remember(place, Val { v, lanes: false });
            }
        }
        let outputs: Vec<_> = e.group.outputs.iter().copied().zip(self.outs.iter().copied()).collect();
        let of = |e: &Emitter<'c, '_>, x: Extent| -> Vec<(NodeId, V<'c>)> {
            outputs.iter().copied().filter(|(o, _)| self.rows.extent(e.group, *o) == Some(x)).collect()
        };
        let full = of(e, Extent::Full);
        if !full.is_empty() {
            let last = self.rows.stages.len();
            walk(e, w, &[], |e, column, _| {
                self.recall(e, last, &column);
                for &(o, memref) in &full {
                    let index = self.rows.output(e, o, &self.row, &column);
                    store_at(e, o, memref, &index);
                }
                vec![]
            });
        }
        e.set_lanes(1);
        for (o, memref) in of(e, Extent::Row) {
            let index = self.rows.output(e, o, &self.row, &Expr::default());
            store_at(e, o, memref, &index);
        }
    }

    fn held_at(&self, e: &Emitter<'_, '_>, i: usize, column: &Expr) -> super::emitter::Place {
        let variable = self.column;
        let place = &self.plan.held[i].place;
        let index: Vec<_> = place
            .1
            .iter()
            .map(|x| {
                e.facts.simplify(&x.substitute(&|s| if s == variable { column.clone() } else { s.into() }))
            })
            .collect();
        e.place(place.0, &index)
    }

    /// Makes known what earlier stages kept.
    fn recall(&self, e: &mut Emitter<'c, '_>, stage: usize, column: &Expr) {
        for (i, h) in self.plan.held.iter().enumerate() {
            if h.uses.contains(&stage) {
                let dtype = e.held_dtype(h.place.0);
                let at = [column.clone()];
                let v = if e.lanes > 1 {
                    let shape = [self.rows.columns.clone()];
                    e.load_vector(self.arrays[i], &at, &shape, dtype)
                } else {
                    e.load(self.arrays[i], &at)
                };
                let v = e.recalled(h.place.0, v);
                let place = self.held_at(e, i, column);
                e.remember(place, Val { v, lanes: e.lanes > 1 });
            }
        }
    }

    /// Stores what the stage computes for later ones.
    fn keep(&self, e: &mut Emitter<'c, '_>, stage: usize, column: &Expr) {
        for (i, h) in self.plan.held.iter().enumerate() {
            if h.first == stage {
                let dtype = e.held_dtype(h.place.0);
                let place = self.held_at(e, i, column);
                let v = e.value_at(place.0, &place.1);
                let v = e.held(h.place.0, v);
                let at = [column.clone()];
                if e.lanes > 1 {
                    let v = e.widen(v);
                    e.store_vector(v, self.arrays[i], &at, std::slice::from_ref(&self.rows.columns), dtype);
                } else {
                    e.store(v.v, self.arrays[i], &at);
                }
            }
        }
    }
}

impl<'c> Emitter<'c, '_> {
    /// An array on the stack.
    pub(super) fn stack(&mut self, size: i64, element: Type<'c>) -> V<'c> {
        let ty: Type<'c> = melior::ir::r#type::MemRefType::new(element, &[size], None, None).into();
        let segments = melior::ir::attribute::DenseI32ArrayAttribute::new(self.context(), &[0, 0]).into();
        let alignment = self.attribute("64 : i64");
        self.b().value(
            "memref.alloca",
            &[],
            ty,
            &[("operandSegmentSizes", segments), ("alignment", alignment)],
        )
    }
}
