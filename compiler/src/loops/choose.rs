//! Which schedule a kernel gets: from its shapes and element types alone.

use super::group::{Group, Kind, NodeId};
use super::index::Facts;
use super::rows_plan::{Rows, needed};
use super::schedule::Schedule;
use strata_runtime::sym::{Expr, gcd};

/// Number of elements of a node.
pub fn numel(group: &Group<'_>, node: NodeId) -> Expr {
    group.nodes[node].shape.iter().cloned().product()
}

/// The longest vector (a power of two) of which an extent is a multiple, such that the narrowest tensor is accessed by `bytes`.
pub fn vector_for(group: &Group<'_>, extent: &Expr, bytes: i64) -> i64 {
    let narrowest = needed(group)
        .into_iter()
        .chain(group.outputs.iter().copied())
        .filter(|&n| matches!(group.nodes[n].kind, Kind::Input(_)) || group.outputs.contains(&n))
        .filter(|&n| !group.nodes[n].shape.is_empty())
        .map(|n| group.nodes[n].dtype.size() as i64)
        .filter(|&s| s > 1)
        .min()
        .unwrap_or(4);
    let divisor = Facts::new(&group.symbols).divisor(extent);
    let most = (bytes / narrowest).clamp(1, 8);
    if divisor == 0 { most } else { gcd(most, divisor) }
}

/// A schedule for a kernel of row reductions on the GPU.
pub fn rows_gpu(group: &Group<'_>, rows: &Rows) -> Option<Schedule> {
    let columns = rows.columns.as_const()?;
    let last = rows.column_sizes.last()?;
    let vector = vector_for(group, last, 16);
    let vectors = (columns + vector - 1) / vector;
    // Two vectors a thread, from a warp to 1024 threads.
    let threads = ((vectors + 1) / 2).max(1).next_power_of_two_at_most(1024).max(32);
    let kept = (vectors + threads - 1) / threads;
    if kept > 16 {
        return None;
    }
    Some(Schedule::Rows { vector, threads, rows: if threads == 32 { 4 } else { 1 } })
}

/// A schedule for independent elements on the GPU.
pub fn pointwise_gpu(group: &Group<'_>) -> Schedule {
    let shape = &group.nodes[group.outputs[0]].shape;
    let vector = shape.last().map_or(1, |last| vector_for(group, last, 16));
    Schedule::Pointwise { vector, threads: 256, per_thread: 1 }
}

trait PowerOfTwo {
    fn next_power_of_two_at_most(self, most: i64) -> i64;
}

impl PowerOfTwo for i64 {
    fn next_power_of_two_at_most(self, most: i64) -> i64 {
        ((self as u64).next_power_of_two() as i64).min(most)
    }
}
