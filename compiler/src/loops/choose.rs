//! Which schedule a kernel gets: from its shapes, element types and target alone.

use super::domain::{is_affine, parts};
use super::group::{Group, Kind, NodeId};
use super::index::Facts;
use super::rows_plan::{Extent, Rows, needed};
use super::scan::{Scan, scan_of};
use super::scatter::{domain, scatter_of};
use super::schedule::Schedule;
use super::sort::{Sort, sort_of};
use super::sort_network::shared_bytes;
use super::split::{TICKETS, UNROLL, splits};
use super::tiles::{Tiles, bands, blocks};
use crate::target::Target;
use strata_runtime::plan::DeviceKind;
use strata_runtime::sym::{Expr, gcd};

/// A schedule for a kernel.
pub fn choose(group: &Group<'_>, rows: Option<&Rows>, crossing: Option<&Tiles>, target: &Target) -> Schedule {
    if let Some(s) = group.outputs.iter().find_map(|&o| scan_of(group, o)) {
        return scan(group, &s, target);
    }
    if let Some(s) = group.outputs.iter().find_map(|&o| sort_of(group, o)) {
        return sort(group, &s, target);
    }
    match target.device() {
        DeviceKind::Cuda => rows
            .and_then(|r| split_gpu(group, r).or_else(|| rows_gpu(group, r)))
            .or_else(|| crossing.and_then(|t| tiles_gpu(group, t)))
            .unwrap_or_else(|| pointwise_gpu(group)),
        DeviceKind::Cpu => {
            let lanes = target.vector_bytes() as i64 / 4;
            let rows = rows.filter(|r| r.along);
            let independent =
                || crossing.and_then(|t| tile_tasks(group, t, lanes)).unwrap_or_else(|| tasks(group, lanes));
            rows.map_or_else(independent, |r| row_tasks(group, r, lanes))
        }
    }
}

/// Number of elements of a node.
pub fn numel(group: &Group<'_>, node: NodeId) -> Expr {
    group.nodes[node].shape.iter().cloned().product()
}

/// Number of positions that a kernel goes through for an output.
fn extent(group: &Group<'_>, output: NodeId) -> Expr {
    domain(group, output).iter().cloned().product()
}

/// A size as a number: itself, or by the symbols' hints.
fn guess(group: &Group<'_>, e: &Expr) -> i64 {
    let hints: Vec<i64> = group
        .symbols
        .iter()
        .map(|s| s.hint.unwrap_or_else(|| if s.max == i64::MAX { s.min.max(256) } else { s.max }))
        .collect();
    e.eval(&hints).unwrap_or(i64::MAX).max(0)
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

/// A tile of operands that cross the order of the results is worth its barrier from so many positions on, each way.
const LEAST_TILE: i64 = 32;

/// A schedule for operands that cross the order of the results.
fn tiles_gpu(group: &Group<'_>, crossing: &Tiles) -> Option<Schedule> {
    // Rows of a tile are 128 bytes: with 64 positions of 16 bits, `transpose_add` reaches the rate of memory (docs/measured.md).
    let tile = if crossing.bytes <= 2 { 64 } else { 32 };
    let (along, across) = (crossing.shape.last()?, &crossing.shape[crossing.across]);
    let long = |n: &Expr| guess(group, n) >= LEAST_TILE;
    if !(long(along) && long(across) && is_affine(&blocks(crossing, tile))) {
        return None;
    }
    let (vector, read) = (vector_for(group, along, 16), vector_for(group, across, 16));
    let threads = (tile * tile / vector.max(read)).clamp(32, 256);
    Some(Schedule::Tiles { tile, vector, read, threads })
}

/// Blocks that keep every processor of the GPU reading, of a kernel that reduces (sum_cols: 0.0376 ms with four a processor, 0.0399 with eight).
const BLOCKS: i64 = 4 * PROCESSORS;

/// Vectors that a thread of a split reduction reads at least.
const LEAST_READ: i64 = 8;

/// A schedule for columns, and for so few rows that a block each would leave processors idle.
fn split_gpu(group: &Group<'_>, rows: &Rows) -> Option<Schedule> {
    if !splits(group, rows) {
        return None;
    }
    let (kept, reduced) = (guess(group, &rows.rows).max(1), guess(group, &rows.columns).max(1));
    // As many parts as give enough blocks, but no part so short that it is not worth its block.
    let parts = |stripes: i64, units: i64| {
        let known = rows.rows.as_const().is_some() && stripes <= TICKETS;
        let most = (units / LEAST_READ).clamp(1, 1024);
        if !known {
            return 1;
        }
        let wanted = ((BLOCKS + stripes - 1) / stripes).clamp(1, most);
        // Equal parts: no more than it takes for as many steps each.
        let steps = ((units + UNROLL - 1) / UNROLL).max(1);
        let each = (steps + wanted - 1) / wanted;
        (steps + each - 1) / each
    };
    if rows.along {
        let vector = vector_for(group, rows.column_sizes.last()?, 16);
        let threads = 512;
        let parts = parts(2 * kept, reduced / (vector * threads));
        return (parts > 1).then_some(Schedule::LongRows { vector, threads, parts });
    }
    let vector = rows.row_sizes.last().map_or(1, |last| vector_for(group, last, 16));
    // 32 threads side by side read whole lines; more, where the columns are so short that there is no work for more groups.
    let power = |n: i64| (n.max(1) as u64).next_power_of_two() as i64;
    let groups = power(reduced / LEAST_READ).min(256);
    let lanes = power((kept + vector - 1) / vector).min((256 / groups).max(32));
    let groups = groups.min(256 / lanes);
    let threads = (lanes * groups).max(32);
    let stripes = (kept + lanes * vector - 1) / (lanes * vector);
    let parts = parts(stripes, reduced / (threads / lanes));
    is_affine(&rows.rows).then_some(Schedule::Columns { vector, lanes, threads, parts })
}

/// Registers a thread may spend on its part of a row, in vectors.
const MOST_KEPT: i64 = 4;

/// Vectors of a row from which on it goes into shared memory rather than registers, where it fits: with 1024 threads that keep exponentials, one block
/// fills a processor, and nothing is read while it computes (softmax of 16384 columns: 59 % of the rate of memory).
const SHARED_FROM: i64 = 2048;

/// Vectors of a long row.
const LONG: i64 = 512;

/// Bytes of shared memory that a row may take: three blocks fit on a processor of an H200 or H100.
const SHARED_ROW: i64 = 72 * 1024;

/// Whether an output has the full extent.
fn rows_full(group: &Group<'_>, rows: &Rows) -> bool {
    group.outputs.iter().any(|&o| rows.extent(group, o) == Some(Extent::Full))
}

/// A schedule for a kernel of row reductions on the GPU.
fn rows_gpu(group: &Group<'_>, rows: &Rows) -> Option<Schedule> {
    if !rows.along || parts(&rows.row_sizes).len() > 3 {
        return None;
    }
    let last = rows.column_sizes.last()?;
    let vector = vector_for(group, last, 16);
    let columns = guess(group, &rows.columns);
    let vectors = (columns + vector - 1) / vector;
    // Two vectors a thread; four of long rows, whose blocks then wait less at their barriers (layernorm of 4096 columns on an H200:
    // 0.0680 ms with 128 threads, 0.0716 with 256; softmax of 8192: 0.0675 with 256, 0.0711 with 512).
    let each = if vectors < LONG { 2 } else { 4 };
    let threads = (((vectors + each - 1) / each).max(1) as u64).next_power_of_two().clamp(32, 1024) as i64;
    let kept = (vectors + threads - 1) / threads;
    let looped = rows.columns.as_const().is_none() || kept > MOST_KEPT;
    let again = rows.stages.len() > 1 || rows_full(group, rows);
    if vectors >= SHARED_FROM && again && rows.columns.as_const().is_some() {
        let along = |&&n: &&NodeId| rows.extent(group, n) == Some(Extent::Full);
        let bytes: i64 = group.inputs.iter().filter(along).map(|&n| group.nodes[n].dtype.size() as i64).sum();
        if (1..=SHARED_ROW).contains(&(bytes * columns)) {
            // 256 threads use few enough registers for as many blocks as the memory allows (softmax of 32768 columns: 0.0732 ms, 0.0947 with 512).
            return Some(Schedule::Rows { vector, threads: 256, rows: 1, looped: true, shared: true });
        }
    }
    Some(Schedule::Rows { vector, threads, rows: if threads == 32 { 4 } else { 1 }, looped, shared: false })
}

/// Processors of an H200 or H100.
const PROCESSORS: i64 = 132;

/// A schedule for independent elements on the GPU.
fn pointwise_gpu(group: &Group<'_>) -> Schedule {
    // Reductions that are inlined read along their own loops: vectors over the outputs would gather.
    let reduces = needed(group)
        .iter()
        .any(|&n| matches!(group.nodes[n].kind, Kind::Generic(g, _) if group.generics[g].reduces()));
    let scatters = group.outputs.iter().any(|&o| scatter_of(group, o).is_some());
    let vector = if reduces || scatters {
        1
    } else {
        let last = |&o: &NodeId| group.nodes[o].shape.last().map_or(1, |last| vector_for(group, last, 16));
        group.outputs.iter().map(last).min().unwrap_or(1)
    };
    let size = group.outputs.iter().map(|&o| guess(group, &extent(group, o))).max().unwrap_or(0);
    // Two vectors a thread keep more reads under way, where there is enough for every processor: bias_gelu_residual on an H200 takes
    // 0.0951 ms so, 0.0976 with one vector, and 0.0985 with one in blocks of 256 threads.
    let full = 16 * 128 * PROCESSORS;
    Schedule::Pointwise { vector, threads: 128, per_thread: if size / vector < full { 1 } else { 2 } }
}

/// Positions after the indexed dimension that a task of a scatter takes on the CPU.
const SCATTER_TASK: i64 = 256;

/// A schedule for running combinations.
fn scan(group: &Group<'_>, s: &Scan, target: &Target) -> Schedule {
    let length = guess(group, &group.nodes[s.source].shape[s.dim]).max(1);
    match target.device() {
        // Sixteen elements a thread, up to 256 threads: the pieces' totals are added one after another.
        DeviceKind::Cuda => {
            let threads = ((length + 15) / 16) as u64;
            Schedule::Scan { threads: threads.next_power_of_two().clamp(32, 256) as i64 }
        }
        DeviceKind::Cpu => {
            let bytes = 2 * length.saturating_mul(group.nodes[s.source].dtype.size() as i64);
            Schedule::ScanTasks { rows: (TASK_BYTES / bytes).max(1) }
        }
    }
}

/// Bytes of shared memory that a row may take while it is sorted: two such blocks fit on a processor of an H200 or H100, one on any that
/// code is made for.
const SORT_BYTES: i64 = 96 * 1024;

/// A schedule for a sort.
fn sort(group: &Group<'_>, s: &Sort, target: &Target) -> Schedule {
    let source = &group.nodes[s.source];
    let length = guess(group, &source.shape[s.dim]).max(1);
    let size = source.dtype.size() as i64;
    match target.device() {
        // A pair a thread, from a warp to 1024 threads.
        DeviceKind::Cuda => Schedule::Sort {
            threads: ((length + 1) as u64 / 2).next_power_of_two().clamp(32, 1024) as i64,
            shared: source.shape[s.dim]
                .as_const()
                .is_some_and(|n| n <= SORT_BYTES / shared_bytes(source.dtype)),
        },
        DeviceKind::Cpu => {
            let steps = i64::from(64 - (length as u64).leading_zeros());
            let bytes = steps.saturating_mul(length.saturating_mul(size + 8));
            Schedule::SortTasks { rows: (TASK_BYTES / bytes).max(1) }
        }
    }
}

/// Bytes that a task moves, about.
const TASK_BYTES: i64 = 128 * 1024;

/// Bytes that a kernel moves for each element of its outputs, about.
fn bytes_per_element(group: &Group<'_>, size: i64) -> i64 {
    let bytes: i64 = group
        .inputs
        .iter()
        .chain(&group.outputs)
        .map(|&n| guess(group, &numel(group, n)).saturating_mul(group.nodes[n].dtype.size() as i64))
        .fold(0, i64::saturating_add);
    (bytes / size.max(1)).max(1)
}

/// A schedule for operands that cross the order of the results, on the CPU.
fn tile_tasks(group: &Group<'_>, crossing: &Tiles, lanes: i64) -> Option<Schedule> {
    let tasks = |across: i64| bands(crossing, across).into_iter().product::<Expr>();
    // 16 KB of f32, which the nearest cache holds; half a row of it where there would be too few tasks.
    let across = if guess(group, &tasks(64)) >= 64 { 64 } else { 32 };
    let (innermost, other) = (crossing.shape.last()?, &crossing.shape[crossing.across]);
    let long = guess(group, innermost) >= lanes && guess(group, other) >= 16 && is_affine(&tasks(across));
    long.then_some(Schedule::TileTasks { vector: lanes, along: 64, across })
}

/// A schedule for independent elements on the CPU.
fn tasks(group: &Group<'_>, lanes: i64) -> Schedule {
    let size = group.outputs.iter().map(|&o| guess(group, &numel(group, o))).max().unwrap_or(0);
    let task = (TASK_BYTES / bytes_per_element(group, size)).max(1) as u64;
    if group.outputs.iter().any(|&o| scatter_of(group, o).is_some()) {
        // Each task goes through all indices: few tasks with long runs.
        return Schedule::Tasks { vector: 1, task: SCATTER_TASK };
    }
    let short = group
        .outputs
        .iter()
        .all(|&o| group.nodes[o].shape.last().and_then(Expr::as_const).is_some_and(|n| n < lanes));
    Schedule::Tasks {
        vector: if short { 1 } else { lanes },
        task: (task.next_power_of_two() as i64).clamp(lanes, 1 << 20),
    }
}

/// A schedule for row reductions on the CPU.
fn row_tasks(group: &Group<'_>, rows: &Rows, lanes: i64) -> Schedule {
    let columns = guess(group, &rows.columns);
    let per_row = bytes_per_element(group, guess(group, &rows.rows));
    let vector = match rows.column_sizes.as_slice() {
        [_] => lanes,
        // Neighbouring positions in several dimensions are neighbours in memory only inside of the last.
        [.., last] => match Facts::new(&group.symbols).divisor(last) {
            0 => lanes,
            d => gcd(lanes, d),
        },
        [] => 1,
    };
    let vector = if columns < vector { 1 } else { vector };
    Schedule::RowTasks { vector, rows: (TASK_BYTES / per_row).max(1), unroll: 4 }
}
