//! What the plan has to know of a kernel function besides its code, read while it still holds graph ops.

use super::{Planner, key};
use crate::driver::pass::Failure;
use crate::graph::users;
use crate::ir;
use crate::kernel::signature::Signature;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, Value};
use strata_dialects::TensorType;
use strata_dialects::types::dtype_of;
use strata_runtime::plan::{BufferId, Place, Step};

/// A result that begins as one of the operands: the kernel changes elements of it.
#[derive(Clone, Debug)]
pub struct Start {
    /// Number of the result.
    pub result: usize,
    /// Number of the operand.
    pub operand: usize,
    /// Whether the kernel reads the operand for something else, too.
    pub read: bool,
}

/// What a kernel function's graph ops say.
#[derive(Clone, Debug, Default)]
pub struct KernelFacts {
    /// Ops in it, for reports: `exp,sub,reduce`. What costs nothing is left out.
    pub summary: String,
    /// Results that begin as an operand.
    pub starts: Vec<Start>,
    /// Memory that the kernel needs besides, over its symbols; known once it is loops.
    pub scratch: Vec<Scratch>,
}

/// Memory of a kernel's own.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// Element type, and sizes over the kernel's symbols.
    pub ty: TensorType,
    /// Whether it is 0 when the kernel starts, and again when it ends.
    pub tickets: bool,
}

impl KernelFacts {
    /// Of a kernel function of graph ops.
    pub fn of(function: &OperationRef<'_, '_>) -> Self {
        Self { summary: summary(function), starts: starts(function), scratch: vec![] }
    }

    /// Adds what the kernel's loops say.
    pub fn add_loops(&mut self, function: OperationRef<'_, '_>) -> Result<(), Failure> {
        // SAFETY: nothing of the signature outlives the module.
        let function = unsafe { OperationRef::from_raw(function.to_raw()) };
        let own = Signature::read(function)?.buffers.into_iter().filter(|b| b.scratch);
        self.scratch = own
            .map(|b| {
                let ty = TensorType { dtype: dtype_of(b.element)?, shape: b.dims };
                Ok(Scratch { ty, tickets: b.tickets })
            })
            .collect::<Result<_, String>>()
            .map_err(|m| Failure::new(function.location(), m))?;
        Ok(())
    }
}

fn summary(function: &OperationRef<'_, '_>) -> String {
    let Some(body) = ir::body(function) else { return String::new() };
    let names: Vec<&str> = ir::ops(body)
        .iter()
        .filter_map(|op| ir::name(op).strip_prefix("graph."))
        .filter(|n| !matches!(*n, "constant" | "broadcast" | "dim" | "iota" | "check_index"))
        .collect();
    if names.is_empty() { "copy".into() } else { names.join(",") }
}

fn starts(function: &OperationRef<'_, '_>) -> Vec<Start> {
    let Some(body) = ir::body(function) else { return vec![] };
    let ops = ir::ops(body);
    let Some(terminator) = ops.last() else { return vec![] };
    let begins = |result: usize, v: Value<'_, '_>| {
        let op = strata_dialects::build::definition(v).filter(|op| ir::name(op) == "graph.scatter")?;
        let dest = op.operand(0).ok()?;
        let operand = (0..body.argument_count())
            .find(|&i| body.argument(i).is_ok_and(|a| key(a.into()) == key(dest)))?;
        Some(Start { result, operand, read: users(dest).len() > 1 })
    };
    terminator.operands().enumerate().filter_map(|(r, v)| begins(r, v)).collect()
}

impl<'c: 'm, 'm> Planner<'c, 'm, '_> {
    /// The tickets of all kernels: one after the other counts with them and leaves zeros, so one buffer that starts as zeros serves a call.
    pub(super) fn tickets(&mut self, ty: &TensorType) -> BufferId {
        if let Some((id, _)) = self.tickets.as_ref().filter(|(_, t)| t == ty) {
            return *id;
        }
        let bytes = ty.numel().as_const().unwrap_or(0) as usize * ty.dtype.size();
        let offset = self.constants.push(&vec![0; bytes]);
        let zeros = self.buffer(ty, Place::Constant { offset });
        let id = self.scratch(ty);
        self.plan.steps.push(Step::Copy { from: zeros, to: id });
        self.tickets = Some((id, ty.clone()));
        id
    }

    /// The buffer of a result that begins as an operand: the operand's own where nothing else needs it any more, else a copy.
    pub(super) fn changed(
        &mut self,
        op: OperationRef<'c, 'm>,
        value: Value<'c, 'm>,
        start: &Start,
        operands: &mut [BufferId],
    ) -> Result<BufferId, Failure> {
        let (old, id) = (op.operand(start.operand).expect("as viewed"), operands[start.operand]);
        let alone = users(old).len() == 1 && operands.iter().filter(|b| **b == id).count() == 1;
        if alone && !start.read && self.pending.contains(&id) {
            if let Some(&n) = self.results.get(&key(value)) {
                self.pending.remove(&id);
                self.plan.buffers[id.0 as usize].place = Place::Output(n);
            }
            self.known.insert(key(value), id);
            return Ok(id);
        }
        let to = self.written(value)?;
        self.plan.steps.push(Step::Copy { from: id, to });
        operands[start.operand] = if start.read { self.dense(id) } else { to };
        Ok(to)
    }
}
