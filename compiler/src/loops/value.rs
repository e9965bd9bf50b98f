//! Values on demand: what a tensor holds at a position, with everything that computes it inlined.

use super::body::Body;
use super::combine::Combine;
use super::emitter::{Emitter, Place, Val, vector_of};
use super::group::{Kind, NodeId, V};
use super::index::{Stride, linearize, mentions, stride};
use super::runs::in_runs;
use melior::ir::attribute::{DenseElementsAttribute, FloatAttribute, IntegerAttribute};
use melior::ir::{Attribute, Type, TypeLike, ValueLike};
use std::collections::BTreeMap;
use strata_dialects::build::with_element;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

impl<'c> Emitter<'c, '_> {
    /// The value of a tensor at a position. Positions may depend on the lane; the value is then a vector where it must be.
    pub fn value_at(&mut self, node: NodeId, index: &[Expr]) -> Val<'c> {
        let place = self.place(node, index);
        if let Some(v) = self.known(&place) {
            return v;
        }
        let at = place.1.clone();
        self.hoisted(&at, |e| {
            let v = e.compute(&place);
            e.remember(place, v);
            v
        })
    }

    fn compute(&mut self, place: &Place) -> Val<'c> {
        let (node, index) = place;
        let group = self.group;
        match &group.nodes[*node].kind {
            Kind::Input(i) => self.read(self.memrefs[*i], *node, index),
            Kind::Splat(v) => {
                let v = *v;
                self.scalar(v)
            }
            Kind::Constant(elements) => self.constant_at(elements, *node, index),
            Kind::Empty => {
                let dtype = group.nodes[*node].dtype;
                Val { v: self.zero(dtype), lanes: false }
            }
            Kind::Slice(source, offsets, strides) => {
                let at: Vec<_> = index
                    .iter()
                    .zip(offsets.iter().zip(strides))
                    .map(|(i, (o, s))| o.clone() + i.clone() * s.clone())
                    .collect();
                self.value_at(*source, &at)
            }
            Kind::Reshape(source) => {
                let at = self.reshaped(index, *node, *source);
                self.value_at(*source, &at)
            }
            Kind::Pad(source, low, padding) => {
                let at: Vec<_> = index.iter().zip(low).map(|(i, l)| i.clone() - l.clone()).collect();
                let lane = self.lane;
                let sizes = &group.nodes[*source].shape;
                let split = at.iter().zip(sizes).any(|(p, n)| {
                    mentions(p, lane) && !(self.facts.nonnegative(p) && self.facts.below(p, n))
                });
                if split {
                    return self.lane_by_lane(*node, index);
                }
                let mut inside = None;
                for (p, n) in at.iter().zip(sizes) {
                    if let Some(c) = self.in_range(p, n) {
                        inside = Some(self.and(inside, c));
                    }
                }
                let Some(inside) = inside else { return self.value_at(*source, &at) };
                let (source, padding, lanes) = (*source, *padding, at.iter().any(|p| mentions(p, lane)));
                let dtype = group.nodes[*node].dtype;
                self.either(inside, dtype, lanes, |e| e.value_at(source, &at), |e| e.scalar(padding))
            }
            Kind::Concat(parts, dim) => self.concat(*node, parts, *dim, index),
            Kind::Scatter { .. } | Kind::Scan { .. } | Kind::Sort { .. } => {
                unreachable!("what has a kernel of its own is only a result; the pass checks it")
            }
            Kind::Generic(g, result) => {
                let g = *g;
                let generic = &group.generics[g];
                let out = generic.inputs + result;
                if generic.reduces() {
                    return self.serial_reduction(g, *result, index);
                }
                let loops = self.loops_at(g, out, index);
                let mut body = Body { generic: g, loops, carried: None, done: BTreeMap::new() };
                self.yielded(&mut body, *result)
            }
        }
    }

    /// An element of a small constant, by comparisons with its position.
    fn constant_at(&mut self, elements: &[Attribute<'c>], node: NodeId, index: &[Expr]) -> Val<'c> {
        let lane = self.lane;
        if elements.len() > 1 && index.iter().any(|e| mentions(e, lane)) {
            return self.lane_by_lane(node, index);
        }
        let ty = dtype_to_mlir(self.context(), self.group.nodes[node].dtype);
        let mut all = elements.iter().map(|a| self.b().value("arith.constant", &[], ty, &[("value", *a)]));
        let mut v = all.next().expect("a constant has elements");
        let rest: Vec<_> = all.collect();
        let linear = linearize(index, &self.group.nodes[node].shape);
        for (i, x) in rest.into_iter().enumerate() {
            let here = self.compare("eq", &linear, &(i + 1).into());
            v = self.b().value("arith.select", &[here, x, v], ty, &[]);
        }
        Val { v, lanes: false }
    }

    /// The position of `source` that a position of its reshaped form `node` stands for.
    pub fn reshaped(&self, index: &[Expr], node: NodeId, source: NodeId) -> Vec<Expr> {
        let linear = linearize(index, &self.group.nodes[node].shape);
        self.facts.delinearize(&linear, &self.group.nodes[source].shape)
    }

    /// Positions of a generic's parallel loops at a position of operand `operand`; loops that the operand does not fix are 0.
    pub fn loops_at(&self, generic: usize, operand: usize, index: &[Expr]) -> Vec<Expr> {
        let g = &self.group.generics[generic];
        let mut loops = vec![Expr::default(); g.sizes.len()];
        for (e, i) in g.maps[operand].iter().zip(index) {
            if let Some(d) = e.as_sym() {
                loops[d.0 as usize] = i.clone();
            }
        }
        loops
    }

    /// The positions of an operand for a position of the loops.
    pub fn operand_place(&self, generic: usize, operand: usize, loops: &[Expr]) -> Place {
        let g = &self.group.generics[generic];
        let index = g.maps[operand].iter().map(|e| self.mapped(e, loops)).collect();
        (g.operands[operand], index)
    }

    fn mapped(&self, e: &Expr, loops: &[Expr]) -> Expr {
        e.substitute(&|s| loops[s.0 as usize].clone())
    }

    /// Reads an operand from memory.
    fn read(&mut self, memref: V<'c>, node: NodeId, index: &[Expr]) -> Val<'c> {
        let group = self.group;
        let (dtype, shape) = (group.nodes[node].dtype, &group.nodes[node].shape);
        let lane = self.lane;
        let strides: Vec<_> = index.iter().map(|e| stride(e, lane)).collect();
        if self.lanes == 1 || strides.iter().all(|&s| s == Stride::Uniform) {
            return Val { v: self.load(memref, index), lanes: false };
        }
        let (last, outer) = strides.split_last().expect("a position that depends on the lane");
        let contiguous = *last == Stride::Step(1) && outer.iter().all(|&s| s == Stride::Uniform);
        // A vector of i1 would be read as packed bits.
        if contiguous && dtype != DType::I1 {
            return Val { v: self.load_vector(memref, index, shape, dtype), lanes: true };
        }
        let scalars: Vec<_> = (0..self.lanes)
            .map(|l| {
                let at = self.at_lane(index, l);
                self.load(memref, &at)
            })
            .collect();
        Val { v: self.gather(&scalars), lanes: true }
    }

    /// A vector from a scalar computation a lane.
    fn lane_by_lane(&mut self, node: NodeId, index: &[Expr]) -> Val<'c> {
        let scalars: Vec<_> = (0..self.lanes)
            .map(|l| {
                let at = self.at_lane(index, l);
                self.value_at(node, &at).v
            })
            .collect();
        Val { v: self.gather(&scalars), lanes: true }
    }

    /// A value of one kind or another by a condition that is the same for all lanes.
    pub(super) fn either(
        &mut self,
        condition: V<'c>,
        dtype: DType,
        lanes: bool,
        then: impl FnOnce(&mut Self) -> Val<'c>,
        otherwise: impl FnOnce(&mut Self) -> Val<'c>,
    ) -> Val<'c> {
        let scalar = dtype_to_mlir(self.context(), dtype);
        let ty = if lanes { vector_of(scalar, self.lanes) } else { scalar };
        let shaped = |e: &Self, v: Val<'c>| if lanes { e.widen(v) } else { v.v };
        let v = self.choose(
            condition,
            ty,
            |e| {
                let v = then(e);
                shaped(e, v)
            },
            |e| {
                let v = otherwise(e);
                shaped(e, v)
            },
        );
        Val { v, lanes }
    }

    fn concat(&mut self, node: NodeId, parts: &[NodeId], dim: usize, index: &[Expr]) -> Val<'c> {
        let group = self.group;
        let lane = self.lane;
        let lanes = index.iter().any(|e| mentions(e, lane));
        let mut start = Expr::default();
        let mut pieces = Vec::new();
        for &p in parts {
            let size = group.nodes[p].shape[dim].clone();
            pieces.push((p, start.clone()));
            start = start + size;
        }
        // All lanes are in one part where parts start at multiples of the vector length.
        if mentions(&index[dim], lane) {
            let first = self.at_lane(std::slice::from_ref(&index[dim]), 0)[0].clone();
            let aligned = |e: &Expr| {
                let d = self.facts.divisor(e);
                d == 0 || d % self.lanes == 0
            };
            let together = stride(&index[dim], lane) == Stride::Step(1)
                && aligned(&first)
                && pieces.iter().all(|(_, s)| aligned(s));
            if !together {
                return self.lane_by_lane(node, index);
            }
        }
        self.concat_from(node, &pieces, dim, index, lanes)
    }

    fn concat_from(
        &mut self,
        node: NodeId,
        pieces: &[(NodeId, Expr)],
        dim: usize,
        index: &[Expr],
        lanes: bool,
    ) -> Val<'c> {
        let (part, start) = pieces[0].clone();
        let mut at = index.to_vec();
        at[dim] = index[dim].clone() - start;
        if pieces.len() == 1 || self.facts.below(&index[dim], &pieces[1].1) {
            return self.value_at(part, &at);
        }
        let first = self.lane_zero(std::slice::from_ref(&index[dim]))[0].clone();
        if self.facts.nonnegative(&(first.clone() - pieces[1].1.clone())) {
            return self.concat_from(node, &pieces[1..], dim, index, lanes);
        }
        let condition = self.compare("slt", &first, &pieces[1].1);
        let dtype = self.group.nodes[node].dtype;
        self.either(
            condition,
            dtype,
            lanes,
            |e| e.value_at(part, &at),
            |e| e.concat_from(node, &pieces[1..], dim, index, lanes),
        )
    }

    /// A reduction as loops around its body, for one position of the result (or one vector of positions).
    fn serial_reduction(&mut self, g: usize, result: usize, index: &[Expr]) -> Val<'c> {
        let group = self.group;
        let generic = &group.generics[g];
        let mut loops = self.loops_at(g, generic.inputs + result, index);
        let lane = self.lane;
        let lanes = loops.iter().any(|e| mentions(e, lane));
        let results = generic.operands.len() - generic.inputs;
        let mut initial = Vec::new();
        for r in 0..results {
            let (node, at) = self.operand_place(g, generic.inputs + r, &loops);
            let v = self.value_at(node, &at);
            initial.push(if lanes { self.widen(v) } else { v.v });
        }
        let dims: Vec<_> = (0..generic.sizes.len()).filter(|&d| generic.reduction[d]).collect();
        let out = self.reduce_dims(g, &dims, &mut loops, &initial, lanes);
        Val { v: out[result], lanes }
    }

    fn reduce_dims(
        &mut self,
        g: usize,
        dims: &[usize],
        loops: &mut Vec<Expr>,
        carried: &[V<'c>],
        lanes: bool,
    ) -> Vec<V<'c>> {
        let Some((&d, rest)) = dims.split_first() else {
            let carried: Vec<_> = carried.iter().map(|&v| Val { v, lanes }).collect();
            let results = carried.len();
            let mut body =
                Body { generic: g, loops: loops.clone(), carried: Some(carried), done: BTreeMap::new() };
            return (0..results)
                .map(|r| {
                    let v = self.yielded(&mut body, r);
                    if lanes { self.widen(v) } else { v.v }
                })
                .collect();
        };
        let size = self.group.generics[g].sizes[d].clone();
        let neutral = self.group.generics[g].combine.map(|_| Combine::of(self, g));
        let Some(combine) = neutral.filter(|c| c.adds_up()) else {
            let variable = self.facts.variable(&size);
            return self.for_loop(&size, variable, carried, |e, carried| {
                loops[d] = variable.into();
                e.reduce_dims(g, rest, loops, carried, lanes)
            });
        };
        let zero = self.constant_of(carried[0].r#type(), combine.neutral(self.context()));
        in_runs(self, &size, &[(combine, zero)], carried, &[zero], &mut |e, first, count, carried| {
            let variable = e.facts.variable(count);
            e.for_loop(count, variable, carried, |e, carried| {
                loops[d] = first.clone() + Expr::from(variable);
                e.reduce_dims(g, rest, loops, carried, lanes)
            })
        })
    }

    /// The number 0.
    pub fn zero(&self, dtype: DType) -> V<'c> {
        self.number(dtype, 0.0)
    }

    /// A constant scalar.
    pub fn number(&self, dtype: DType, x: f64) -> V<'c> {
        let ty = dtype_to_mlir(self.context(), dtype);
        let a: Attribute<'c> = if dtype.is_float() {
            FloatAttribute::new(self.context(), ty, x).into()
        } else {
            IntegerAttribute::new(ty, x as i64).into()
        };
        self.b().value("arith.constant", &[], ty, &[("value", a)])
    }

    /// A constant of the type of a scalar or vector type.
    pub fn constant_of(&self, ty: Type<'c>, scalar: Attribute<'c>) -> V<'c> {
        let a = if ty.is_vector() { DenseElementsAttribute::splat(ty, scalar).into() } else { scalar };
        self.b().value("arith.constant", &[], ty, &[("value", a)])
    }

    /// A value converted by an op to another element type.
    pub fn convert(&self, name: &str, v: V<'c>, dtype: DType) -> V<'c> {
        let ty = with_element(v.r#type(), dtype_to_mlir(self.context(), dtype));
        self.b().value(name, &[v], ty, &[])
    }
}
