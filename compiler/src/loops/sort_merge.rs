//! Sorting on the CPU: a task goes through rows and merges longer and longer runs, from one row of memory to another and back: the result's
//! own, where it is contiguous, and rows that belong to the task.

use super::domain::is_affine;
use super::emitter::Emitter;
use super::group::{Group, Scratch, V};
use super::runs::chunk;
use super::sort::{Item, MOST, Row, Sort, compare, doublings, moved, named, op, rows, select};
use melior::ir::Type;
use strata_dialects::scalar::cmpi;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// Elements of the runs that merging begins with.
const RUN: i64 = 8;

/// The comparisons that sort eight numbers, the smaller one to the first place.
const NETWORK: [(usize, usize); 19] = [
    (0, 2),
    (1, 3),
    (4, 6),
    (5, 7),
    (0, 4),
    (1, 5),
    (2, 6),
    (3, 7),
    (0, 1),
    (2, 3),
    (4, 5),
    (6, 7),
    (2, 4),
    (3, 5),
    (1, 4),
    (3, 6),
    (1, 2),
    (3, 4),
    (5, 6),
];

/// Tasks of `per_task` rows, and how many rows each has; one of all where the number of tasks is no launch dimension.
fn tasks(group: &Group<'_>, s: &Sort, per_task: i64) -> (Expr, Expr) {
    let total: Expr = rows(group, s).into_iter().product();
    let tasks = total.ceil_div(&per_task.into());
    if is_affine(&tasks) { (tasks, per_task.into()) } else { (1.into(), total) }
}

/// The memory that tasks need: a row for each, and another where a row of the results is not contiguous.
pub fn scratch(group: &Group<'_>, s: &Sort, per_task: i64) -> Vec<Scratch> {
    let source = &group.nodes[s.source];
    let shape = vec![tasks(group, s, per_task).0, source.shape[s.dim].clone()];
    let contiguous = source.shape[s.dim + 1..].iter().all(|n| n.as_const() == Some(1));
    let row =
        moved(source.dtype).iter().map(|&dtype| Scratch { dtype, shape: shape.clone(), tickets: false });
    row.clone().chain(row.take(if contiguous { 0 } else { 2 })).collect()
}

/// Emits a sort, `per_task` rows a task. Returns the grid.
pub fn emit<'c>(
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
        let mut own = scratch
            .chunks(moved(s.dtype(e)).len())
            .map(|parts| Row { parts: parts.to_vec(), around: (vec![number.into()], vec![]) });
        let other = own.next().expect("a row for each task");
        let apart = own.next();
        each(e, &count, |e, r| {
            e.floored(|e| {
                let row = e.facts.delinearize(&(first.clone() + r), &sizes);
                let work = apart.clone().unwrap_or_else(|| s.in_place(e, outs, &row));
                each(e, &n, |e, i| s.fill(e, &row, &i, &other));
                let whole = n.floor_div(&RUN.into());
                each(e, &whole, |e, k| run(e, &s, &(k * Expr::from(RUN)), &other, &work));
                let done = whole * Expr::from(RUN);
                rest(e, &s, (&done, &(n.clone() - done.clone())), &other, &work);
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
                if apart.is_some() || s.packed(e) {
                    let out = s.row(outs, &row);
                    each(e, &n, |e, i| {
                        let item = work.load(e, &i);
                        s.unpack(e, &row, &i, &item, &out);
                    });
                }
            });
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

/// Puts a run of elements from `start` on in order: numbers by exchanges; of elements with positions the place of each is the number of
/// those that come before it. Every two are compared once: the later one comes before the earlier one, or the earlier one before the
/// later.
fn run<'c>(e: &mut Emitter<'c, '_>, s: &Sort, start: &Expr, from: &Row<'c>, to: &Row<'c>) {
    let at = |i: usize| start.clone() + Expr::from(i);
    let mut items: Vec<Item<'c>> = (0..RUN as usize).map(|i| from.load(e, &at(i))).collect();
    if s.packed(e) {
        for (i, j) in NETWORK {
            let (x, y) = (items[i][0], items[j][0]);
            items[i] = vec![op(e, "arith.minsi", x, y)];
            items[j] = vec![op(e, "arith.maxsi", x, y)];
        }
        items.iter().enumerate().for_each(|(i, item)| to.store(e, &at(i), item));
        return;
    }
    let mut ranks: Vec<V<'c>> = (0..RUN).map(|i| e.index(&i.into())).collect();
    for later in 0..items.len() {
        for earlier in 0..later {
            let swapped = s.before(e, items[later][0], items[earlier][0]);
            let swapped = unit(e, swapped);
            ranks[earlier] = op(e, "arith.addi", ranks[earlier], swapped);
            ranks[later] = op(e, "arith.subi", ranks[later], swapped);
        }
    }
    for (item, rank) in items.into_iter().zip(ranks) {
        let rank = named(e, rank, &MOST.into());
        to.store(e, &(start.clone() + rank), &item);
    }
}

/// The same for fewer elements than a run has, by counting.
fn rest<'c>(e: &mut Emitter<'c, '_>, s: &Sort, (start, count): (&Expr, &Expr), from: &Row<'c>, to: &Row<'c>) {
    each(e, count, |e, i| {
        let item = from.load(e, &(start.clone() + i.clone()));
        let (i_at, zero) = (e.index(&i), e.index(&0.into()));
        let j = e.facts.variable(count);
        let rank = e.for_loop(count, j, &[zero], |e, rank| {
            let y = from.load_key(e, &(start.clone() + Expr::from(j)));
            let j_at = e.index(&j.into());
            let (before, after) = (s.before(e, y, item[0]), s.before(e, item[0], y));
            // One that stands before stays before where it is equal.
            let yes = e.number(DType::I1, 1.0);
            let not_after = op(e, "arith.xori", after, yes);
            let earlier = compare(e, "arith.cmpi", cmpi::SLT, j_at, i_at);
            let counts = select(e, earlier, not_after, before);
            let counts = unit(e, counts);
            vec![op(e, "arith.addi", rank[0], counts)]
        });
        let rank = named(e, rank[0], &MOST.into());
        to.store(e, &(start.clone() + rank), &item);
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
            let [x, y] = [&left_at, &right_at].map(|i| from.load_key(e, i));
            let swapped = s.before(e, y, x);
            let best = if s.packed(e) {
                vec![op(e, if forwards { "arith.minsi" } else { "arith.maxsi" }, x, y)]
            } else {
                // Positions are chosen, and read again: a choice between floats would be a jump, which is wrong every other time.
                let (first, second) = if forwards { (right, left) } else { (left, right) };
                let best = select(e, swapped, first, second);
                let best = named(e, best, &MOST.into());
                from.load(e, &best)
            };
            to.store(e, &place, &best);
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
            from.load_key(e, &i)
        });
        // The right one only where it is there, and the left one is used up or comes later.
        let earlier = s.before(e, y, x);
        let yes = e.number(DType::I1, 1.0);
        let wanted = select(e, left_over, earlier, yes);
        let take = e.and(Some(right_over), wanted);
        let best = select(e, take, next[1], next[0]);
        let best = named(e, best, &MOST.into());
        let best = from.load(e, &best);
        to.store(e, &(start.clone() + Expr::from(k)), &best);
        let step = unit(e, take);
        let right = op(e, "arith.addi", next[1], step);
        let one = e.index(&1.into());
        let other = op(e, "arith.subi", one, step);
        vec![op(e, "arith.addi", next[0], other), right]
    });
}
