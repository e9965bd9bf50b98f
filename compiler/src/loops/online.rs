//! The largest element of a row and the sum of exponentials less it, in one pass over the row (GPU, rows that do not fit in registers).
//!
//! law: with m the largest so far and s the sum of `exp(v - m)` so far, a further element v makes them `m' = max(m, v)` and
//! `s exp(m - m') + exp(v - m')` (Milakov and Gimelshein, 2018). A thread does so for some vectors at once, with one factor for all of them; when the threads
//! know the row's largest element, each brings its sum to it in the same way. Not in strict numerics: sums are rounded otherwise.

use super::body::contracts;
use super::combine::Combine;
use super::emitter::{Emitter, Val};
use super::group::{Generic, Group, Kind, NodeId, V, argument_number, definition};
use super::rows::{RowsEmitter, UNROLL, narrowed, widened};
use super::rows_plan::{Rows, reductions_below};
use crate::ir;
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::IntegerType;
use melior::ir::{BlockLike, ValueLike};
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// The stage of a largest element, where all of the next are sums of exponentials less it.
pub fn stage(group: &Group<'_>, rows: &Rows) -> Option<usize> {
    (0..rows.stages.len().saturating_sub(1)).find(|&s| {
        let [largest] = rows.stages[s][..] else { return false };
        let named = |g: usize, op: &str| {
            group.generics[g].combine.is_some_and(|(c, _)| ir::name(&c) == op)
                && group.generics[g].inputs == 1
        };
        named(largest, "arith.maximumf")
            && Combine::dtype_of(group, largest) != DType::F64
            && rows.stages[s + 1].iter().all(|&g| {
                let less = exponent(group, group.generics[g].operands[0]);
                named(g, "arith.addf")
                    && Combine::dtype_of(group, g) == DType::F32
                    && less.is_some_and(|[v, m]| {
                        m == rows.results[&largest]
                            && v == stripped(group, group.generics[largest].operands[0])
                            && !reductions_below(group, v).contains(&largest)
                    })
            })
    })
}

/// The one op of a generic's body besides conversions, if it is one.
fn single<'c>(g: &Generic<'c>) -> Option<OperationRef<'c, 'c>> {
    let mut ops = ir::ops(g.body)
        .into_iter()
        .filter(|op| !matches!(ir::name(op), "arith.extf" | "arith.truncf" | "linalg.yield"));
    let op = ops.next()?;
    // SAFETY: the module outlives emission.
    ops.next().is_none().then(|| unsafe { OperationRef::from_raw(op.to_raw()) })
}

/// What a node is a conversion of, or itself.
fn stripped(group: &Group<'_>, node: NodeId) -> NodeId {
    match group.nodes[node].kind {
        Kind::Generic(g, _) if !group.generics[g].reduces() && group.generics[g].inputs == 1 => {
            let generic = &group.generics[g];
            let converts = |op: &OperationRef<'_, '_>| matches!(ir::name(op), "arith.extf" | "linalg.yield");
            let returns = generic.body.terminator().and_then(|t| t.operand(0).ok());
            let from = returns.map(|mut v| {
                while let Some(op) = definition(super::group::value(v)) {
                    v = op.operand(0).expect("a conversion has an operand");
                }
                argument_number(super::group::value(v), generic.body)
            });
            if ir::ops(generic.body).iter().all(converts) && from.flatten() == Some(0) {
                stripped(group, generic.operands[0])
            } else {
                node
            }
        }
        _ => node,
    }
}

/// `[v, m]` of a node that is `exp(v - m)`, but for conversions.
fn exponent(group: &Group<'_>, node: NodeId) -> Option<[NodeId; 2]> {
    let exp = pointwise(group, node)?;
    let op = single(exp)?;
    if ir::name(&op) != "math.exp" || !contracts(op) {
        return None;
    }
    let difference = pointwise(group, stripped(group, exp.operands[0]))?;
    let op = single(difference)?;
    if ir::name(&op) != "arith.subf" {
        return None;
    }
    let operand = |i: usize| {
        let mut v = super::group::value(op.operand(i).ok()?);
        while let Some(convert) = definition(v) {
            v = super::group::value(convert.operand(0).ok()?);
        }
        Some(stripped(group, difference.operands[argument_number(v, difference.body)?]))
    };
    Some([operand(0)?, operand(1)?])
}

fn pointwise<'g, 'c>(group: &'g Group<'c>, node: NodeId) -> Option<&'g Generic<'c>> {
    match group.nodes[stripped(group, node)].kind {
        Kind::Generic(g, _) if !group.generics[g].reduces() => Some(&group.generics[g]),
        _ => None,
    }
}

impl<'c> RowsEmitter<'_, 'c> {
    /// Both stages from `s` on, in one pass.
    pub(super) fn online(&mut self, e: &mut Emitter<'c, '_>, s: usize) {
        let largest = self.rows.stages[s][0];
        let sums = self.rows.stages[s + 1].clone();
        let max = Combine::of(e, largest);
        let f32 = dtype_to_mlir(e.context(), DType::F32);
        let own = e.array(&[self.shape.threads, 1], f32, "private");
        self.threads(e, |r, e| {
            r.load_stage(e, s);
            let (m, values) = r.pass(e, s, max, &sums);
            let (array, slot) = r.slots[&largest];
            let partial = widened(e, m, max.dtype);
            e.store(partial, r.partials[array].0, &[r.thread.into(), slot.into()]);
            let m = finite(e, m, max.dtype);
            e.store(m, own, &[r.thread.into(), 0.into()]);
            for (g, v) in sums.iter().zip(values) {
                let (array, slot) = r.slots[g];
                let (array, combine) = r.partials[array];
                let v = combine.lanes(e, v);
                e.store(v, array, &[r.thread.into(), slot.into()]);
            }
        });
        self.all_reduce(e, s);
        self.threads(e, |r, e| {
            let at = |slot: i64| [Expr::from(r.thread), slot.into()];
            let (array, slot) = r.slots[&largest];
            let row = e.load(r.partials[array].0, &at(slot));
            let row = narrowed(e, row, max.dtype);
            // A row of nothing but -∞ has no sum: -∞ less -∞ is no number. A row of nothing has.
            let mut none = lowest(e, row, max.dtype);
            if let Some(some) = e.in_range(&Expr::default(), &r.rows.columns) {
                none = e.and(Some(none), some);
            }
            let (row, before) = (finite(e, row, max.dtype), e.load(own, &at(0)));
            let (factor, nan) = (exp_less(e, before, row), e.number(DType::F32, f64::NAN));
            let factor = e.b().value("arith.select", &[none, nan, factor], factor.r#type(), &[]);
            for g in &sums {
                let (array, slot) = r.slots[g];
                let array = r.partials[array].0;
                let v = e.load(array, &at(slot));
                let v = contracted(e, "arith.mulf", &[v, factor]);
                e.store(v, array, &at(slot));
            }
        });
        self.all_reduce(e, s + 1);
    }

    /// A thread's largest element and sums over its vectors.
    fn pass(
        &mut self,
        e: &mut Emitter<'c, '_>,
        s: usize,
        max: Combine<'c>,
        sums: &[usize],
    ) -> (V<'c>, Vec<V<'c>>) {
        let largest = self.rows.stages[s][0];
        let scalar = |e: &Emitter<'c, '_>, c: Combine<'c>| {
            e.constant_of(dtype_to_mlir(e.context(), c.dtype), c.neutral(e.context()))
        };
        let start = scalar(e, max);
        let zero = if e.lanes > 1 {
            let scalar = Combine::of(e, sums[0]).neutral(e.context());
            e.constant_of(e.vector_type(DType::F32), scalar)
        } else {
            e.number(DType::F32, 0.0)
        };
        let steps = self.rows.columns.ceil_div(&(self.stride() * UNROLL).into());
        let variable = e.facts.variable(&steps);
        let mut initial = vec![start];
        initial.extend(sums.iter().map(|_| zero));
        let out = e.for_loop(&steps, variable, &initial, |e, carried| {
            let vectors: Vec<Expr> =
                (0..UNROLL).map(|u| Expr::from(variable) * Expr::from(UNROLL) + Expr::from(u)).collect();
            for k in &vectors {
                self.read(e, s, k);
            }
            for k in &vectors {
                self.share(e, s, k);
            }
            // What a thread reads beyond the row is read again from its end: that changes no largest element, but sums.
            let present: Vec<_> = vectors.iter().map(|k| self.present(e, k)).collect();
            let mut m = carried[0];
            let loops = |r: &Self, e: &Emitter<'_, '_>, g: usize, k: &Expr| {
                r.rows.loops(e, g, &r.row, &r.column_at(e, k))
            };
            let mut most: Option<V<'c>> = None;
            for k in &vectors {
                let v = e.contribution(largest, loops(self, e, largest, k));
                let v = if e.lanes > 1 { e.widen(v) } else { v.v };
                most = Some(most.map_or(v, |m| max.apply(e, m, v)));
            }
            let most = max.lanes(e, most.expect("several vectors"));
            let before = finite(e, m, max.dtype);
            m = max.apply(e, m, most);
            let after = finite(e, m, max.dtype);
            let factor = exp_less(e, before, after);
            let factor = e.widen(Val { v: factor, lanes: e.lanes == 1 });
            let place = self.rows.result(e, largest, &self.row);
            let narrow =
                if max.dtype == DType::F32 { after } else { e.convert("arith.truncf", after, max.dtype) };
            e.remember(place, Val { v: narrow, lanes: false });
            let mut next = vec![m];
            for (&g, &sum) in sums.iter().zip(&carried[1..]) {
                let combine = Combine::of(e, g);
                let mut total = contracted(e, "arith.mulf", &[sum, factor]);
                for (k, present) in vectors.iter().zip(&present) {
                    let v = e.contribution(g, loops(self, e, g, k));
                    let mut v = if e.lanes > 1 { e.widen(v) } else { v.v };
                    if let Some(present) = present {
                        v = e.b().value("arith.select", &[*present, v, zero], v.r#type(), &[]);
                    }
                    total = combine.apply(e, total, v);
                }
                next.push(total);
            }
            next
        });
        (out[0], out[1..].to_vec())
    }

    /// Combines the partial results of a stage over the threads.
    pub(super) fn all_reduce(&self, e: &Emitter<'c, '_>, stage: usize) {
        let arrays: std::collections::BTreeSet<usize> =
            self.rows.stages[stage].iter().map(|g| self.slots[g].0).collect();
        for a in arrays {
            let (array, combine) = self.partials[a];
            let kind = IntegerAttribute::new(IntegerType::new(e.context(), 32).into(), combine.number());
            e.b().op("loop.all_reduce", &[array], &[], &[("kind", kind.into())], vec![]);
        }
    }
}

/// A largest element in f32, 0 in the place of -∞: less it, -∞ stays what it is.
fn finite<'c>(e: &mut Emitter<'c, '_>, m: V<'c>, dtype: DType) -> V<'c> {
    let none = lowest(e, m, dtype);
    let m = if dtype == DType::F32 { m } else { e.convert("arith.extf", m, DType::F32) };
    let zero = e.number(DType::F32, 0.0);
    e.b().value("arith.select", &[none, zero, m], m.r#type(), &[])
}

/// Whether a largest element is -∞.
fn lowest<'c>(e: &Emitter<'c, '_>, m: V<'c>, dtype: DType) -> V<'c> {
    let lowest = e.number(dtype, f64::NEG_INFINITY);
    let i1 = dtype_to_mlir(e.context(), DType::I1);
    // Ordered and equal.
    let equal = e.attribute("1 : i64");
    e.b().value("arith.cmpf", &[m, lowest], i1, &[("predicate", equal)])
}

/// `exp(a - b)`.
fn exp_less<'c>(e: &Emitter<'c, '_>, a: V<'c>, b: V<'c>) -> V<'c> {
    let difference = contracted(e, "arith.subf", &[a, b]);
    contracted(e, "math.exp", &[difference])
}

fn contracted<'c>(e: &Emitter<'c, '_>, op: &str, operands: &[V<'c>]) -> V<'c> {
    let flags = e.attribute("#arith.fastmath<contract>");
    e.b().value(op, operands, operands[0].r#type(), &[("fastmath", flags)])
}
