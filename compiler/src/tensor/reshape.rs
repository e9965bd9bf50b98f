//! Reshapes as `tensor.collapse_shape` and `tensor.expand_shape`.

use super::emitter::{Emitter, Lowered};
use super::sizes::Size;
use melior::ir::attribute::ArrayAttribute;
use melior::ir::operation::OperationRef;
use melior::ir::{Attribute, Value};
use std::ops::Range;
use strata_dialects::OpView;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// Pairs of dimension ranges with equal products, as fine as the expressions prove. Dimensions of size 1 at the end join the last
/// pair. `None` where a shape has no dimension.
fn groups(from: &[Expr], to: &[Expr]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    if from.is_empty() || to.is_empty() {
        return None;
    }
    let product = |shape: &[Expr]| shape.iter().cloned().product::<Expr>();
    let mut out: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let (a, b) = (from.len() - i, to.len() - j);
        // The smallest pair of ranges that matches.
        let found = (2..=a + b)
            .flat_map(|total| (1..total).map(move |m| (m, total - m)))
            .find(|&(m, n)| m <= a && n <= b && product(&from[i..i + m]) == product(&to[j..j + n]));
        let Some((m, n)) = found else { break };
        out.push((i..i + m, j..j + n));
        (i, j) = (i + m, j + n);
    }
    let ones = |rest: &[Expr]| rest.iter().all(|n| *n == Expr::from(1));
    match out.last_mut() {
        Some(last) if ones(&from[i..]) && ones(&to[j..]) => (last.0.end, last.1.end) = (from.len(), to.len()),
        // The verifier knows that the numbers of elements agree, so everything together is one pair.
        _ => out = vec![(0..from.len(), 0..to.len())],
    }
    Some(out)
}

fn reassociation<'c>(e: &Emitter<'c, '_>, groups: &[Range<usize>]) -> Attribute<'c> {
    let lists: Vec<Attribute<'c>> = groups
        .iter()
        .map(|g| {
            ArrayAttribute::new(e.context, &g.clone().map(|d| e.i64(d as i64)).collect::<Vec<_>>()).into()
        })
        .collect();
    ArrayAttribute::new(e.context, &lists).into()
}

fn collapse<'c, 'a>(
    e: &Emitter<'c, 'a>,
    x: Value<'c, 'a>,
    dtype: DType,
    groups: &[Range<usize>],
    to: &[Expr],
) -> Value<'c, 'a> {
    e.b().value(
        "tensor.collapse_shape",
        &[x],
        e.tensor(dtype, to),
        &[("reassociation", reassociation(e, groups))],
    )
}

fn expand<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    x: Value<'c, 'a>,
    dtype: DType,
    groups: &[Range<usize>],
    to: &[Expr],
) -> Value<'c, 'a> {
    let sizes: Vec<Size<'c, 'a>> = to.iter().map(|n| e.sized(n)).collect();
    let (numbers, values) = e.split(&sizes);
    let operands = [vec![x], values].concat();
    let attributes = [("reassociation", reassociation(e, groups)), ("static_output_shape", numbers)];
    e.b().value("tensor.expand_shape", &operands, e.tensor(dtype, to), &attributes)
}

/// A reshape: a collapse where groups of dimensions join, then an expansion where they split.
pub(super) fn lower<'c, 'a>(
    e: &mut Emitter<'c, 'a>,
    op: OperationRef<'c, 'a>,
    view: &OpView,
) -> Lowered<'c, 'a> {
    let x = e.operand(op, 0)?;
    let (from, to) = (&view.operands[0].shape, &view.results[0].shape);
    let dtype = view.results[0].dtype;
    if from == to {
        return Ok(x);
    }
    // Without elements there is nothing to rearrange, and a product of 0 says nothing about its factors.
    if view.results[0].numel() == Expr::from(0) {
        return Ok(e.empty(dtype, to));
    }
    let Some(groups) = groups(from, to) else {
        return Ok(if to.is_empty() { collapse(e, x, dtype, &[], to) } else { expand(e, x, dtype, &[], to) });
    };
    let joined: Vec<Expr> = groups.iter().map(|(f, _)| from[f.clone()].iter().cloned().product()).collect();
    let (before, after): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
    let x = if joined == *from { x } else { collapse(e, x, dtype, &before, &joined) };
    Ok(if joined == *to { x } else { expand(e, x, dtype, &after, to) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sizes: &[i64]) -> Vec<Expr> {
        sizes.iter().map(|&n| if n < 0 { Expr::sym((-n - 1) as u32) } else { Expr::from(n) }).collect()
    }

    #[test]
    fn groups_are_as_fine_as_provable() {
        let g = |from: &[i64], to: &[i64]| groups(&shape(from), &shape(to));
        assert_eq!(g(&[2, 3, 4], &[6, 4]), Some(vec![(0..2, 0..1), (2..3, 1..2)]));
        assert_eq!(g(&[-1, 12], &[-1, 3, 4]), Some(vec![(0..1, 0..1), (1..2, 1..3)]));
        assert_eq!(g(&[2, 3], &[3, 2]), Some(vec![(0..2, 0..2)]));
        assert_eq!(g(&[-1, 1, 1], &[-1]), Some(vec![(0..3, 0..1)]));
        assert_eq!(g(&[1, -1], &[-1, 1]), Some(vec![(0..2, 0..2)]));
        assert_eq!(g(&[], &[1, 1]), None);
    }
}
