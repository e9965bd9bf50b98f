//! Kernels whose threads compute elements of the outputs independently of each other.

use super::emitter::Emitter;
use super::group::{NodeId, V};
use super::index::{Stride, stride};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// Stores the elements of an output at a position: a vector where the position depends on the lane.
pub fn store_at<'c>(e: &mut Emitter<'c, '_>, output: NodeId, memref: V<'c>, index: &[Expr]) {
    let group = e.group;
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

/// Emits a GPU kernel in which each thread computes `per_thread` vectors of every output. All outputs have one size.
pub fn emit_gpu<'c>(e: &mut Emitter<'c, '_>, vector: i64, threads: i64, per_thread: i64, outs: &[V<'c>]) {
    e.set_lanes(vector);
    let size = super::choose::numel(e.group, e.group.outputs[0]);
    let grid = size.ceil_div(&(vector * threads * per_thread).into());
    let (block, thread) = (e.facts.variable(&grid), e.facts.variable(&threads.into()));
    let outputs: Vec<_> = e.group.outputs.iter().copied().zip(outs.iter().copied()).collect();
    e.forall(&[grid], "#gpu.block<x>", &[block], |e| {
        e.forall(&[threads.into()], "#gpu.thread<linear_dim_0>", &[thread], |e| {
            for k in 0..per_thread {
                let number = (Expr::from(block) * Expr::from(per_thread) + Expr::from(k))
                    * Expr::from(threads)
                    + Expr::from(thread);
                let first = number * Expr::from(vector);
                let linear = first.clone() + e.lane_expr();
                let write = |e: &mut Emitter<'c, '_>| {
                    for &(o, memref) in &outputs {
                        let index = e.facts.delinearize(&linear, &e.group.nodes[o].shape);
                        store_at(e, o, memref, &index);
                    }
                };
                match e.in_range(&first, &size) {
                    Some(inside) => e.when(inside, write),
                    None => write(e),
                }
            }
        });
    });
}
