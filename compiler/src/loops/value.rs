//! Values on demand: what a tensor holds at a position, with everything that computes it inlined.

use super::emitter::{Emitter, Place, Val, vector_of};
use super::group::{Kind, NodeId, V, argument_number, definition};
use super::index::{Stride, linearize, mentions, stride};
use crate::ir;
use melior::ir::attribute::{DenseElementsAttribute, FloatAttribute, IntegerAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, AttributeLike, BlockLike, Type, TypeLike, ValueLike};
use std::collections::BTreeMap;
use strata_dialects::build::{element, with_element};
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// What the values of a generic's body are, for one position of its loops.
pub(super) struct Body<'c> {
    generic: usize,
    loops: Vec<Expr>,
    /// Accumulators, where they are not read from the initial tensors.
    carried: Option<Vec<Val<'c>>>,
    done: BTreeMap<usize, Val<'c>>,
}

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
    fn either(
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
        let variable = self.facts.variable(&size);
        self.for_loop(&size, variable, carried, |e, carried| {
            loops[d] = variable.into();
            e.reduce_dims(g, rest, loops, carried, lanes)
        })
    }

    /// What the body of a reduction combines with its accumulator, at a position of the loops.
    pub fn contribution(&mut self, generic: usize, loops: Vec<Expr>) -> Val<'c> {
        let (_, v) = self.group.generics[generic].combine.expect("a reduction that combines");
        let mut body = Body { generic, loops, carried: None, done: BTreeMap::new() };
        self.body_value(&mut body, v)
    }

    fn yielded(&mut self, body: &mut Body<'c>, result: usize) -> Val<'c> {
        let block = self.group.generics[body.generic].body;
        let v = block.terminator().and_then(|t| t.operand(result).ok().map(super::group::value));
        self.body_value(body, v.expect("one yielded value a result"))
    }

    /// A value of a generic's body.
    fn body_value(&mut self, body: &mut Body<'c>, v: V<'c>) -> Val<'c> {
        let key = v.to_raw().ptr as usize;
        if let Some(&done) = body.done.get(&key) {
            return done;
        }
        let generic = &self.group.generics[body.generic];
        let out = if let Some(i) = argument_number(v, generic.body) {
            match (&body.carried, i.checked_sub(generic.inputs)) {
                (Some(carried), Some(r)) => carried[r],
                _ => {
                    let (node, index) = self.operand_place(body.generic, i, &body.loops);
                    self.value_at(node, &index)
                }
            }
        } else if !super::group::defined_in(v, generic.body) {
            self.scalar(v)
        } else {
            let op = definition(v).expect("not an argument");
            match ir::name(&op) {
                "linalg.index" => {
                    let e = self.index_of(body, v).expect("linalg.index has an expression");
                    self.index_value(&e)
                }
                "tensor.extract" => self.extract_at(body, op),
                _ => {
                    let operands: Vec<_> =
                        op.operands().map(|o| self.body_value(body, super::group::value(o))).collect();
                    self.clone_op(op, &operands)
                }
            }
        };
        body.done.insert(key, out);
        out
    }

    /// A scalar from outside of generics.
    pub fn scalar(&mut self, v: V<'c>) -> Val<'c> {
        if let Some(e) = self.group.size_of(v) {
            return Val { v: self.index(&e), lanes: false };
        }
        let op = definition(v).expect("a scalar is a symbol or the result of an op");
        if ir::name(&op) == "tensor.extract" {
            let source = super::group::value(op.operand(0).expect("operand"));
            let node = self.group.node_of(source).expect("a tensor of the kernel");
            let index: Vec<_> = (1..op.operand_count())
                .map(|i| {
                    let v = super::group::value(op.operand(i).expect("operand"));
                    self.group.size_of(v).unwrap_or_else(|| {
                        let v = self.scalar(v);
                        self.variable_of(v.v)
                    })
                })
                .collect();
            return self.value_at(node, &index);
        }
        let operands: Vec<_> = op.operands().map(|o| self.scalar(super::group::value(o))).collect();
        self.clone_op(op, &operands)
    }

    /// An index expression as a value; a vector where it depends on the lane.
    fn index_value(&mut self, e: &Expr) -> Val<'c> {
        match stride(e, self.lane) {
            Stride::Uniform => Val { v: self.index(e), lanes: false },
            _ => {
                let scalars: Vec<_> = (0..self.lanes)
                    .map(|l| {
                        let at = self.at_lane(std::slice::from_ref(e), l);
                        self.index(&at[0])
                    })
                    .collect();
                Val { v: self.gather(&scalars), lanes: true }
            }
        }
    }

    /// A body's index value as an expression, where it is made of loop positions and constants.
    fn index_of(&mut self, body: &Body<'c>, v: V<'c>) -> Option<Expr> {
        if let Some(e) = self.group.size_of(v) {
            return Some(e);
        }
        let op = definition(v)?;
        if !v.r#type().is_index() {
            return None;
        }
        let int = |n: &str| {
            op.attribute(n).ok().and_then(|a| IntegerAttribute::try_from(a).ok()).map(|a| a.value())
        };
        let name = ir::name(&op);
        match name {
            "linalg.index" => return body.loops.get(int("dim")? as usize).cloned(),
            "arith.constant" => return int("value").map(Expr::from),
            "arith.addi" | "arith.subi" | "arith.muli" => {}
            _ => return None,
        }
        let a = self.index_of(body, super::group::value(op.operand(0).ok()?))?;
        let b = self.index_of(body, super::group::value(op.operand(1).ok()?))?;
        Some(match name {
            "arith.addi" => a + b,
            "arith.subi" => a - b,
            _ => a * b,
        })
    }

    /// `tensor.extract` in a body: a position that is computed.
    fn extract_at(&mut self, body: &mut Body<'c>, op: OperationRef<'c, 'c>) -> Val<'c> {
        let source = super::group::value(op.operand(0).expect("operand"));
        let node = self.group.node_of(source).expect("a tensor of the kernel");
        let mut index = Vec::new();
        let mut vectors = Vec::new();
        for i in 1..op.operand_count() {
            let v = super::group::value(op.operand(i).expect("operand"));
            if let Some(e) = self.index_of(body, v) {
                index.push(e);
                continue;
            }
            let v = self.body_value(body, v);
            if v.lanes {
                vectors.push((index.len(), v.v));
                index.push(Expr::default());
            } else {
                index.push(self.variable_of(v.v));
            }
        }
        if vectors.is_empty() {
            return self.value_at(node, &index);
        }
        let scalars: Vec<_> = (0..self.lanes)
            .map(|l| {
                let mut at = self.at_lane(&index, l);
                for (d, v) in &vectors {
                    let scalar = self.extract(*v, l);
                    at[*d] = self.variable_of(scalar);
                }
                self.value_at(node, &at).v
            })
            .collect();
        Val { v: self.gather(&scalars), lanes: true }
    }

    /// The variable that stands for an index value.
    fn variable_of(&mut self, v: V<'c>) -> Expr {
        let key = v.to_raw().ptr as usize;
        if let Some(&s) = self.bound.get(&key) {
            return s.into();
        }
        let s = self.facts.unknown();
        self.bound.insert(key, s);
        self.bind(s, v);
        s.into()
    }

    /// Repeats an op of a body on scalars or vectors.
    fn clone_op(&mut self, op: OperationRef<'c, 'c>, operands: &[Val<'c>]) -> Val<'c> {
        let name = ir::name(&op);
        if let Some(v) = self.folded_extension(op, name, operands) {
            return v;
        }
        let lanes = operands.iter().any(|v| v.lanes);
        let b = self.b();
        let operands: Vec<_> = operands.iter().map(|&v| if lanes { self.widen(v) } else { v.v }).collect();
        let ty = op.result(0).expect("one result").r#type();
        let ty = if lanes { vector_of(ty, self.lanes) } else { ty };
        let attributes: Vec<_> = op.attributes().collect();
        let attributes: Vec<_> = attributes
            .iter()
            .map(|(n, a)| (n.as_string_ref().as_str().expect("UTF-8"), *a))
            .filter(|(_, a)| !a.is_unit())
            .collect();
        Val { v: b.value(name, &operands, ty, &attributes), lanes }
    }

    /// An extension of a truncation, both marked as contractible, is the value that was truncated.
    fn folded_extension(
        &self,
        op: OperationRef<'c, 'c>,
        name: &str,
        operands: &[Val<'c>],
    ) -> Option<Val<'c>> {
        if name != "arith.extf" || !contracts(op) {
            return None;
        }
        let truncation = definition(operands[0].v)?;
        if ir::name(&truncation) != "arith.truncf" || !contracts(truncation) {
            return None;
        }
        let wide = super::group::value(truncation.operand(0).ok()?);
        (element(wide.r#type()) == op.result(0).ok()?.r#type())
            .then_some(Val { v: wide, lanes: operands[0].lanes })
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

fn contracts(op: OperationRef<'_, '_>) -> bool {
    op.attribute("fastmath").is_ok_and(|a| {
        let text = a.to_string();
        text.contains("contract") || text.contains("fast>")
    })
}
