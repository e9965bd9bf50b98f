//! Values that are kept between the stages of a kernel: as they were before they were rounded, where rounding may be dropped.
//!
//! The first use of a value `truncf(x)` that an `extf` follows reads x itself (default numerics). If a later stage read the rounded value, one
//! tensor would have two values within a kernel, and `x - max(x)` would not be 0 anywhere. So x is kept, and rounded again where it is read;
//! an `extf` that follows folds as it did at first.

use super::body::contracts;
use super::emitter::{Emitter, Val};
use super::group::{Kind, NodeId, V, definition};
use crate::ir;
use melior::ir::operation::OperationLike;
use melior::ir::{BlockLike, ValueLike};
use strata_dialects::build::{element_type, with_element};
use strata_dialects::types::{dtype_of, dtype_to_mlir};
use strata_runtime::DType;

impl<'c> Emitter<'c, '_> {
    /// The element type in which a node's values are kept.
    pub fn held_dtype(&self, node: NodeId) -> DType {
        self.unrounded(node).unwrap_or(self.group.nodes[node].dtype)
    }

    /// The type of what the node's body truncates at its end, where that truncation may be dropped.
    fn unrounded(&self, node: NodeId) -> Option<DType> {
        let Kind::Generic(g, result) = self.group.nodes[node].kind else { return None };
        let generic = &self.group.generics[g];
        if generic.reduces() {
            return None;
        }
        let end = definition(super::group::value(generic.body.terminator()?.operand(result).ok()?))?;
        let rounds = ir::name(&end) == "arith.truncf" && contracts(end);
        rounds.then(|| dtype_of(element_type(end.operand(0).ok()?.r#type())).ok()).flatten()
    }

    /// What to keep of a node's value.
    pub fn held(&self, node: NodeId, value: Val<'c>) -> Val<'c> {
        let Some(wide) = self.unrounded(node) else { return value };
        let before = definition(value.v)
            .filter(|op| ir::name(op) == "arith.truncf" && contracts(*op))
            .and_then(|op| op.operand(0).ok());
        let v = before.map_or_else(|| self.convert("arith.extf", value.v, wide), super::group::value);
        Val { v, ..value }
    }

    /// A node's value from what was kept of it.
    pub fn recalled(&self, node: NodeId, kept: V<'c>) -> V<'c> {
        if self.unrounded(node).is_none() {
            return kept;
        }
        let ty = with_element(kept.r#type(), dtype_to_mlir(self.context(), self.group.nodes[node].dtype));
        let contract = self.attribute("#arith.fastmath<contract>");
        self.b().value("arith.truncf", &[kept], ty, &[("fastmath", contract)])
    }
}
