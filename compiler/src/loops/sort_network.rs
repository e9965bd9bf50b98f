//! Sorting on the GPU: a block takes a row and compares pairs of elements side by side.
//!
//! It is a bitonic network in which every comparison has the same direction, as each merge begins with pairs that lie mirrored. Places
//! beyond the end of the row then stand for elements that are larger than all others and never move, so rows of any length need no
//! padding. Positions decide between equal elements, which makes the result the stable one.

use super::domain::{block_mapping, parts, positions};
use super::emitter::Emitter;
use super::group::V;
use super::sort::{MOST, Row, Sort, compare, doublings, moved, named, op, rows, select};
use strata_dialects::scalar::cmpi;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// Bytes of shared memory that an element takes.
pub fn shared_bytes(dtype: DType) -> i64 {
    if moved(dtype).len() == 1 { 8 } else { dtype.size() as i64 + 4 }
}

/// Emits a sort, `threads` threads a row. Returns the grid.
pub fn emit<'c>(e: &mut Emitter<'c, '_>, s: Sort, threads: i64, shared: bool, outs: &[V<'c>]) -> Vec<Expr> {
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
            Some(n) => shared_row(e, &s, n),
            None => s.in_place(e, outs, &row),
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
        if shared || s.packed(e) {
            shares(e, threads, &n, |e, i| {
                let item = work.load(e, &i);
                s.unpack(e, &row, &i, &item, &out);
            });
        }
    });
    grid
}

/// A row in shared memory, where positions have 32 bits.
fn shared_row<'c>(e: &mut Emitter<'c, '_>, s: &Sort, n: i64) -> Row<'c> {
    let types = match *moved(s.dtype(e)) {
        [element, _] => vec![element, DType::I32],
        _ => vec![DType::I64],
    };
    let parts = types
        .into_iter()
        .map(|d| {
            let ty = dtype_to_mlir(e.context(), d);
            e.array(&[n.max(1)], ty, "workgroup")
        })
        .collect();
    Row { parts, around: (vec![], vec![]) }
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
    let mirror = select(e, first, low, zero);
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
        let (x, y) = (row.load(e, &i), row.load(e, &j));
        let wrong = s.before(e, y[0], x[0]);
        let swap = match (x.get(1), y.get(1)) {
            (Some(&x_place), Some(&y_place)) => {
                let right = s.before(e, x[0], y[0]);
                let later = compare(e, "arith.cmpi", cmpi::SLT, y_place, x_place);
                let no = e.number(DType::I1, 0.0);
                let equal = select(e, right, no, later);
                op(e, "arith.ori", wrong, equal)
            }
            _ => wrong,
        };
        e.when(swap, |e| {
            row.store(e, &i, &y);
            row.store(e, &j, &x);
        });
    });
}
