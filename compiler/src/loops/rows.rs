//! Kernels of row reductions on the GPU: a warp or a block a row, stages separated by collectives, the row in registers.

use super::combine::Combine;
use super::domain::{block_mapping, number, parts};
use super::emitter::{Emitter, Val};
use super::group::V;
use super::online;
use super::pointwise::store_at;
use super::rows_plan::{Extent, Held, Keep, Plan, Rows, plan};
use super::runs::in_runs;
use melior::ir::ValueLike;
use std::collections::BTreeMap;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::{Expr, SymbolId};

/// The shape of the work of a kernel: a row to `threads` threads, vectors of `vector` elements.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Elements of a vector.
    pub vector: i64,
    /// Threads that share a row.
    pub threads: i64,
    /// Rows of a block.
    pub rows: i64,
    /// Whether each stage goes through the row again, in a loop, instead of keeping it in registers.
    pub looped: bool,
    /// Of looped rows: whether what is read again is in shared memory.
    pub shared: bool,
}

/// Vectors that a thread reads before it uses the first, where a row does not fit in registers.
pub const UNROLL: i64 = 4;

/// A row's code under construction.
pub(super) struct RowsEmitter<'r, 'c> {
    pub(super) rows: &'r Rows,
    pub(super) shape: Shape,
    outs: &'r [V<'c>],
    plan: Plan,
    /// Planning variable: the position in the row.
    column: SymbolId,
    pub(super) thread: SymbolId,
    pub(super) row: Expr,
    /// Private arrays of what is held.
    arrays: Vec<V<'c>>,
    /// Private arrays of partial results, and the position of each reduction in them.
    pub(super) partials: Vec<(V<'c>, Combine<'c>)>,
    pub(super) slots: BTreeMap<usize, (usize, i64)>,
}

/// Emits the kernel's body; the current scope is the function's. Returns the grid.
pub fn emit<'c>(e: &mut Emitter<'c, '_>, rows: &Rows, shape: Shape, outs: &[V<'c>]) -> Vec<Expr> {
    e.set_lanes(shape.vector);
    let parts = parts(&rows.row_sizes);
    let mut grid: Vec<Expr> = parts.iter().map(|p| p.size.clone()).collect();
    let last = grid.pop().expect("at least one part");
    grid.push(last.ceil_div(&shape.rows.into()));
    let blocks: Vec<_> = grid.iter().map(|g| e.facts.variable(g)).collect();
    let thread = e.facts.variable(&shape.threads.into());
    let column = e.facts.variable(&rows.columns);
    e.forall(&grid, &block_mapping(grid.len()), &blocks, |e| {
        let mut at: Vec<Expr> = blocks.iter().map(|&b| b.into()).collect();
        let mut r = RowsEmitter {
            rows,
            shape,
            outs,
            plan: Plan::default(),
            column,
            thread,
            row: number(&parts, &at),
            arrays: Vec::new(),
            partials: Vec::new(),
            slots: BTreeMap::new(),
        };
        if shape.rows == 1 {
            r.arrays(e);
            return r.row(e);
        }
        let warp = e.facts.variable(&shape.rows.into());
        e.forall(&[shape.rows.into()], "#gpu.warp<linear_dim_0>", &[warp], |e| {
            let own = at.pop().expect("at least one part") * Expr::from(shape.rows) + Expr::from(warp);
            let inside = e.in_range(&own, &last);
            at.push(own);
            r.row = number(&parts, &at);
            r.arrays(e);
            match inside {
                Some(inside) => e.when(inside, |e| r.row(e)),
                None => r.row(e),
            }
        });
    });
    grid
}

impl<'c> RowsEmitter<'_, 'c> {
    /// Plans, and makes the private arrays.
    fn arrays(&mut self, e: &mut Emitter<'c, '_>) {
        let row = self.row.clone();
        let keep = match self.shape {
            Shape { shared: true, .. } => Keep::Reads,
            Shape { looped: true, .. } => Keep::Nothing,
            _ => Keep::All,
        };
        self.plan = plan(e, self.rows, &row, self.column, keep);
        for h in &self.plan.held {
            let dtype = e.held_dtype(h.place.0);
            if self.shape.shared {
                let columns =
                    self.rows.columns.as_const().expect("a row in shared memory has a static length");
                self.arrays.push(e.array(&[columns], dtype_to_mlir(e.context(), dtype), "workgroup"));
                continue;
            }
            let steps = self.steps().expect("a row in registers has a static length");
            let shape = [self.shape.threads, steps, e.lanes];
            self.arrays.push(e.array(&shape, dtype_to_mlir(e.context(), dtype), "private"));
        }
        for stage in &self.rows.stages {
            let mut kinds: Vec<(Combine<'c>, Vec<usize>)> = Vec::new();
            for &g in stage {
                let c = Combine::of(e, g);
                match kinds.iter_mut().find(|(k, _)| *k == c) {
                    Some((_, list)) => list.push(g),
                    None => kinds.push((c, vec![g])),
                }
            }
            for (c, list) in kinds {
                let element = dtype_to_mlir(e.context(), shuffled(c.dtype));
                let array = e.array(&[self.shape.threads, list.len() as i64], element, "private");
                for (slot, g) in list.into_iter().enumerate() {
                    self.slots.insert(g, (self.partials.len(), slot as i64));
                }
                self.partials.push((array, c));
            }
        }
    }

    /// One row.
    fn row(&mut self, e: &mut Emitter<'c, '_>) {
        let online = if self.shape.looped { online::stage(e.group, self.rows) } else { None };
        let mut s = 0;
        while s < self.rows.stages.len() {
            if online == Some(s) {
                self.online(e, s);
                s += 2;
                continue;
            }
            self.threads(e, |r, e| {
                r.load_stage(e, s);
                r.reduce(e, s);
            });
            self.all_reduce(e, s);
            s += 1;
        }
        self.threads(e, |r, e| {
            r.load_stage(e, s);
            r.store(e);
        });
    }

    /// A forall over the threads of the row.
    pub(super) fn threads(
        &mut self,
        e: &mut Emitter<'c, '_>,
        fill: impl FnOnce(&mut Self, &mut Emitter<'c, '_>),
    ) {
        let mapping =
            if self.shape.rows == 1 { "#gpu.thread<linear_dim_0>" } else { "#gpu.lane<linear_dim_0>" };
        e.forall(&[self.shape.threads.into()], mapping, &[self.thread], |e| e.floored(|e| fill(self, e)));
    }

    /// Elements that the threads of a row read in one step.
    pub(super) fn stride(&self) -> i64 {
        self.shape.threads * self.shape.vector
    }

    /// Vectors of a thread, where the row is in registers.
    fn steps(&self) -> Option<i64> {
        let columns = self.rows.columns.as_const()?;
        Some((columns + self.stride() - 1) / self.stride())
    }

    /// Vectors of a thread that the code knows one by one.
    fn unrolled(&self) -> i64 {
        if self.shape.looped { 0 } else { self.steps().expect("a row in registers has a static length") }
    }

    /// The column of a thread's vector `k`; inside of the row also where the thread has nothing to do.
    pub(super) fn column_at(&self, e: &Emitter<'_, '_>, k: &Expr) -> Expr {
        let base = self.base(k);
        if self.ragged(e, k) {
            return base.minimum(&(self.rows.columns.clone() - Expr::from(self.shape.vector)))
                + e.lane_expr();
        }
        base + e.lane_expr()
    }

    fn base(&self, k: &Expr) -> Expr {
        (k.clone() * Expr::from(self.shape.threads) + Expr::from(self.thread)) * Expr::from(self.shape.vector)
    }

    /// Whether some threads have no vector `k`.
    fn ragged(&self, e: &Emitter<'_, '_>, k: &Expr) -> bool {
        !e.facts.below(&self.base(k), &self.rows.columns)
    }

    /// Whether a thread has a vector `k`, where that is not known.
    pub(super) fn present(&self, e: &mut Emitter<'c, '_>, k: &Expr) -> Option<V<'c>> {
        self.ragged(e, k).then(|| e.compare("slt", &self.base(k), &self.rows.columns))
    }

    fn at(&self, e: &Emitter<'_, '_>, place: &super::emitter::Place, k: &Expr) -> super::emitter::Place {
        let column = self.column_at(e, k);
        let variable = self.column;
        let index: Vec<_> = place
            .1
            .iter()
            .map(|x| {
                e.facts.simplify(&x.substitute(&|s| if s == variable { column.clone() } else { s.into() }))
            })
            .collect();
        e.place(place.0, &index)
    }

    /// Makes known what earlier stages kept; issues all reads of the stage before their first use.
    pub(super) fn load_stage(&mut self, e: &mut Emitter<'c, '_>, stage: usize) {
        let (thread, row) = (Expr::from(self.thread), self.row.clone());
        for (h, array) in self.plan.held.iter().zip(&self.arrays).filter(|_| !self.shape.shared) {
            if h.uses.contains(&stage) {
                for k in (0..self.unrolled()).map(Expr::from) {
                    let at = [thread.clone(), k.clone(), e.lane_expr()];
                    let v = e.load_private(*array, &at, e.held_dtype(h.place.0));
                    let v = e.recalled(h.place.0, v);
                    let place = self.at(e, &h.place, &k);
                    e.remember(place, Val { v, lanes: e.lanes > 1 });
                }
            }
        }
        for s in 0..stage {
            for &g in &self.rows.stages[s] {
                let (array, slot) = self.slots[&g];
                let (array, combine) = self.partials[array];
                let v = e.load(array, &[thread.clone(), slot.into()]);
                let mut v = narrowed(e, v, combine.dtype);
                let place = self.rows.result(e, g, &row);
                if let Some(initial) = e.initial(g, &place.1) {
                    v = combine.apply(e, v, initial.v);
                }
                e.remember(place, Val { v, lanes: false });
            }
        }
        for k in (0..self.unrolled()).map(Expr::from) {
            self.read(e, stage, &k);
            self.keep(e, stage, &k, true);
        }
    }

    /// Reads the operands of a stage for a thread's vector `k`, some from shared memory, where later stages find what this one reads.
    pub(super) fn read(&self, e: &mut Emitter<'c, '_>, stage: usize, k: &Expr) {
        for read in &self.plan.reads[stage] {
            let place = self.at(e, read, k);
            e.value_at(place.0, &place.1);
        }
        if !self.shape.shared {
            return;
        }
        let (at, size) = ([self.column_at(e, k)], [self.rows.columns.clone()]);
        for (h, &array) in self.plan.held.iter().zip(&self.arrays) {
            let dtype = e.group.nodes[h.place.0].dtype;
            let place = self.at(e, &h.place, k);
            if h.uses.contains(&stage) {
                let v =
                    if e.lanes > 1 { e.load_vector(array, &at, &size, dtype) } else { e.load(array, &at) };
                e.remember(place, Val { v, lanes: e.lanes > 1 });
            }
        }
    }

    /// Puts what a stage reads for later ones into shared memory.
    pub(super) fn share(&self, e: &mut Emitter<'c, '_>, stage: usize, k: &Expr) {
        let (at, size) = ([self.column_at(e, k)], [self.rows.columns.clone()]);
        for (h, &array) in self.plan.held.iter().zip(&self.arrays) {
            if self.shape.shared && h.first == stage {
                let dtype = e.group.nodes[h.place.0].dtype;
                let place = self.at(e, &h.place, k);
                let v = e.value_at(place.0, &place.1);
                if e.lanes > 1 {
                    let v = e.widen(v);
                    e.store_vector(v, array, &at, &size, dtype);
                } else {
                    e.store(v.v, array, &at);
                }
            }
        }
    }

    /// Runs `step` for the vectors of a thread, with values carried from one to the next; `carried` says how they combine and what they
    /// start from.
    fn for_vectors(
        &mut self,
        e: &mut Emitter<'c, '_>,
        stage: usize,
        carried: &[(Combine<'c>, V<'c>)],
        mut step: impl FnMut(&mut Self, &mut Emitter<'c, '_>, &Expr, Vec<V<'c>>) -> Vec<V<'c>>,
    ) -> Vec<V<'c>> {
        let initial: Vec<V<'c>> = carried.iter().map(|c| c.1).collect();
        if !self.shape.looped {
            return (0..self.unrolled()).fold(initial, |carried, k| step(self, e, &k.into(), carried));
        }
        let bound = self.rows.columns.ceil_div(&(self.stride() * UNROLL).into());
        in_runs(e, &bound, carried, &initial, &initial, &mut |e, first, count, carried| {
            let variable = e.facts.variable(count);
            e.for_loop(count, variable, carried, |e, carried| {
                let number = first.clone() + Expr::from(variable);
                let vectors: Vec<Expr> =
                    (0..UNROLL).map(|u| number.clone() * Expr::from(UNROLL) + Expr::from(u)).collect();
                for k in &vectors {
                    self.read(e, stage, k);
                }
                for k in &vectors {
                    self.share(e, stage, k);
                }
                vectors.iter().fold(carried.to_vec(), |carried, k| step(self, e, k, carried))
            })
        })
    }

    /// Stores what the stage computes for later ones: operands, or everything else.
    fn keep(&mut self, e: &mut Emitter<'c, '_>, stage: usize, k: &Expr, operands: bool) {
        if self.shape.shared {
            return;
        }
        let held: Vec<(Held, V<'c>)> =
            self.plan.held.iter().cloned().zip(self.arrays.iter().copied()).collect();
        for (h, array) in held {
            let read = matches!(e.group.nodes[h.place.0].kind, super::group::Kind::Input(_));
            if h.first == stage && read == operands {
                let place = self.at(e, &h.place, k);
                let v = e.value_at(place.0, &place.1);
                let v = e.held(h.place.0, v);
                let at = [self.thread.into(), k.clone(), e.lane_expr()];
                e.store_private(v, array, &at);
            }
        }
    }

    /// A thread's part of a stage's reductions.
    fn reduce(&mut self, e: &mut Emitter<'c, '_>, stage: usize) {
        let generics = self.rows.stages[stage].clone();
        let neutrals: Vec<_> = generics
            .iter()
            .map(|&g| {
                let combine = Combine::of(e, g);
                let ty = dtype_to_mlir(e.context(), combine.dtype);
                let ty = if e.lanes > 1 { e.vector_type(combine.dtype) } else { ty };
                e.constant_of(ty, combine.neutral(e.context()))
            })
            .collect();
        let starts: Vec<_> =
            generics.iter().map(|&g| Combine::of(e, g)).zip(neutrals.iter().copied()).collect();
        let sums = self.for_vectors(e, stage, &starts, |r, e, k, carried| {
            let column = r.column_at(e, k);
            let present = r.present(e, k);
            let next = generics.iter().zip(carried).zip(&neutrals).map(|((&g, sum), &neutral)| {
                let combine = Combine::of(e, g);
                let loops = r.rows.loops(e, g, &r.row, &column);
                let v = e.contribution(g, loops);
                let mut v = if e.lanes > 1 { e.widen(v) } else { v.v };
                if let Some(present) = present {
                    v = e.b().value("arith.select", &[present, v, neutral], v.r#type(), &[]);
                }
                // The first vector needs no neutral element.
                if sum == neutral && !r.shape.looped { v } else { combine.apply(e, sum, v) }
            });
            let next = next.collect();
            r.keep(e, stage, k, false);
            next
        });
        for (g, sum) in generics.iter().zip(sums) {
            let (array, slot) = self.slots[g];
            let (array, combine) = self.partials[array];
            let v = combine.lanes(e, sum);
            let v = widened(e, v, combine.dtype);
            e.store(v, array, &[self.thread.into(), slot.into()]);
        }
    }

    /// The last stage: outputs.
    fn store(&mut self, e: &mut Emitter<'c, '_>) {
        let outputs: Vec<_> = e.group.outputs.iter().copied().zip(self.outs.iter().copied()).collect();
        let row = self.row.clone();
        let last = self.rows.stages.len();
        if outputs.iter().any(|(o, _)| self.rows.extent(e.group, *o) == Some(Extent::Full)) {
            self.for_vectors(e, last, &[], |r, e, k, _| {
                let column = r.column_at(e, k);
                let full: Vec<_> = outputs
                    .iter()
                    .filter(|(o, _)| r.rows.extent(e.group, *o) == Some(Extent::Full))
                    .map(|&(o, memref)| (o, memref, r.rows.output(e, o, &row, &column)))
                    .collect();
                let stores =
                    |e: &mut Emitter<'c, '_>| full.iter().for_each(|(o, m, i)| store_at(e, *o, *m, i));
                match r.present(e, k) {
                    Some(present) => e.when(present, stores),
                    None => stores(e),
                }
                vec![]
            });
        }
        let narrow: Vec<_> = outputs
            .iter()
            .filter(|(o, _)| self.rows.extent(e.group, *o) == Some(Extent::Row))
            .map(|&(o, memref)| (o, memref, self.rows.output(e, o, &row, &Expr::default())))
            .collect();
        if !narrow.is_empty() {
            let first = e.compare("eq", &self.thread.into(), &0.into());
            e.when(first, |e| narrow.iter().for_each(|(o, m, i)| store_at(e, *o, *m, i)));
        }
    }
}

/// The type in which values go from thread to thread.
pub fn shuffled(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::I1 | DType::I8 | DType::I16 => DType::I32,
        d => d,
    }
}

/// A value in the type in which it goes to other threads.
pub fn widened<'c>(e: &Emitter<'c, '_>, v: V<'c>, dtype: DType) -> V<'c> {
    let to = shuffled(dtype);
    match dtype {
        d if d == to => v,
        d if d.is_float() => e.convert("arith.extf", v, to),
        _ => e.convert("arith.extsi", v, to),
    }
}

/// A value that came from another thread, in its type.
pub fn narrowed<'c>(e: &Emitter<'c, '_>, v: V<'c>, dtype: DType) -> V<'c> {
    match dtype {
        d if d == shuffled(d) => v,
        d if d.is_float() => e.convert("arith.truncf", v, d),
        d => e.convert("arith.trunci", v, d),
    }
}
