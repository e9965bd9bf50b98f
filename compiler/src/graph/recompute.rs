//! What is computed again in each kernel that uses it, instead of being written once and read.
//!
//! An op that one kernel would write for another to read is *thin* where both can as well compute it from one tensor that is in memory anyway
//! and no larger, and from what is small: a row's mean, a bias, numbers. `x - max(x)` of a softmax whose exponentials are summed in one kernel
//! and looked up in another is such an op: it costs an instruction an element, its result a write and a read.
//!
//! All copies have the same bits, so that elements that are equal stay equal: an element that is the largest of a window is found again. So a chain has no
//! product, which an addition that follows would take in without rounding it in one kernel and not in the other, and sums are of f32 or wider, whose
//! rounding no kernel leaves out.

use crate::graph::fusion_class::Class;
use melior::ir::ValueLike;
use melior::ir::operation::{OperationLike, OperationRef};
use std::collections::BTreeMap;
use strata_dialects::OpView;
use strata_dialects::build::definition;

/// Ops that cost less than a read of their result, and have the same bits in every kernel.
const CHEAP: &[&str] = &["add", "sub", "neg", "abs", "max", "min", "cast", "reshape"];

/// Ops of a chain that are computed again together.
const DEPTH: usize = 6;

/// How many times larger than an operand a result has to be for the operand to be small.
const SMALL: i64 = 16;

/// A decision about groups, as far as it matters here.
pub(super) struct Decided<'a, 'c, 'm> {
    /// The ops of the entry function, in order.
    pub ops: &'a [OperationRef<'c, 'm>],
    /// What they are.
    pub views: &'a [Option<OpView>],
    /// Their classes.
    pub classes: &'a [Class],
    /// The places of each op's users.
    pub uses: &'a [Vec<usize>],
    /// The place of each op, by its address.
    pub places: &'a BTreeMap<usize, usize>,
    /// The group of each op.
    pub group_of: &'a [Option<usize>],
}

/// What a value comes from.
enum From {
    /// A tensor in memory with elements of so many bytes.
    Memory(usize),
    /// Something small; whether its bits are the same in every kernel.
    Small(bool),
    /// Neither.
    Else,
}

impl Decided<'_, '_, '_> {
    /// Whether op `i` is thin.
    fn thin(&self, i: usize) -> bool {
        let Some(view) = &self.views[i] else { return false };
        match self.from(i, DEPTH) {
            From::Memory(bytes) => bytes <= view.results[0].dtype.size(),
            // A small value as large as what it is repeated for.
            From::Small(_) => self.classes[i] != Class::Free,
            From::Else => false,
        }
    }

    /// What the result of an op comes from, if the op is computed again.
    fn from(&self, i: usize, depth: usize) -> From {
        let Some(view) = self.views[i].as_ref().filter(|_| depth > 0) else { return From::Else };
        let name = view.spec.mnemonic();
        if self.classes[i] == Class::Free && name != "broadcast" {
            return From::Small(true);
        }
        let whole = &view.results[0];
        if name == "broadcast" {
            let small = match (whole.numel().as_const(), view.operands[0].numel().as_const()) {
                (Some(n), Some(of)) => of * SMALL <= n,
                // Of unknown sizes, what repeats along a dimension is taken for small.
                _ => view.operands[0].rank() < whole.rank(),
            };
            return if small { From::Small(self.same_bits(i, depth)) } else { From::Else };
        }
        let narrow = whole.dtype.is_float() && whole.dtype.size() < 4;
        let exact = match name {
            "add" | "sub" => !narrow,
            "cast" => !narrow && whole.dtype.size() >= view.operands[0].dtype.size(),
            _ => CHEAP.contains(&name),
        };
        let (mut memory, mut same) = (None, exact);
        for k in 0..view.operands.len() {
            match self.operand(i, k, depth) {
                From::Small(bits) => same &= bits,
                From::Memory(bytes) if memory.is_none() => memory = Some(bytes),
                _ => return From::Else,
            }
        }
        match memory {
            Some(bytes) if same => From::Memory(bytes),
            // A small value may take some work: it is the same for many elements.
            None if view.spec.is_pointwise() || name == "reshape" => From::Small(same || name == "div"),
            _ => From::Else,
        }
    }

    /// Whether what a broadcast repeats has the same bits in every kernel: a tensor in memory, or what is computed without products.
    fn same_bits(&self, i: usize, depth: usize) -> bool {
        match self.operand(i, 0, depth) {
            From::Memory(_) => true,
            From::Small(bits) => bits,
            // A reduction, whose result is a result of its kernel then.
            From::Else => {
                let op = self.ops[i].operand(0).ok().and_then(definition);
                let place = op.and_then(|op| self.places.get(&(op.to_raw().ptr as usize)));
                place.is_some_and(|&j| matches!(self.classes[j], Class::Reduce { .. }))
            }
        }
    }

    fn operand(&self, i: usize, k: usize, depth: usize) -> From {
        let bytes = self.views[i].as_ref().map_or(0, |v| v.operands[k].dtype.size());
        let Some(op) = self.ops[i].operand(k).ok().and_then(definition) else { return From::Memory(bytes) };
        let Some(&j) = self.places.get(&(op.to_raw().ptr as usize)) else { return From::Else };
        match self.classes[j] {
            Class::Plan => From::Memory(bytes),
            Class::Free | Class::Inline | Class::Reshape
                if self.group_of[j].is_none() || self.group_of[j] == self.group_of[i] =>
            {
                self.from(j, depth - 1)
            }
            // Another kernel writes it.
            _ if self.group_of[j] != self.group_of[i] => From::Memory(bytes),
            _ => From::Else,
        }
    }

    /// Gives every group that uses a thin op of another group its own copy of it, where `may` allows it. The number of copies.
    pub fn repeat(&self, may: impl Fn() -> bool) -> u64 {
        let mut repeated = 0;
        for i in (0..self.ops.len()).rev() {
            let groups: Vec<Option<usize>> = self.uses[i].iter().map(|&u| self.group_of[u]).collect();
            let several = groups.iter().any(|g| *g != groups[0]);
            if self.group_of[i].is_none() || !several || groups.contains(&None) || !self.thin(i) {
                continue;
            }
            // The op itself serves the group that it is in, or the first that uses it.
            let own = if groups.contains(&self.group_of[i]) { self.group_of[i] } else { groups[0] };
            let mut done = vec![own];
            for (&user, group) in self.uses[i].iter().zip(&groups) {
                if done.contains(group) || !may() {
                    continue;
                }
                done.push(*group);
                let own: Vec<usize> =
                    self.uses[i].iter().zip(&groups).filter(|(_, g)| *g == group).map(|(&u, _)| u).collect();
                self.copy(i, user, &own);
                repeated += 1;
            }
        }
        repeated
    }

    /// A copy of op `i` before op `first`, for the ops `users`.
    fn copy(&self, i: usize, first: usize, users: &[usize]) {
        let result = self.ops[i].result(0).expect("a pointwise op has a result").to_raw();
        // SAFETY: live handles of one block; what the op reads dominates it, and so its users.
        unsafe {
            let copy = mlir_sys::mlirOperationClone(self.ops[i].to_raw());
            let before = self.ops[first].to_raw();
            mlir_sys::mlirBlockInsertOwnedOperationBefore(
                mlir_sys::mlirOperationGetBlock(before),
                before,
                copy,
            );
            let new = mlir_sys::mlirOperationGetResult(copy, 0);
            for &u in users {
                let user = self.ops[u].to_raw();
                for k in 0..mlir_sys::mlirOperationGetNumOperands(user) {
                    if mlir_sys::mlirValueEqual(mlir_sys::mlirOperationGetOperand(user, k), result) {
                        mlir_sys::mlirOperationSetOperand(user, k, new);
                    }
                }
            }
        }
    }
}
