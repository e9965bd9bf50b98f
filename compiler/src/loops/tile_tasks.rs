//! Pointwise kernels that read some operands across the order of their results (CPU): tiles of these are copied to the task's stack as they lie, and
//! read from there. Rows of an operand that are a power of two apart lie in few sets of a cache, which would lose them before the next row of the results.

use super::cpu::{Walk, loop_over, walk};
use super::emitter::{Emitter, Val};
use super::group::V;
use super::pointwise::store_at;
use super::runs::chunk;
use super::tiles::{Tiles, bands};
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::sym::Expr;

/// How the work is spread.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Elements of a vector.
    pub vector: i64,
    /// Positions of a tile along the innermost dimension.
    pub along: i64,
    /// Positions of a tile, and of a task, across.
    pub across: i64,
}

/// Emits the kernel's body: a task is a band of positions across, tile after tile. Returns the grid.
pub fn emit<'c>(e: &mut Emitter<'c, '_>, tiles: &Tiles, shape: Shape, outs: &[V<'c>]) -> Vec<Expr> {
    let Shape { vector, along, across } = shape;
    let inner = tiles.shape.len() - 1;
    let sizes = bands(tiles, across);
    let total: Expr = sizes.iter().cloned().product();
    let number = e.facts.variable(&total);
    // One element more than a row: columns of the tile lie in different sets, too.
    let row = Expr::from(across + 1);
    e.forall(std::slice::from_ref(&total), "#loop.task", &[number], |e| {
        let mut others = e.facts.delinearize(&number.into(), &sizes);
        let first = others.pop().expect("the dimension across") * Expr::from(across);
        let count = chunk(e, &first, across, &tiles.shape[tiles.across]);
        let columns = tiles.shape[inner].clone();
        let arrays: Vec<_> = (tiles.places.iter())
            .map(|p| {
                let element = dtype_to_mlir(e.context(), e.group.nodes[p.0].dtype);
                e.stack(along * (across + 1), element)
            })
            .collect();
        // Where the results are at a place of the tile from `from` on.
        let position = |from: &Expr, i: &Expr, j: &Expr| {
            let mut rest = others.iter().cloned();
            (0..=inner)
                .map(|d| match d {
                    d if d == inner => from.clone() + i.clone(),
                    d if d == tiles.across => first.clone() + j.clone(),
                    _ => rest.next().expect("one a dimension"),
                })
                .collect::<Vec<_>>()
        };
        loop_over(e, &columns.ceil_div(&along.into()), |e, tile| {
            let from = tile * Expr::from(along);
            let length = chunk(e, &from, along, &columns);
            loop_over(e, &length, |e, i| {
                walk(e, Walk { vector, unroll: 1, length: &count }, &[], |e, j, _| {
                    let at = position(&from, &i, &j);
                    for (p, &array) in tiles.places.iter().zip(&arrays) {
                        let (node, index) = tiles.at(e, p, &at);
                        let v = e.value_at(node, &index);
                        e.store_private(v, array, &[i.clone() * row.clone() + j.clone()]);
                    }
                    vec![]
                });
            });
            loop_over(e, &count, |e, j| {
                walk(e, Walk { vector, unroll: 1, length: &length }, &[], |e, i, _| {
                    let at = position(&from, &i, &j);
                    for (p, &array) in tiles.places.iter().zip(&arrays) {
                        let element = [i.clone() * row.clone() + j.clone()];
                        let lanes: Vec<_> = (0..e.lanes)
                            .map(|l| {
                                let at = e.at_lane(&element, l);
                                e.load(array, &at)
                            })
                            .collect();
                        let v = if e.lanes > 1 { e.gather(&lanes) } else { lanes[0] };
                        e.remember(tiles.at(e, p, &at), Val { v, lanes: e.lanes > 1 });
                    }
                    for (&o, &memref) in e.group.outputs.iter().zip(outs) {
                        store_at(e, o, memref, &at);
                    }
                    vec![]
                });
            });
        });
    });
    vec![total]
}
