//! Sorting along a dimension, stably: equal elements keep their order, NaN is the largest.
//!
//! On the GPU a block takes a row and compares pairs of elements side by side: a bitonic network in which every comparison has the same
//! direction, as each merge begins with pairs that lie mirrored. Places beyond the end of the row then stand for elements that are larger
//! than all others and never move, so rows of any length need no padding. Positions decide between equal elements, which makes the
//! order total and the result the stable one. On the CPU a task goes through rows and merges longer and longer runs, from the results'
//! buffers to memory of its own and back.

use super::domain::{block_mapping, is_affine, parts, positions};
use super::emitter::Emitter;
use super::group::{Group, Kind, NodeId, V};
use super::runs::chunk;
use melior::ir::{Type, ValueLike};
use strata_dialects::scalar::{cmpf, cmpi};
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// A sort as plain data.
#[derive(Clone, Copy, Debug)]
pub struct Sort {
    /// What is sorted.
    pub source: NodeId,
    /// The dimension.
    pub dim: usize,
    /// Whether the largest comes first.
    pub descending: bool,
}

/// The sort that computes a node, if one does.
pub fn sort_of(group: &Group<'_>, node: NodeId) -> Option<Sort> {
    match group.nodes[node].kind {
        Kind::Sort { source, dim, descending, .. } => Some(Sort { source, dim, descending }),
        _ => None,
    }
}

/// The sizes of everything but the dimension that is sorted.
pub fn rows(group: &Group<'_>, s: &Sort) -> Vec<Expr> {
    let mut shape = group.nodes[s.source].shape.clone();
    shape.remove(s.dim);
    shape
}

/// Sizes and positions are below this where nothing else is known.
const MOST: i64 = 1 << 48;

/// A row: elements, and the positions they had.
#[derive(Clone)]
struct Row<'c> {
    elements: V<'c>,
    places: V<'c>,
    /// What is before and after the position in the row; nothing for a row on its own.
    around: (Vec<Expr>, Vec<Expr>),
}

impl<'c> Row<'c> {
    fn at(&self, i: &Expr) -> Vec<Expr> {
        [&self.around.0[..], std::slice::from_ref(i), &self.around.1].concat()
    }

    fn load(&self, e: &mut Emitter<'c, '_>, i: &Expr) -> (V<'c>, V<'c>) {
        let at = self.at(i);
        (e.load(self.elements, &at), e.load(self.places, &at))
    }

    fn store(&self, e: &mut Emitter<'c, '_>, i: &Expr, (element, place): (V<'c>, V<'c>)) {
        let at = self.at(i);
        e.store(element, self.elements, &at);
        e.store(place, self.places, &at);
    }
}

impl Sort {
    fn dtype(&self, e: &Emitter<'_, '_>) -> DType {
        e.group.nodes[self.source].dtype
    }

    fn length(&self, e: &Emitter<'_, '_>) -> Expr {
        e.group.nodes[self.source].shape[self.dim].clone()
    }

    /// A row of the two buffers of a result's shape.
    fn row<'c>(&self, buffers: &[V<'c>], row: &[Expr]) -> Row<'c> {
        let around = (row[..self.dim].to_vec(), row[self.dim..].to_vec());
        Row { elements: buffers[0], places: buffers[1], around }
    }

    /// Stores an element of the operand and its position.
    fn fill<'c>(&self, e: &mut Emitter<'c, '_>, row: &[Expr], i: &Expr, to: &Row<'c>) {
        let from = [&row[..self.dim], std::slice::from_ref(i), &row[self.dim..]].concat();
        let x = e.value_at(self.source, &from).v;
        let place = cast(e, i, to.places);
        to.store(e, i, (x, place));
    }

    /// Whether element `a` comes before an element `b` that is not equal to it.
    fn before<'c>(&self, e: &Emitter<'c, '_>, a: V<'c>, b: V<'c>) -> V<'c> {
        let dtype = self.dtype(e);
        let (a, b) = if self.descending { (b, a) } else { (a, b) };
        if !dtype.is_float() {
            // The truth value 1 would be -1.
            let less = if dtype == DType::I1 { cmpi::ULT } else { cmpi::SLT };
            return compare(e, "arith.cmpi", less, a, b);
        }
        let (a, b) = (e.wide(a, dtype), e.wide(b, dtype));
        let less = compare(e, "arith.cmpf", cmpf::ULT, a, b);
        let number = compare(e, "arith.cmpf", cmpf::ORD, a, a);
        e.and(Some(less), number)
    }
}

fn compare<'c>(e: &Emitter<'c, '_>, op: &str, predicate: i64, a: V<'c>, b: V<'c>) -> V<'c> {
    let p = e.attribute(&format!("{predicate} : i64"));
    e.b().value(op, &[a, b], dtype_to_mlir(e.context(), DType::I1), &[("predicate", p)])
}

/// A position in the type of a memref of positions.
fn cast<'c>(e: &mut Emitter<'c, '_>, i: &Expr, memref: V<'c>) -> V<'c> {
    let ty = strata_dialects::build::element_type(memref.r#type());
    let i = e.index(i);
    e.b().value("arith.index_cast", &[i], ty, &[])
}

/// Arithmetic on numbers that are not expressions of sizes.
fn op<'c>(e: &Emitter<'c, '_>, name: &str, a: V<'c>, b: V<'c>) -> V<'c> {
    e.b().value(name, &[a, b], a.r#type(), &[])
}

/// A variable in `0..bound` that stands for a value.
fn named<'c>(e: &mut Emitter<'c, '_>, v: V<'c>, bound: &Expr) -> Expr {
    let s = e.facts.variable(bound);
    e.bind(s, v);
    s.into()
}

/// How often 1 is doubled until it is at least `n`.
fn doublings<'c>(e: &mut Emitter<'c, '_>, n: &Expr) -> Expr {
    let log = |n: i64| i64::from(64 - (n.max(1) as u64 - 1).leading_zeros());
    if let Some(n) = n.as_const() {
        return log(n).into();
    }
    let most = e.facts.interval(n).1.map_or(48, log);
    let zero = e.index(&0.into());
    let k = e.facts.variable(&most.into());
    let count = e.for_loop(&most.into(), k, &[zero], |e, count| {
        let (one, power, n) = (e.index(&1.into()), e.index(&k.into()), e.index(n));
        let power = op(e, "arith.shli", one, power);
        let more = compare(e, "arith.cmpi", cmpi::SLT, power, n);
        let next = op(e, "arith.addi", count[0], one);
        vec![e.b().value("arith.select", &[more, next, count[0]], next.r#type(), &[])]
    });
    named(e, count[0], &(most + 1).into())
}

/// Emits a sort for the GPU, `threads` threads a row. Returns the grid.
pub fn emit_gpu<'c>(
    e: &mut Emitter<'c, '_>,
    s: Sort,
    threads: i64,
    shared: bool,
    outs: &[V<'c>],
) -> Vec<Expr> {
    e.set_lanes(1);
    let parts = parts(&rows(e.group, &s));
    let n = s.length(e);
    let grid: Vec<Expr> = parts.iter().map(|p| p.size.clone()).collect();
    let blocks: Vec<_> = grid.iter().map(|g| e.facts.variable(g)).collect();
    e.forall(&grid, &block_mapping(grid.len()), &blocks, |e| {
        let at: Vec<Expr> = blocks.iter().map(|&b| b.into()).collect();
        let row = positions(e, &parts, &at);
        let out = s.row(outs, &row);
        let work = match n.as_const().filter(|_| shared) {
            Some(n) => {
                let types = [s.dtype(e), DType::I32].map(|d| dtype_to_mlir(e.context(), d));
                let [elements, places] = types.map(|ty| e.array(&[n.max(1)], ty, "workgroup"));
                Row { elements, places, around: (vec![], vec![]) }
            }
            None => out.clone(),
        };
        shares(e, threads, &n, |e, i| s.fill(e, &row, &i, &work));
        let levels = doublings(e, &n);
        let level = e.facts.variable(&levels);
        e.for_loop(&levels, level, &[], |e, _| {
            let steps = Expr::from(level) + Expr::from(1);
            let step = e.facts.variable(&steps);
            e.for_loop(&steps, step, &[], |e, _| {
                exchange(e, &s, &work, threads, &n, (level.into(), step.into()));
                vec![]
            });
            vec![]
        });
        if shared {
            shares(e, threads, &n, |e, i| {
                let (x, place) = work.load(e, &i);
                let place = e.b().value("arith.extsi", &[place], dtype_to_mlir(e.context(), DType::I64), &[]);
                out.store(e, &i, (x, place));
            });
        }
    });
    grid
}

/// Has the threads of a block go through `count` positions.
fn shares<'c, 'g>(
    e: &mut Emitter<'c, 'g>,
    threads: i64,
    count: &Expr,
    mut body: impl FnMut(&mut Emitter<'c, 'g>, Expr),
) {
    let thread = e.facts.variable(&threads.into());
    e.forall(&[threads.into()], "#gpu.thread<linear_dim_0>", &[thread], |e| {
        e.floored(|e| {
            let left = count.clone() - Expr::from(thread) + Expr::from(threads - 1);
            let own = left.maximum(&0.into()).floor_div(&threads.into());
            let k = e.facts.variable(&own);
            e.for_loop(&own, k, &[], |e, _| {
                body(e, Expr::from(k) * Expr::from(threads) + Expr::from(thread));
                vec![]
            });
        });
    });
}

/// One step of the network: step `step` of merging pairs of runs of `2^level` elements compares elements that are `h = 2^(level - step)`
/// apart, or, in step 0, that lie mirrored in the pair.
fn exchange<'c>(
    e: &mut Emitter<'c, '_>,
    s: &Sort,
    row: &Row<'c>,
    threads: i64,
    n: &Expr,
    (level, step): (Expr, Expr),
) {
    let (one, zero) = (e.index(&1.into()), e.index(&0.into()));
    let shift = e.index(&(level - step.clone()));
    let h = op(e, "arith.shli", one, shift);
    let low = op(e, "arith.subi", h, one);
    let first = e.compare("eq", &step, &0.into());
    let mirror = e.b().value("arith.select", &[first, low, zero], low.r#type(), &[]);
    // Pairs with both elements inside of the row: h for each whole 2h, and what the rest has beyond h.
    let mask = op(e, "arith.addi", h, low);
    let all = e.index(n);
    let rest = op(e, "arith.andi", all, mask);
    let (h, rest) = (named(e, h, &MOST.into()), named(e, rest, &MOST.into()));
    let pairs = (n.clone() - rest.clone()).floor_div(&2.into()) + (rest - h.clone()).maximum(&0.into());
    let pairs = e.index(&pairs);
    let pairs = named(e, pairs, &MOST.into());
    shares(e, threads, &pairs, |e, p| {
        let number = e.index(&p);
        let inside = op(e, "arith.andi", number, low);
        let near = op(e, "arith.xori", inside, mirror);
        let (inside, near) = (named(e, inside, &MOST.into()), named(e, near, &MOST.into()));
        let start = (p - inside.clone()) * Expr::from(2);
        let (i, j) = (start.clone() + near, start + h.clone() + inside);
        let ((x, x_place), (y, y_place)) = (row.load(e, &i), row.load(e, &j));
        let wrong = s.before(e, y, x);
        let right = s.before(e, x, y);
        let later = compare(e, "arith.cmpi", cmpi::SLT, y_place, x_place);
        let no = e.number(DType::I1, 0.0);
        let equal = e.b().value("arith.select", &[right, no, later], later.r#type(), &[]);
        let swap = e.b().value("arith.ori", &[wrong, equal], wrong.r#type(), &[]);
        e.when(swap, |e| {
            row.store(e, &i, (y, y_place));
            row.store(e, &j, (x, x_place));
        });
    });
}

/// Emits a sort for the CPU, `per_task` rows a task. Returns the grid.
pub fn emit_tasks<'c>(
    e: &mut Emitter<'c, '_>,
    s: Sort,
    per_task: i64,
    outs: &[V<'c>],
    scratch: &[V<'c>],
) -> Vec<Expr> {
    e.set_lanes(1);
    let sizes = rows(e.group, &s);
    let total: Expr = sizes.iter().cloned().product();
    let n = s.length(e);
    let tasks = total.ceil_div(&per_task.into());
    let (grid, per_task) =
        if is_affine(&tasks) { (tasks, Expr::from(per_task)) } else { (1.into(), total.clone()) };
    let number = e.facts.variable(&grid);
    e.forall(std::slice::from_ref(&grid), "#loop.task", &[number], |e| {
        let levels = doublings(e, &n);
        let first = Expr::from(number) * per_task.clone();
        let count = match per_task.as_const() {
            Some(rows) => chunk(e, &first, rows, &total),
            None => total.clone(),
        };
        let r = e.facts.variable(&count);
        e.for_loop(&count, r, &[], |e, _| {
            e.floored(|e| {
                let row = e.facts.delinearize(&(first.clone() + Expr::from(r)), &sizes);
                let (out, other) = (s.row(outs, &row), s.row(scratch, &row));
                let i = e.facts.variable(&n);
                e.for_loop(&n, i, &[], |e, _| {
                    s.fill(e, &row, &i.into(), &out);
                    vec![]
                });
                // There and back, so that the last merge ends in the results; one too many only copies.
                let trips = levels.ceil_div(&2.into());
                let trip = e.facts.variable(&trips);
                let width = e.index(&1.into());
                e.for_loop(&trips, trip, &[width], |e, width| {
                    let width = named(e, width[0], &MOST.into());
                    merge(e, &s, &n, &width, &out, &other);
                    let double = width.clone() * Expr::from(2);
                    merge(e, &s, &n, &double, &other, &out);
                    vec![e.index(&(width * Expr::from(4)))]
                });
            });
            vec![]
        });
    });
    vec![grid]
}

/// Merges neighbouring runs of `width` elements; a run without a neighbour is copied.
fn merge<'c>(e: &mut Emitter<'c, '_>, s: &Sort, n: &Expr, width: &Expr, from: &Row<'c>, to: &Row<'c>) {
    let double = width.clone() * Expr::from(2);
    let pairs = n.ceil_div(&double);
    let pair = e.facts.variable(&pairs);
    e.for_loop(&pairs, pair, &[], |e, _| {
        let start = Expr::from(pair) * double.clone();
        let middle = (start.clone() + width.clone()).minimum(n);
        let end = (start.clone() + double.clone()).minimum(n);
        let count = end.clone() - start.clone();
        let (left, right) = (e.index(&start), e.index(&middle));
        let k = e.facts.variable(&count);
        e.for_loop(&count, k, &[left, right], |e, next| {
            let (middle_at, end_at) = (e.index(&middle), e.index(&end));
            let left_over = compare(e, "arith.cmpi", cmpi::SLT, next[0], middle_at);
            let right_over = compare(e, "arith.cmpi", cmpi::SLT, next[1], end_at);
            let [left, right] = [(next[0], &middle), (next[1], &end)].map(|(v, past)| {
                let i = named(e, v, &MOST.into());
                i.minimum(&(past.clone() - Expr::from(1)))
            });
            let ((x, x_place), (y, y_place)) = (from.load(e, &left), from.load(e, &right));
            // The right one only where it is there, and the left one is used up or comes later.
            let earlier = s.before(e, y, x);
            let yes = e.number(DType::I1, 1.0);
            let wanted = e.b().value("arith.select", &[left_over, earlier, yes], earlier.r#type(), &[]);
            let take = e.and(Some(right_over), wanted);
            let pick = |e: &Emitter<'c, '_>, a: V<'c>, b: V<'c>| {
                e.b().value("arith.select", &[take, a, b], a.r#type(), &[])
            };
            let best = (pick(e, y, x), pick(e, y_place, x_place));
            to.store(e, &(start.clone() + Expr::from(k)), best);
            let step = e.b().value("arith.extui", &[take], dtype_to_mlir(e.context(), DType::I64), &[]);
            let step = e.b().value("arith.index_cast", &[step], Type::index(e.context()), &[]);
            let right = op(e, "arith.addi", next[1], step);
            let one = e.index(&1.into());
            let other = op(e, "arith.subi", one, step);
            vec![op(e, "arith.addi", next[0], other), right]
        });
        vec![]
    });
}
