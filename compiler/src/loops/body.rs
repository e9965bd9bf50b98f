//! Bodies of generics: their values on demand, on scalars or vectors.

use super::emitter::{Emitter, Val, vector_of};
use super::group::{NodeId, V, argument_number, definition};
use super::index::{Stride, mentions, stride};
use crate::ir;
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{AttributeLike, BlockLike, TypeLike, ValueLike};
use std::collections::BTreeMap;
use strata_dialects::build::element_type;
use strata_runtime::sym::Expr;

/// What the values of a generic's body are, for one position of its loops.
pub(super) struct Body<'c> {
    pub(super) generic: usize,
    pub(super) loops: Vec<Expr>,
    /// Accumulators, where they are not read from the initial tensors.
    pub(super) carried: Option<Vec<Val<'c>>>,
    pub(super) done: BTreeMap<usize, Val<'c>>,
}

impl<'c> Emitter<'c, '_> {
    /// What the body of a reduction combines with its accumulator, at a position of the loops.
    pub fn contribution(&mut self, generic: usize, loops: Vec<Expr>) -> Val<'c> {
        let (_, v) = self.group.generics[generic].combine.expect("a reduction that combines");
        let mut body = Body { generic, loops, carried: None, done: BTreeMap::new() };
        self.body_value(&mut body, v)
    }

    /// A value that the body yields.
    pub(super) fn yielded(&mut self, body: &mut Body<'c>, result: usize) -> Val<'c> {
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
                "loop.check_index" => self.check_index(body, op),
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
        let (mut index, mut vectors, mut picked) = (Vec::new(), Vec::new(), Vec::new());
        for i in 1..op.operand_count() {
            let v = super::group::value(op.operand(i).expect("operand"));
            if let Some(e) = self.index_of(body, v) {
                index.push(e);
                continue;
            }
            let v = self.body_value(body, v);
            picked.push(index.len());
            if v.lanes {
                vectors.push((index.len(), v.v));
                index.push(Expr::default());
            } else {
                index.push(self.variable_of(v.v));
            }
        }
        let some = self.some_position(node, &picked);
        if vectors.is_empty() {
            return self.picked(some, node, &index);
        }
        let scalars: Vec<_> = (0..self.lanes)
            .map(|l| {
                let mut at = self.at_lane(&index, l);
                for (d, v) in &vectors {
                    let scalar = self.extract(*v, l);
                    at[*d] = self.variable_of(scalar);
                }
                self.picked(some, node, &at).v
            })
            .collect();
        Val { v: self.gather(&scalars), lanes: true }
    }

    /// On the CPU a failed check leaves the index 0, which a dimension without elements has not: whether these have any, where that is
    /// not known.
    pub(super) fn some_position(&mut self, node: NodeId, dims: &[usize]) -> Option<V<'c>> {
        let mut some = None;
        for &d in if self.cpu { dims } else { &[] } {
            let size = self.group.nodes[node].shape[d].clone();
            if self.facts.interval(&size).0.is_none_or(|least| least < 1) {
                let c = self.compare("sge", &size, &1.into());
                some = Some(self.and(some, c));
            }
        }
        some
    }

    /// A value at a position that was computed, or 0 where `some` says that there is none.
    fn picked(&mut self, some: Option<V<'c>>, node: NodeId, index: &[Expr]) -> Val<'c> {
        let Some(some) = some else { return self.value_at(node, index) };
        let dtype = self.group.nodes[node].dtype;
        let none = |e: &mut Self| Val { v: e.zero(dtype), lanes: false };
        let lanes = index.iter().any(|e| mentions(e, self.lane));
        self.either(some, dtype, lanes, |e| e.value_at(node, index), none)
    }

    /// `loop.check_index` in a body.
    fn check_index(&mut self, body: &mut Body<'c>, op: OperationRef<'c, 'c>) -> Val<'c> {
        let operand = |i: usize| super::group::value(op.operand(i).expect("two operands"));
        let i = self.body_value(body, operand(0));
        let bound = self.group.size_of(operand(1)).expect("a size is an expression of the symbols");
        let size = self.index(&bound);
        let attributes = ["wrap", "message"].map(|n| (n, op.attribute(n).expect("verified op")));
        let b = self.b().at(op.location());
        let v = b.value("loop.check_index", &[i.v, size], i.v.r#type(), &attributes);
        self.checked.insert(v.to_raw().ptr as usize, bound);
        Val { v, lanes: i.lanes }
    }

    /// A variable that stands for an index value.
    pub(super) fn variable_of(&mut self, v: V<'c>) -> Expr {
        let key = v.to_raw().ptr as usize;
        if let Some(&s) = self.bound.get(&key) {
            return s.into();
        }
        let source = definition(v).filter(|op| ir::name(op) == "arith.index_cast");
        let source = source.and_then(|op| op.operand(0).ok()).map_or(key, |o| o.to_raw().ptr as usize);
        let s = match self.checked.get(&source).cloned() {
            Some(bound) => self.facts.variable(&bound),
            None => self.facts.unknown(),
        };
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
        (element_type(wide.r#type()) == op.result(0).ok()?.r#type())
            .then_some(Val { v: wide, lanes: operands[0].lanes })
    }
}

pub(super) fn contracts(op: OperationRef<'_, '_>) -> bool {
    op.attribute("fastmath").is_ok_and(|a| {
        let text = a.to_string();
        text.contains("contract") || text.contains("fast>")
    })
}
