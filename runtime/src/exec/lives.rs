//! When memory is taken and given back during a run.

use super::memory::LARGE;
use super::resolve::{ResolvedBuffer, Root};
use crate::plan::{BufferId, Place, Plan};
use std::collections::BTreeMap;

/// The memory of some buffers.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Before or after which step.
    pub step: usize,
    /// What it is: a block, a result, an input.
    pub root: Root,
    /// The buffers in it.
    pub buffers: Vec<BufferId>,
}

/// What happens to memory during a run, besides what is there from the start to the end.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// Blocks and large results, each before the first step that touches it; in the order of steps.
    pub taken: Vec<Memory>,
    /// Blocks and large inputs, each after the last step that touches it; in the order of steps.
    pub given_back: Vec<Memory>,
    /// Results that have memory from the start, by number.
    pub early: Vec<u32>,
}

impl Lives {
    pub fn new(plan: &Plan, buffers: &[ResolvedBuffer]) -> Self {
        let mut touched: BTreeMap<Root, (usize, usize)> = BTreeMap::new();
        for (i, step) in plan.steps.iter().enumerate() {
            let (reads, writes) = step.buffers();
            for b in reads.into_iter().chain(writes) {
                let root = buffers[b.0 as usize].root;
                touched.entry(root).and_modify(|(_, last)| *last = i).or_insert((i, i));
            }
        }
        let mut members: BTreeMap<Root, Vec<BufferId>> = BTreeMap::new();
        for (i, b) in buffers.iter().enumerate() {
            members.entry(b.root).or_default().push(BufferId(i as u32));
        }
        let bytes = |b: BufferId| buffers[b.0 as usize].bytes;
        let returned = |root: Root| plan.outputs.iter().any(|o| buffers[o.buffer.0 as usize].root == root);
        let mut out = Self::default();
        for (n, o) in plan.outputs.iter().enumerate() {
            let root = Root::Output(n as u32);
            let own = plan.buffers[o.buffer.0 as usize].place == Place::Output(n as u32);
            if own && (bytes(o.buffer) < LARGE || !touched.contains_key(&root)) {
                out.early.push(n as u32);
                touched.remove(&root);
            }
        }
        for (root, (first, last)) in touched {
            let at = |step| Memory { step, root, buffers: members[&root].clone() };
            match root {
                Root::Block(b) if bytes(BufferId(b)) > 0 => {
                    out.taken.push(at(first));
                    out.given_back.push(at(last));
                }
                Root::Output(_) => out.taken.push(at(first)),
                Root::Input(n) if bytes(plan.inputs[n as usize].buffer) >= LARGE && !returned(root) => {
                    out.given_back.push(at(last));
                }
                _ => {}
            }
        }
        out.taken.sort_by_key(|m| m.step);
        out.given_back.sort_by_key(|m| m.step);
        out
    }
}
