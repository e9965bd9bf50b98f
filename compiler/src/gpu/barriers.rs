//! Where a block needs a barrier.
//!
//! The loop level has no barriers: a thread forall is done before what follows begins. On the GPU that only matters for memory
//! that threads share. A barrier is placed, as late as possible, before a step that touches what an earlier step of other
//! threads wrote, or writes what one read.

use crate::ir::{name, ops};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, RegionLike, Value, ValueLike};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Memory that threads share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shared {
    /// A buffer argument or a shared array, by its number in order of appearance.
    Memory(usize),
    /// One of the two slots that reductions use in turn.
    Slot(usize),
}

/// Steps (by the address of their op) that need a barrier before them.
#[derive(Default)]
pub struct Barriers {
    before: HashSet<usize>,
    slots: BTreeMap<usize, usize>,
}

impl Barriers {
    /// Whether a barrier goes before `op`.
    pub fn needed_before(&self, op: &OperationRef<'_, '_>) -> bool {
        self.before.contains(&(op.to_raw().ptr as usize))
    }

    /// The slot that a reduction uses.
    pub fn slot(&self, op: &OperationRef<'_, '_>) -> usize {
        self.slots.get(&(op.to_raw().ptr as usize)).copied().unwrap_or(0)
    }

    /// Finds the barriers inside one block (or warp) body, which starts with nothing pending.
    pub fn analyse(&mut self, block: BlockRef<'_, '_>, private: &dyn Fn(Value<'_, '_>) -> bool) {
        let mut scan = Scan { found: self, private, ids: BTreeMap::new(), next_slot: 0 };
        scan.block(block, Pending::default());
    }
}

/// Accesses since the last barrier.
#[derive(Clone, Default, PartialEq)]
struct Pending {
    reads: BTreeSet<Shared>,
    writes: BTreeSet<Shared>,
}

struct Scan<'s> {
    found: &'s mut Barriers,
    private: &'s dyn Fn(Value<'_, '_>) -> bool,
    ids: BTreeMap<usize, usize>,
    next_slot: usize,
}

impl Scan<'_> {
    fn block(&mut self, block: BlockRef<'_, '_>, mut pending: Pending) -> Pending {
        for op in ops(block) {
            pending = self.step(op, pending);
        }
        pending
    }

    fn step(&mut self, op: OperationRef<'_, '_>, pending: Pending) -> Pending {
        match name(&op) {
            "scf.for" | "scf.while" => {
                // Twice: the second time with what the first iteration leaves.
                let mut state = pending;
                for _ in 0..2 {
                    for r in 0..op.region_count() {
                        if let Some(b) = op.region(r).expect("in range").first_block() {
                            let after = self.block(b, state.clone());
                            state = union(state, after);
                        }
                    }
                }
                state
            }
            "scf.if" | "scf.index_switch" => {
                let mut state = pending.clone();
                for r in 0..op.region_count() {
                    if let Some(b) = op.region(r).expect("in range").first_block() {
                        state = union(state, self.block(b, pending.clone()));
                    }
                }
                state
            }
            "loop.all_reduce" => self.reduction(op, pending),
            // Begins and ends with a barrier of its own.
            "loop.arrive" => Pending::default(),
            _ => {
                let mut accesses = Pending::default();
                self.accesses(op, &mut accesses);
                self.before(op, accesses, pending)
            }
        }
    }

    /// The state after a step with these accesses; notes a barrier before it where they collide.
    fn before(&mut self, op: OperationRef<'_, '_>, accesses: Pending, mut pending: Pending) -> Pending {
        let collide = accesses.reads.iter().any(|s| pending.writes.contains(s))
            || accesses.writes.iter().any(|s| pending.writes.contains(s) || pending.reads.contains(s));
        let key = op.to_raw().ptr as usize;
        if collide {
            self.found.before.insert(key);
        }
        if self.found.before.contains(&key) {
            pending = Pending::default();
        }
        union(pending, accesses)
    }

    fn reduction(&mut self, op: OperationRef<'_, '_>, pending: Pending) -> Pending {
        if threads(op) <= 32 {
            return pending;
        }
        let key = op.to_raw().ptr as usize;
        let slot = *self.found.slots.entry(key).or_insert_with(|| {
            let slot = self.next_slot;
            self.next_slot = 1 - slot;
            slot
        });
        let slot = BTreeSet::from([Shared::Slot(slot)]);
        // Writes the slot; then its own barrier, after which only the slot's reads are pending.
        self.before(op, Pending { reads: BTreeSet::new(), writes: slot.clone() }, pending);
        Pending { reads: slot, writes: BTreeSet::new() }
    }

    fn accesses(&mut self, op: OperationRef<'_, '_>, out: &mut Pending) {
        let memref = match name(&op) {
            "vector.load" | "memref.load" => Some((0, false)),
            "vector.store" | "memref.store" => Some((1, true)),
            _ => None,
        };
        if let Some((i, write)) = memref {
            let memref = op.operand(i).expect("a memref");
            if !(self.private)(memref) {
                let next = self.ids.len();
                let id = *self.ids.entry(memref.to_raw().ptr as usize).or_insert(next);
                let set = if write { &mut out.writes } else { &mut out.reads };
                set.insert(Shared::Memory(id));
            }
        }
        for r in 0..op.region_count() {
            let mut block = op.region(r).expect("in range").first_block();
            while let Some(b) = block {
                for inner in ops(b) {
                    self.accesses(inner, out);
                }
                block = b.next_in_region();
            }
        }
    }
}

fn union(mut a: Pending, b: Pending) -> Pending {
    a.reads.extend(b.reads);
    a.writes.extend(b.writes);
    a
}

/// The threads that a reduction combines.
pub fn threads(op: OperationRef<'_, '_>) -> i64 {
    let ty = op.operand(0).expect("a private array").r#type();
    use melior::ir::TypeLike;
    // SAFETY: the verifier admits only static memrefs of rank ≥ 1.
    unsafe { mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), 0) }
}
