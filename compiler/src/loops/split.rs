//! Reductions of one stage that the threads of a block, and several blocks, share: of columns, and of few long rows (GPU).
//!
//! A block takes a *stripe* of what is kept and a *part* of what is reduced. Columns: vectors lie along what is kept, `lanes` threads side by
//! side, and the groups of a block take every so many-th row. Long rows: the stripe is one row, and vectors lie along it. Each thread combines what it reads;
//! the block combines its threads' results in shared memory. With several parts, it writes those to memory of the kernel's own and arrives; the last
//! block of the stripe combines the parts in the same way, in order, so that the result does not depend on who was last.

use super::combine::Combine;
use super::domain::block_mapping;
use super::emitter::{Emitter, Val};
use super::group::{Group, NodeId, Scratch, V};
use super::pointwise::store_at;
use super::rows::{narrowed, shuffled, widened};
use super::rows_plan::{Extent, Rows, reductions_below};
use super::runs::in_runs;
use melior::ir::attribute::IntegerAttribute;
use melior::ir::r#type::IntegerType;
use melior::ir::{Type, ValueLike};
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::{Expr, SymbolId};

/// Tickets of a kernel: stripes that several blocks may share.
pub const TICKETS: i64 = 1024;

/// Reductions of a kernel: their arrays in shared memory take 64 KB at most.
const MOST: usize = 8;

/// Results of groups that are combined where they are read.
const FOLD: i64 = 8;

/// Units that a thread reads before it uses the first.
pub const UNROLL: i64 = 8;

/// How the work is spread.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Elements of a vector.
    pub vector: i64,
    /// Threads side by side; 1 for rows.
    pub lanes: i64,
    /// Threads of a block.
    pub threads: i64,
    /// Blocks that share a stripe.
    pub parts: i64,
}

impl Shape {
    /// Kept positions of a block.
    pub fn width(&self, rows: &Rows) -> i64 {
        if rows.along { 1 } else { self.lanes * self.vector }
    }
}

/// Whether a kernel's reductions can be split: one stage, and what has the full extent comes from none of them.
pub fn splits(group: &Group<'_>, rows: &Rows) -> bool {
    let full = |o: &&NodeId| rows.extent(group, **o) == Some(Extent::Full);
    let first = &group.generics[rows.stages[0][0]].sizes;
    rows.stages.len() == 1
        && rows.stages[0].len() <= MOST
        && group
            .outputs
            .iter()
            .filter(full)
            .all(|&o| reductions_below(group, o).is_empty() && (rows.along || group.nodes[o].shape == *first))
}

/// Memory that the blocks of a kernel share: for each reduction a result a part and kept position, and the tickets.
pub fn scratch(group: &Group<'_>, rows: &Rows, shape: Shape) -> Vec<Scratch> {
    if shape.parts == 1 {
        return vec![];
    }
    let parts = rows.stages[0].iter().map(|&g| Scratch {
        dtype: shuffled(Combine::dtype_of(group, g)),
        shape: vec![shape.parts.into(), rows.rows.clone()],
        tickets: false,
    });
    parts.chain([Scratch { dtype: DType::I32, shape: vec![TICKETS.into()], tickets: true }]).collect()
}

struct Split<'r, 'c> {
    rows: &'r Rows,
    shape: Shape,
    outs: &'r [V<'c>],
    scratch: &'r [V<'c>],
    reductions: Vec<(usize, Combine<'c>)>,
    stripe: Expr,
    part: Expr,
    thread: SymbolId,
    /// Shared arrays (columns) or private ones (rows), one a reduction.
    arrays: Vec<V<'c>>,
}

/// Emits the kernel's body; the current scope is the function's. Returns the grid.
pub fn emit<'c>(
    e: &mut Emitter<'c, '_>,
    rows: &Rows,
    shape: Shape,
    outs: &[V<'c>],
    scratch: &[V<'c>],
) -> Vec<Expr> {
    let stripes = rows.rows.ceil_div(&shape.width(rows).into());
    let grid = if shape.parts == 1 { vec![stripes] } else { vec![shape.parts.into(), stripes] };
    let blocks: Vec<_> = grid.iter().map(|g| e.facts.variable(g)).collect();
    let thread = e.facts.variable(&shape.threads.into());
    let reductions: Vec<_> = rows.stages[0].iter().map(|&g| (g, Combine::of(e, g))).collect();
    e.forall(&grid, &block_mapping(grid.len()), &blocks, |e| {
        let [.., stripe] = blocks[..] else { unreachable!("a grid has a dimension") };
        let part = if shape.parts == 1 { Expr::default() } else { blocks[0].into() };
        let mut s = Split {
            rows,
            shape,
            outs,
            scratch,
            reductions,
            stripe: stripe.into(),
            part,
            thread,
            arrays: Vec::new(),
        };
        s.make_arrays(e);
        s.read(e);
        s.combine(e);
        if shape.parts == 1 {
            return s.threads(e, 1, |s, e| s.finish(e));
        }
        s.threads(e, 1, |s, e| s.leave(e));
        let at = [e.index(&s.stripe), e.index(&shape.parts.into())];
        let tickets = *scratch.last().expect("tickets");
        let i1 = dtype_to_mlir(e.context(), DType::I1);
        let last = e.b().value("loop.arrive", &[tickets, at[0], at[1]], i1, &[]);
        e.when(last, |e| {
            s.gather(e);
            s.combine(e);
            s.threads(e, 1, |s, e| s.finish(e));
        });
    });
    grid
}

impl<'c> Split<'_, 'c> {
    fn make_arrays(&mut self, e: &mut Emitter<'c, '_>) {
        let Shape { threads, lanes, .. } = self.shape;
        self.arrays = (self.reductions.iter())
            .map(|(_, c)| {
                let element = dtype_to_mlir(e.context(), shuffled(c.dtype));
                if self.rows.along {
                    e.array(&[threads, 1], element, "private")
                } else {
                    e.array(&[threads / lanes, self.shape.width(self.rows)], element, "workgroup")
                }
            })
            .collect();
    }

    /// A forall over the threads, with vectors of `lanes`.
    fn threads(&self, e: &mut Emitter<'c, '_>, lanes: i64, fill: impl FnOnce(&Self, &mut Emitter<'c, '_>)) {
        e.set_lanes(lanes);
        e.forall(&[self.shape.threads.into()], "#gpu.thread<linear_dim_0>", &[self.thread], |e| {
            e.floored(|e| fill(self, e));
        });
    }

    /// The number of the thread's group, and its place in it.
    fn place(&self, e: &Emitter<'_, '_>) -> (Expr, Expr) {
        let (thread, lanes) = (Expr::from(self.thread), Expr::from(self.shape.lanes));
        (e.facts.floor_div(&thread, &lanes), e.facts.modulo(&thread, &lanes))
    }

    /// What is kept of a thread's first vector, whether it is inside of the stripe, and the position that it reads.
    fn kept(&self, e: &mut Emitter<'c, '_>) -> (Option<V<'c>>, Expr) {
        if self.rows.along {
            return (None, self.stripe.clone());
        }
        let Shape { vector, lanes, .. } = self.shape;
        let (_, lane) = self.place(e);
        let first = (self.stripe.clone() * Expr::from(lanes) + lane) * Expr::from(vector);
        match e.in_range(&first, &self.rows.rows) {
            None => (None, first + e.lane_expr()),
            inside => {
                let last = self.rows.rows.clone() - Expr::from(vector);
                (inside, first.minimum(&last) + e.lane_expr())
            }
        }
    }

    /// Each thread's share of the part, and the outputs of full extent.
    fn read(&self, e: &mut Emitter<'c, '_>) {
        let Shape { vector, threads, lanes, parts } = self.shape;
        self.threads(e, vector, |s, e| {
            let (group, _) = s.place(e);
            let groups = threads / lanes;
            let along = if s.rows.along { vector } else { 1 };
            let units = e.facts.floor_div(&s.rows.columns, &along.into());
            let (inside, kept) = s.kept(e);
            let share = units.as_const().map_or(UNROLL, |n| (n + groups * parts - 1) / (groups * parts));
            let unroll = share.clamp(1, UNROLL);
            let steps = units.ceil_div(&(groups * parts * unroll).into());
            let full: Vec<_> = (e.group.outputs.iter().copied().zip(s.outs.iter().copied()))
                .filter(|(o, _)| s.rows.extent(e.group, *o) == Some(Extent::Full))
                .collect();
            let sums = s.sums(e, &steps, |s, e, step, sums, neutrals| {
                let vectors: Vec<_> = (0..unroll)
                    .map(|u| {
                        let step = (s.part.clone() * steps.clone() + step.clone()) * Expr::from(unroll)
                            + Expr::from(u);
                        let unit = step * Expr::from(groups) + group.clone();
                        let ragged = !e.facts.below(&unit, &units);
                        let present = ragged.then(|| e.compare("slt", &unit, &units));
                        let unit = if ragged { unit.minimum(&(units.clone() - 1.into())) } else { unit };
                        let mut column = unit * Expr::from(along);
                        if s.rows.along {
                            column = column + e.lane_expr();
                        }
                        (present, column)
                    })
                    .collect();
                let mut roots = Vec::new();
                for (_, column) in &vectors {
                    for &(g, _) in &s.reductions {
                        let loops = s.rows.loops(e, g, &kept, column);
                        for i in 0..e.group.generics[g].inputs {
                            let (node, index) = e.operand_place(g, i, &loops);
                            roots.push(e.place(node, &index));
                        }
                    }
                }
                e.read_first(&roots);
                let mut terms = vec![Vec::new(); s.reductions.len()];
                for (present, column) in &vectors {
                    for (k, &(g, _)) in s.reductions.iter().enumerate() {
                        let loops = s.rows.loops(e, g, &kept, column);
                        let v = e.contribution(g, loops);
                        let mut v = if e.lanes > 1 { e.widen(v) } else { v.v };
                        if let Some(present) = present {
                            v = e.b().value("arith.select", &[*present, v, neutrals[k]], v.r#type(), &[]);
                        }
                        terms[k].push(v);
                    }
                    let write = |e: &mut Emitter<'c, '_>| {
                        for &(o, memref) in &full {
                            let index = s.rows.output(e, o, &kept, column);
                            store_at(e, o, memref, &index);
                        }
                    };
                    let mine = match (present, inside) {
                        (Some(p), inside) => Some(e.and(inside, *p)),
                        (None, inside) => inside,
                    };
                    match mine {
                        _ if full.is_empty() => {}
                        Some(mine) => e.when(mine, write),
                        None => write(e),
                    }
                }
                s.add(e, sums, terms)
            });
            s.keep(e, &sums);
        });
    }

    /// Combines each reduction's terms in pairs, and then with what it has: few roundings come one after another.
    fn add(&self, e: &Emitter<'c, '_>, sums: &[V<'c>], terms: Vec<Vec<V<'c>>>) -> Vec<V<'c>> {
        let all = self.reductions.iter().zip(sums).zip(terms);
        all.map(|(((_, c), &sum), terms)| {
            let term = c.pairwise(e, terms);
            c.apply(e, sum, term)
        })
        .collect()
    }

    /// The parts of the stripe, read by the block that arrives last.
    fn gather(&self, e: &mut Emitter<'c, '_>) {
        let Shape { vector, threads, lanes, parts } = self.shape;
        self.threads(e, if self.rows.along { 1 } else { vector }, |s, e| {
            let (group, _) = s.place(e);
            let groups = threads / lanes;
            let (_, kept) = s.kept(e);
            let steps = Expr::from(parts).ceil_div(&(groups * UNROLL).into());
            let sums = s.sums(e, &steps, |s, e, step, sums, neutrals| {
                let mut terms = vec![Vec::new(); s.reductions.len()];
                let mut read = Vec::new();
                for u in 0..UNROLL {
                    let part = (step.clone() * Expr::from(UNROLL) + Expr::from(u)) * Expr::from(groups)
                        + group.clone();
                    if (u * groups) >= parts {
                        break;
                    }
                    let ragged = !e.facts.below(&part, &parts.into());
                    let present = ragged.then(|| e.compare("slt", &part, &parts.into()));
                    let part = if ragged { part.minimum(&(parts - 1).into()) } else { part };
                    let at = [part, kept.clone()];
                    let values: Vec<_> = (s.reductions.iter().zip(s.scratch))
                        .map(|((_, c), &memref)| {
                            let dtype = shuffled(c.dtype);
                            let v = if e.lanes > 1 {
                                e.load_vector(memref, &at, &[parts.into(), s.rows.rows.clone()], dtype)
                            } else {
                                e.load(memref, &at)
                            };
                            narrowed(e, v, c.dtype)
                        })
                        .collect();
                    read.push((present, values));
                }
                for (present, values) in read {
                    for (k, v) in values.into_iter().enumerate() {
                        terms[k].push(match present {
                            Some(p) => e.b().value("arith.select", &[p, v, neutrals[k]], v.r#type(), &[]),
                            None => v,
                        });
                    }
                }
                s.add(e, sums, terms)
            });
            s.keep(e, &sums);
        });
    }

    /// Combines what `step` gives for `steps` steps.
    fn sums(
        &self,
        e: &mut Emitter<'c, '_>,
        steps: &Expr,
        step: impl Fn(&Self, &mut Emitter<'c, '_>, &Expr, &[V<'c>], &[V<'c>]) -> Vec<V<'c>>,
    ) -> Vec<V<'c>> {
        let neutrals: Vec<_> = (self.reductions.iter())
            .map(|(_, c)| {
                let scalar = dtype_to_mlir(e.context(), c.dtype);
                let ty: Type<'c> = if e.lanes > 1 { e.vector_type(c.dtype) } else { scalar };
                e.constant_of(ty, c.neutral(e.context()))
            })
            .collect();
        let carried: Vec<_> = self.reductions.iter().map(|&(_, c)| c).zip(neutrals.iter().copied()).collect();
        in_runs(e, steps, &carried, &neutrals, &neutrals, &mut |e, first, count, sums| {
            if count.as_const() == Some(1) {
                return step(self, e, first, sums, &neutrals);
            }
            let variable = e.facts.variable(count);
            e.for_loop(count, variable, sums, |e, sums| {
                let number = first.clone() + Expr::from(variable);
                step(self, e, &number, sums, &neutrals)
            })
        })
    }

    /// Puts a thread's results where the block combines them.
    fn keep(&self, e: &mut Emitter<'c, '_>, sums: &[V<'c>]) {
        let Shape { vector, threads, lanes, .. } = self.shape;
        for ((&array, (_, c)), &sum) in self.arrays.iter().zip(&self.reductions).zip(sums) {
            if self.rows.along {
                let v = c.lanes(e, sum);
                let v = widened(e, v, c.dtype);
                e.store(v, array, &[self.thread.into(), 0.into()]);
                continue;
            }
            let (group, lane) = self.place(e);
            let v = widened(e, sum, c.dtype);
            let at = [group, lane * Expr::from(vector) + e.lane_expr()];
            let shape = [(threads / lanes).into(), self.shape.width(self.rows).into()];
            if e.lanes > 1 {
                e.store_vector(v, array, &at, &shape, shuffled(c.dtype));
            } else {
                e.store(v, array, &at);
            }
        }
    }

    /// Combines the threads' results: of rows all, of columns those of so many groups that [`Self::results`] reads few.
    fn combine(&self, e: &mut Emitter<'c, '_>) {
        if !self.rows.along {
            let mut groups = self.shape.threads / self.shape.lanes;
            while groups > FOLD {
                groups /= 2;
                self.threads(e, self.shape.vector, |s, e| s.halve(e, groups));
            }
            return;
        }
        for (&array, (_, c)) in self.arrays.iter().zip(&self.reductions) {
            let kind = IntegerAttribute::new(IntegerType::new(e.context(), 32).into(), c.number());
            e.b().op("loop.all_reduce", &[array], &[], &[("kind", kind.into())], vec![]);
        }
    }

    /// Adds the results of the groups from `half` on to those of the groups before.
    fn halve(&self, e: &mut Emitter<'c, '_>, half: i64) {
        let Shape { vector, threads, lanes, .. } = self.shape;
        let (group, lane) = self.place(e);
        let shape = [Expr::from(threads / lanes), self.shape.width(self.rows).into()];
        let column = lane * Expr::from(vector) + e.lane_expr();
        let first = e.compare("slt", &group, &half.into());
        e.when(first, |e| {
            for (&array, (_, c)) in self.arrays.iter().zip(&self.reductions) {
                let dtype = shuffled(c.dtype);
                let [a, b] = [group.clone(), group.clone() + Expr::from(half)].map(|g| {
                    let at = [g, column.clone()];
                    let v = if e.lanes > 1 {
                        e.load_vector(array, &at, &shape, dtype)
                    } else {
                        e.load(array, &at)
                    };
                    narrowed(e, v, c.dtype)
                });
                let sum = c.apply(e, a, b);
                let sum = widened(e, sum, c.dtype);
                let at = [group.clone(), column.clone()];
                if e.lanes > 1 {
                    e.store_vector(sum, array, &at, &shape, dtype);
                } else {
                    e.store(sum, array, &at);
                }
            }
        });
    }

    /// For each kept position of the block: its results, one a reduction, to `take`.
    fn results(&self, e: &mut Emitter<'c, '_>, take: impl Fn(&Self, &mut Emitter<'c, '_>, &Expr, &[V<'c>])) {
        let Shape { threads, lanes, .. } = self.shape;
        let width = self.shape.width(self.rows);
        let groups = if self.rows.along { 1 } else { (threads / lanes).min(FOLD) };
        for k in 0..(width + threads - 1) / threads {
            let own = Expr::from(k * threads) + Expr::from(self.thread);
            let mine = e.in_range(&own, &width.into());
            let kept = self.stripe.clone() * Expr::from(width)
                + if self.rows.along { Expr::default() } else { own.clone() };
            let work = |e: &mut Emitter<'c, '_>| {
                let values: Vec<_> = (self.arrays.iter().zip(&self.reductions))
                    .map(|(&array, (_, c))| {
                        let at = |n: i64| {
                            if self.rows.along { [own.clone(), 0.into()] } else { [n.into(), own.clone()] }
                        };
                        let all: Vec<_> = (0..groups)
                            .map(|n| {
                                let v = e.load(array, &at(n));
                                narrowed(e, v, c.dtype)
                            })
                            .collect();
                        c.pairwise(e, all)
                    })
                    .collect();
                match e.in_range(&kept, &self.rows.rows) {
                    Some(inside) => e.when(inside, |e| take(self, e, &kept, &values)),
                    None => take(self, e, &kept, &values),
                }
            };
            match mine {
                Some(mine) => e.when(mine, work),
                None => work(e),
            }
        }
    }

    /// Writes the block's results to memory that the blocks share.
    fn leave(&self, e: &mut Emitter<'c, '_>) {
        self.results(e, |s, e, kept, values| {
            for ((v, (_, c)), &memref) in values.iter().zip(&s.reductions).zip(s.scratch) {
                let v = widened(e, *v, c.dtype);
                e.store(v, memref, &[s.part.clone(), kept.clone()]);
            }
        });
    }

    /// Computes the outputs that have one element a kept position.
    fn finish(&self, e: &mut Emitter<'c, '_>) {
        self.results(e, |s, e, kept, values| {
            for (&v, &(g, c)) in values.iter().zip(&s.reductions) {
                let place = s.rows.result(e, g, kept);
                let v = match e.initial(g, &place.1) {
                    Some(initial) => c.apply(e, v, initial.v),
                    None => v,
                };
                e.remember(place, Val { v, lanes: false });
            }
            let outputs = e.group.outputs.iter().copied().zip(s.outs.iter().copied());
            for (o, memref) in outputs.collect::<Vec<_>>() {
                if s.rows.extent(e.group, o) == Some(Extent::Row) {
                    let index = s.rows.output(e, o, kept, &Expr::default());
                    store_at(e, o, memref, &index);
                }
            }
        });
    }
}
