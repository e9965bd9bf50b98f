//! Sorting along a dimension, stably: equal elements keep their order, NaN is the largest.
//!
//! On the GPU a block takes a row and compares pairs of elements side by side: a bitonic network in which every comparison has the same
//! direction, as each merge begins with pairs that lie mirrored. Places beyond the end of the row then stand for elements that are larger
//! than all others and never move, so rows of any length need no padding. Positions decide between equal elements, which makes the
//! order total and the result the stable one. On the CPU a task goes through rows and merges longer and longer runs, from one row of memory
//! to another and back: the result's own, where it is contiguous, and rows that belong to the task.

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

/// Elements that are put in order by counting how many come before each.
const RUN: i64 = 8;

/// Tasks of `per_task` rows, and how many rows each has; one of all where the number of tasks is no launch dimension.
fn tasks(group: &Group<'_>, s: &Sort, per_task: i64) -> (Expr, Expr) {
    let total: Expr = rows(group, s).into_iter().product();
    let tasks = total.ceil_div(&per_task.into());
    if is_affine(&tasks) { (tasks, per_task.into()) } else { (1.into(), total) }
}

/// The memory that tasks need: a row for each, and another where a row of the results is not contiguous.
pub fn scratch(group: &Group<'_>, s: &Sort, per_task: i64) -> Vec<(DType, Vec<Expr>)> {
    let source = &group.nodes[s.source];
    let shape = vec![tasks(group, s, per_task).0, source.shape[s.dim].clone()];
    let row = [(source.dtype, shape.clone()), (DType::I64, shape)];
    let contiguous = source.shape[s.dim + 1..].iter().all(|n| n.as_const() == Some(1));
    if contiguous { row.to_vec() } else { [row.clone(), row].concat() }
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
    let (grid, per_task) = tasks(e.group, &s, per_task);
    let number = e.facts.variable(&grid);
    e.forall(std::slice::from_ref(&grid), "#loop.task", &[number], |e| {
        let runs = n.ceil_div(&RUN.into());
        let levels = doublings(e, &runs);
        let first = Expr::from(number) * per_task.clone();
        let count = match per_task.as_const() {
            Some(rows) => chunk(e, &first, rows, &total),
            None => total.clone(),
        };
        let own = |k: usize| Row {
            elements: scratch[2 * k],
            places: scratch[2 * k + 1],
            around: (vec![number.into()], vec![]),
        };
        let r = e.facts.variable(&count);
        e.for_loop(&count, r, &[], |e, _| {
            e.floored(|e| {
                let row = e.facts.delinearize(&(first.clone() + Expr::from(r)), &sizes);
                let (out, other) = (s.row(outs, &row), own(0));
                let work = if scratch.len() > 2 { own(1) } else { out.clone() };
                each(e, &n, |e, i| s.fill(e, &row, &i, &other));
                let whole = n.floor_div(&RUN.into());
                each(e, &whole, |e, k| count_run(e, &s, &(k * Expr::from(RUN)), &other, &work));
                let done = whole * Expr::from(RUN);
                count_rest(e, &s, (&done, &(n.clone() - done.clone())), &other, &work);
                // There and back, so that the last merge ends where the first began; one too many only copies.
                let trips = levels.ceil_div(&2.into());
                let trip = e.facts.variable(&trips);
                let width = e.index(&RUN.into());
                e.for_loop(&trips, trip, &[width], |e, width| {
                    let width = named(e, width[0], &MOST.into());
                    merge(e, &s, &n, &width, &work, &other);
                    let double = width.clone() * Expr::from(2);
                    merge(e, &s, &n, &double, &other, &work);
                    vec![e.index(&(width * Expr::from(4)))]
                });
                if scratch.len() > 2 {
                    each(e, &n, |e, i| {
                        let v = work.load(e, &i);
                        out.store(e, &i, v);
                    });
                }
            });
            vec![]
        });
    });
    vec![grid]
}

/// A loop over positions.
fn each<'c, 'g>(e: &mut Emitter<'c, 'g>, count: &Expr, mut body: impl FnMut(&mut Emitter<'c, 'g>, Expr)) {
    let k = e.facts.variable(count);
    e.for_loop(count, k, &[], |e, _| {
        body(e, k.into());
        vec![]
    });
}

/// Puts a run of elements from `start` on in order: the place of each is the number of those that come before it. Every two are compared
/// once: the later one comes before the earlier one, or the earlier one before the later.
fn count_run<'c>(e: &mut Emitter<'c, '_>, s: &Sort, start: &Expr, from: &Row<'c>, to: &Row<'c>) {
    let at = |i: i64| start.clone() + Expr::from(i);
    let elements: Vec<_> = (0..RUN).map(|i| from.load(e, &at(i))).collect();
    let mut ranks: Vec<V<'c>> = (0..RUN).map(|i| e.index(&i.into())).collect();
    for later in 0..elements.len() {
        for earlier in 0..later {
            let swapped = s.before(e, elements[later].0, elements[earlier].0);
            let swapped = unit(e, swapped);
            ranks[earlier] = op(e, "arith.addi", ranks[earlier], swapped);
            ranks[later] = op(e, "arith.subi", ranks[later], swapped);
        }
    }
    for (v, rank) in elements.into_iter().zip(ranks) {
        let rank = named(e, rank, &MOST.into());
        to.store(e, &(start.clone() + rank), v);
    }
}

/// The same for fewer elements than a run has.
fn count_rest<'c>(
    e: &mut Emitter<'c, '_>,
    s: &Sort,
    (start, count): (&Expr, &Expr),
    from: &Row<'c>,
    to: &Row<'c>,
) {
    each(e, count, |e, i| {
        let v @ (x, _) = from.load(e, &(start.clone() + i.clone()));
        let (i_at, zero) = (e.index(&i), e.index(&0.into()));
        let j = e.facts.variable(count);
        let rank = e.for_loop(count, j, &[zero], |e, rank| {
            let y = e.load(from.elements, &from.at(&(start.clone() + Expr::from(j))));
            let j_at = e.index(&j.into());
            let (before, after) = (s.before(e, y, x), s.before(e, x, y));
            // One that stands before stays before where it is equal.
            let yes = e.number(DType::I1, 1.0);
            let not_after = op(e, "arith.xori", after, yes);
            let earlier = compare(e, "arith.cmpi", cmpi::SLT, j_at, i_at);
            let counts = e.b().value("arith.select", &[earlier, not_after, before], before.r#type(), &[]);
            let counts = unit(e, counts);
            vec![op(e, "arith.addi", rank[0], counts)]
        });
        let rank = named(e, rank[0], &MOST.into());
        to.store(e, &(start.clone() + rank), v);
    });
}

/// A truth value as 0 or 1.
fn unit<'c>(e: &Emitter<'c, '_>, truth: V<'c>) -> V<'c> {
    let wide = e.b().value("arith.extui", &[truth], dtype_to_mlir(e.context(), DType::I64), &[]);
    e.b().value("arith.index_cast", &[wide], Type::index(e.context()), &[])
}

/// Merges neighbouring runs of `width` elements; a run without a neighbour is copied.
fn merge<'c>(e: &mut Emitter<'c, '_>, s: &Sort, n: &Expr, width: &Expr, from: &Row<'c>, to: &Row<'c>) {
    let double = width.clone() * Expr::from(2);
    let whole = e.index(&n.floor_div(&double));
    let whole = named(e, whole, &MOST.into());
    each(e, &whole, |e, pair| merge_pair(e, s, &(pair * double.clone()), width, from, to));
    let start = whole * double;
    merge_rest(e, s, &start, (&(start.clone() + width.clone()).minimum(n), n), from, to);
}

/// Merges two runs of one length from both ends towards the middle: two chains of comparisons that do not wait for each other, and neither
/// can come to the end of a run before it is done.
fn merge_pair<'c>(
    e: &mut Emitter<'c, '_>,
    s: &Sort,
    start: &Expr,
    width: &Expr,
    from: &Row<'c>,
    to: &Row<'c>,
) {
    let middle = start.clone() + width.clone();
    let last = middle.clone() + width.clone() - Expr::from(1);
    let (front, back) = (e.index(start), e.index(&(middle.clone() - Expr::from(1))));
    let k = e.facts.variable(width);
    e.for_loop(width, k, &[front, back], |e, next| {
        let k = Expr::from(k);
        // The other run's position follows from how many are done.
        let side = |e: &mut Emitter<'c, '_>, left: V<'c>, sum: Expr, place: Expr, forwards: bool| {
            let left_at = named(e, left, &MOST.into());
            let right = e.index(&(sum - left_at.clone()));
            let right_at = named(e, right, &MOST.into());
            let [x, y] = [&left_at, &right_at].map(|i| e.load(from.elements, &from.at(i)));
            let swapped = s.before(e, y, x);
            // Positions are chosen, and read again: a choice between floats would be a jump, which is wrong every other time.
            let (first, second) = if forwards { (right, left) } else { (left, right) };
            let best = e.b().value("arith.select", &[swapped, first, second], left.r#type(), &[]);
            let best = named(e, best, &MOST.into());
            let best = from.load(e, &best);
            to.store(e, &place, best);
            unit(e, swapped)
        };
        let sum = start.clone() + middle.clone() + k.clone();
        let swapped = side(e, next[0], sum, start.clone() + k.clone(), true);
        let one = e.index(&1.into());
        let step = op(e, "arith.subi", one, swapped);
        let front = op(e, "arith.addi", next[0], step);
        let sum = middle.clone() - Expr::from(1) + last.clone() - k.clone();
        let swapped = side(e, next[1], sum, last.clone() - k, false);
        vec![front, op(e, "arith.subi", next[1], swapped)]
    });
}

/// Merges the runs `start..middle` and `middle..end`, the second of which may be shorter.
fn merge_rest<'c>(
    e: &mut Emitter<'c, '_>,
    s: &Sort,
    start: &Expr,
    (middle, end): (&Expr, &Expr),
    from: &Row<'c>,
    to: &Row<'c>,
) {
    let count = end.clone() - start.clone();
    let (left, right) = (e.index(start), e.index(middle));
    let k = e.facts.variable(&count);
    e.for_loop(&count, k, &[left, right], |e, next| {
        let (middle_at, end_at) = (e.index(middle), e.index(end));
        let left_over = compare(e, "arith.cmpi", cmpi::SLT, next[0], middle_at);
        let right_over = compare(e, "arith.cmpi", cmpi::SLT, next[1], end_at);
        let [x, y] = [(next[0], middle), (next[1], end)].map(|(v, past)| {
            let i = named(e, v, &MOST.into()).minimum(&(past.clone() - Expr::from(1)));
            e.load(from.elements, &from.at(&i))
        });
        // The right one only where it is there, and the left one is used up or comes later.
        let earlier = s.before(e, y, x);
        let yes = e.number(DType::I1, 1.0);
        let wanted = e.b().value("arith.select", &[left_over, earlier, yes], earlier.r#type(), &[]);
        let take = e.and(Some(right_over), wanted);
        let best = e.b().value("arith.select", &[take, next[1], next[0]], next[0].r#type(), &[]);
        let best = named(e, best, &MOST.into());
        let best = from.load(e, &best);
        to.store(e, &(start.clone() + Expr::from(k)), best);
        let step = unit(e, take);
        let right = op(e, "arith.addi", next[1], step);
        let one = e.index(&1.into());
        let other = op(e, "arith.subi", one, step);
        vec![op(e, "arith.addi", next[0], other), right]
    });
}
