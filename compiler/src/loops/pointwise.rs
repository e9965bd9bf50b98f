//! Kernels whose threads compute elements of the outputs independently of each other.

use super::domain::{Part, block_mapping, parts, positions};
use super::emitter::Emitter;
use super::group::{NodeId, V};
use super::index::{Stride, stride};
use super::scatter::{domain, scatter_of};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// Stores the elements of an output at a position: a vector where the position depends on the lane.
pub fn store_at<'c>(e: &mut Emitter<'c, '_>, output: NodeId, memref: V<'c>, index: &[Expr]) {
    let group = e.group;
    if let Some(s) = scatter_of(group, output) {
        return s.write_atomically(e, memref, index);
    }
    let (dtype, shape) = (group.nodes[output].dtype, &group.nodes[output].shape);
    let x = e.value_at(output, index);
    let lane = e.lane;
    let strides: Vec<_> = index.iter().map(|i| stride(i, lane)).collect();
    if e.lanes == 1 || strides.iter().all(|&s| s == Stride::Uniform) {
        e.store(x.v, memref, index);
        return;
    }
    let v = e.widen(x);
    let (last, outer) = strides.split_last().expect("a position that depends on the lane");
    let contiguous = *last == Stride::Step(1) && outer.iter().all(|&s| s == Stride::Uniform);
    if contiguous && dtype != DType::I1 {
        return e.store_vector(v, memref, index, shape, dtype);
    }
    for l in 0..e.lanes {
        let scalar = e.extract(v, l);
        let at = e.at_lane(index, l);
        e.store(scalar, memref, &at);
    }
}

/// Outputs of one shape, with their memrefs.
struct Segment<'c> {
    parts: Vec<Part>,
    outputs: Vec<(NodeId, V<'c>)>,
}

impl<'c> Segment<'c> {
    /// Issues the reads behind every output at a position in the parts.
    fn read(&self, e: &mut Emitter<'c, '_>, at: &[Expr]) {
        let index = positions(e, &self.parts, at);
        let own = self.outputs.iter().filter(|(o, _)| scatter_of(e.group, *o).is_none());
        let roots: Vec<_> = own.map(|&(o, _)| e.place(o, &index)).collect();
        e.read_first(&roots);
    }

    /// Stores every output at a position in the parts.
    fn write(&self, e: &mut Emitter<'c, '_>, at: &[Expr]) {
        self.read(e, at);
        let index = positions(e, &self.parts, at);
        for &(o, memref) in &self.outputs {
            store_at(e, o, memref, &index);
        }
    }
}

fn segments<'c>(e: &Emitter<'c, '_>, outs: &[V<'c>]) -> Vec<Segment<'c>> {
    let mut all: Vec<(Vec<Expr>, Segment<'c>)> = Vec::new();
    for (&o, &memref) in e.group.outputs.iter().zip(outs) {
        let shape = domain(e.group, o);
        match all.iter_mut().find(|(s, _)| s == shape) {
            Some((_, segment)) => segment.outputs.push((o, memref)),
            None => all.push((shape.to_vec(), Segment { parts: parts(shape), outputs: vec![(o, memref)] })),
        }
    }
    all.into_iter().map(|(_, s)| s).collect()
}

/// Blocks of a grid that does not depend on the sizes.
const FIXED_GRID: i64 = 1056;

/// Emits a GPU kernel in which each thread computes `per_thread` vectors of the outputs. Returns the grid.
pub fn emit_gpu<'c>(
    e: &mut Emitter<'c, '_>,
    vector: i64,
    threads: i64,
    per_thread: i64,
    outs: &[V<'c>],
) -> Vec<Expr> {
    e.set_lanes(vector);
    let segments = segments(e, outs);
    let tile: Expr = (vector * threads * per_thread).into();
    let blocks = |s: &Segment<'c>| s.parts.last().expect("at least one part").size.ceil_div(&tile);
    if segments.len() == 1 && segments[0].parts.len() <= 3 {
        let segment = &segments[0];
        let mut grid: Vec<Expr> = segment.parts.iter().map(|p| p.size.clone()).collect();
        *grid.last_mut().expect("at least one part") = blocks(segment);
        let variables: Vec<_> = grid.iter().map(|g| e.facts.variable(g)).collect();
        e.forall(&grid, &block_mapping(grid.len()), &variables, |e| {
            let at: Vec<Expr> = variables.iter().map(|&v| v.into()).collect();
            tiles(e, segment, &at, vector, threads, per_thread);
        });
        return grid;
    }
    if segments.iter().all(|s| s.parts.len() == 1) {
        // One after another along the grid.
        let counts: Vec<Expr> = segments.iter().map(blocks).collect();
        let total: Expr = counts.iter().cloned().sum();
        let block = e.facts.variable(&total);
        e.forall(std::slice::from_ref(&total), "#gpu.block<x>", &[block], |e| {
            let mut start = Expr::default();
            for (segment, count) in segments.iter().zip(&counts) {
                let local = Expr::from(block) - start.clone();
                start = start + count.clone();
                let from = e.compare("sge", &local, &0.into());
                let below = e.compare("slt", &local, count);
                let mine = e.and(Some(from), below);
                e.when(mine, |e| {
                    // The condition bounds the block's number in the segment.
                    let (variable, v) = (e.facts.variable(count), e.index(&local));
                    e.bind(variable, v);
                    tiles(e, segment, &[variable.into()], vector, threads, per_thread);
                });
            }
        });
        return vec![total];
    }
    let block = e.facts.variable(&FIXED_GRID.into());
    let thread = e.facts.variable(&threads.into());
    e.forall(&[FIXED_GRID.into()], "#gpu.block<x>", &[block], |e| {
        e.forall(&[threads.into()], "#gpu.thread<linear_dim_0>", &[thread], |e| {
            e.floored(|e| {
                for segment in &segments {
                    let size: Expr = segment.parts.iter().map(|p| p.size.clone()).product();
                    let steps = size.ceil_div(&(vector * threads * FIXED_GRID).into());
                    let step = e.facts.variable(&steps);
                    e.for_loop(&steps, step, &[], |e, _| {
                        let n = (Expr::from(step) * Expr::from(FIXED_GRID) + Expr::from(block))
                            * Expr::from(threads)
                            + Expr::from(thread);
                        let first = n * Expr::from(vector);
                        let inside = e.in_range(&first, &size);
                        let linear = first + e.lane_expr();
                        let write = |e: &mut Emitter<'c, '_>| {
                            let sizes: Vec<_> = segment.parts.iter().map(|p| p.size.clone()).collect();
                            let at = e.facts.delinearize(&linear, &sizes);
                            segment.write(e, &at);
                        };
                        match inside {
                            Some(inside) => e.when(inside, write),
                            None => write(e),
                        }
                        vec![]
                    });
                }
            });
        });
    });
    vec![FIXED_GRID.into()]
}

/// A block's part of a segment; `at` is the position of the block, with the tile's number last.
fn tiles<'c>(
    e: &mut Emitter<'c, '_>,
    segment: &Segment<'c>,
    at: &[Expr],
    vector: i64,
    threads: i64,
    per_thread: i64,
) {
    let thread = e.facts.variable(&threads.into());
    let (tile, outer) = at.split_last().expect("at least one part");
    let size = &segment.parts.last().expect("at least one part").size;
    e.forall(&[threads.into()], "#gpu.thread<linear_dim_0>", &[thread], |e| {
        e.floored(|e| {
            let vectors: Vec<_> = (0..per_thread)
                .map(|k| {
                    let number = (tile.clone() * Expr::from(per_thread) + Expr::from(k))
                        * Expr::from(threads)
                        + Expr::from(thread);
                    let first = number * Expr::from(vector);
                    let inside = e.in_range(&first, size);
                    let mut at = outer.to_vec();
                    at.push(first + e.lane_expr());
                    (inside, at)
                })
                .collect();
            for (_, at) in vectors.iter().filter(|(inside, _)| inside.is_none()) {
                segment.read(e, at);
            }
            for (inside, at) in &vectors {
                match inside {
                    Some(inside) => e.when(*inside, |e| segment.write(e, at)),
                    None => segment.write(e, at),
                }
            }
        });
    });
}
