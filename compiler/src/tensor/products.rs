//! Sums of products, kept in f32 for narrower floats and rounded once.

use super::emitter::{Emitter, Iterator, Lowered, Mapped};
use super::reductions::padded;
use melior::ir::operation::OperationRef;
use strata_dialects::OpView;
use strata_dialects::ops::products::free_dims;
use strata_dialects::ops::reductions::ReduceKind;
use strata_dialects::reference::Scalar;

/// One generic that adds up products of two inputs.
fn multiply_add<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    view: &OpView,
    inputs: [Mapped<'c, 'a>; 2],
    out: melior::ir::AffineMap<'c>,
    iterators: &[Iterator],
) -> Lowered<'c, 'a> {
    let result = &view.results[0];
    let acc = result.dtype.accumulator();
    let zero = e.scalar(e.b(), acc, ReduceKind::Sum.neutral(acc));
    let init = e.filled(zero, acc, &result.shape);
    let sum = e.generic(&inputs, &[(init, out)], iterators, |b, x| {
        let (mul, add) =
            if acc.is_float() { ("arith.mulf", "arith.addf") } else { ("arith.muli", "arith.addi") };
        let [l, r] = [0, 1].map(|i| b.widened(x[i], view.operands[i].dtype));
        let product = b.binary(mul, l, r);
        vec![b.binary(add, x[2], product)]
    })[0];
    Ok(e.narrowed(sum, result))
}

/// Iterations: batch, free dimensions of lhs, of rhs, contracting dimensions.
pub(super) fn lower_dot<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let (l, r) = (e.operand(op, 0)?, e.operand(op, 1)?);
    let (lf, rf) = free_dims(view);
    let (lb, rb) = (view.indices("lhs_batch"), view.indices("rhs_batch"));
    let (lc, rc) = (view.indices("lhs_contracting"), view.indices("rhs_contracting"));
    let parallel = lb.len() + lf.len() + rf.len();
    let dims = parallel + lc.len();
    let place = |rank: usize, batch: &[usize], free: &[usize], first_free: usize, contracting: &[usize]| {
        let mut places = vec![0; rank];
        batch.iter().enumerate().for_each(|(i, &d)| places[d] = i);
        free.iter().enumerate().for_each(|(i, &d)| places[d] = first_free + i);
        contracting.iter().enumerate().for_each(|(i, &d)| places[d] = parallel + i);
        places
    };
    let lp = place(view.operands[0].rank(), &lb, &lf, lb.len(), &lc);
    let rp = place(view.operands[1].rank(), &rb, &rf, lb.len() + lf.len(), &rc);
    let maps = [e.pick(dims, &lp), e.pick(dims, &rp)];
    let out = e.pick(dims, &(0..parallel).collect::<Vec<_>>());
    let iterators = [vec![Iterator::Parallel; parallel], vec![Iterator::Reduction; lc.len()]].concat();
    multiply_add(e, view, [(l, maps[0]), (r, maps[1])], out, &iterators)
}

/// Iterations: image, output channel, positions; channel within the group, positions in the weight.
pub(super) fn lower_convolution<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let (x, w) = (e.operand(op, 0)?, e.operand(op, 1)?);
    let (input, weight) = (&view.operands[0], &view.operands[1]);
    let (rank, spatial) = (input.rank(), input.rank() - 2);
    let (strides, dilation) = (view.ints("strides"), view.ints("dilation"));
    let (low, high) = ([&[0, 0], view.ints("low")].concat(), [&[0, 0], view.ints("high")].concat());
    let x = if low.iter().chain(&high).all(|&n| n == 0) {
        x
    } else {
        let zero = e.scalar(e.b(), input.dtype, Scalar::F(0.0));
        padded(e, x, zero, input, &low, &high)
    };
    let dims = rank + 1 + spatial;
    let groups = view.int("groups");
    let per_group = weight.shape[1].as_const().expect("verified: channels are numbers");
    let out_per_group = weight.shape[0].as_const().expect("verified: channels are numbers") / groups;
    // The input channel of output channel o and channel c of its group.
    let channel = match (groups, per_group, out_per_group) {
        (1, _, _) => e.d(rank),
        (_, 1, 1) => e.d(1),
        _ => {
            let group = melior::ir::AffineExpr::floor_div(e.d(1), e.c(out_per_group));
            group * e.c(per_group) + e.d(rank)
        }
    };
    let mut read = vec![e.d(0), channel];
    read.extend((0..spatial).map(|s| e.d(2 + s) * e.c(strides[s]) + e.d(rank + 1 + s) * e.c(dilation[s])));
    let taps: Vec<usize> = std::iter::once(1).chain(rank..dims).collect();
    let maps = [e.map(dims, &read), e.pick(dims, &taps)];
    let out = e.pick(dims, &(0..rank).collect::<Vec<_>>());
    let iterators = [vec![Iterator::Parallel; rank], vec![Iterator::Reduction; 1 + spatial]].concat();
    multiply_add(e, view, [(x, maps[0]), (w, maps[1])], out, &iterators)
}
