//! Pointwise kernels that read some operands across the order of their results: which operands these are, and (GPU) tiles of these operands go through shared memory, so
//! that memory is read and written in rows.
//!
//! With `a` the results' innermost dimension, such an operand is contiguous along another dimension `b`. A block takes a tile of `a` × `b`: its
//! threads read the operand's tile by vectors along `b`, and write the results by vectors along `a`.

use super::emitter::{Emitter, Place, Val};
use super::group::{Kind, NodeId, V};
use super::index::{Stride, mentions, stride};
use super::pointwise::store_at;
use super::rows_plan::{needed, reach};
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::{Expr, SymbolId};

/// What crosses the results' order in a kernel.
#[derive(Clone, Debug)]
pub struct Tiles {
    /// Sizes of the results.
    pub shape: Vec<Expr>,
    /// The dimension of the results along which the operands are contiguous.
    pub across: usize,
    /// What is read across, over the planning variables.
    pub places: Vec<Place>,
    /// What else is read and differs from position to position.
    others: Vec<Place>,
    /// A variable for the position along each dimension.
    variables: Vec<SymbolId>,
    /// Bytes of the widest element that crosses.
    pub bytes: i64,
}

/// How the work is spread.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Positions of a tile along both dimensions.
    pub tile: i64,
    /// Elements of a vector that is written.
    pub vector: i64,
    /// Elements of a vector that is read into the tile.
    pub read: i64,
    /// Threads of a block.
    pub threads: i64,
}

/// What crosses the order of the results; `None` where nothing does, or where the kernel is not all pointwise.
pub fn analyze(e: &mut Emitter<'_, '_>) -> Option<Tiles> {
    let group = e.group;
    let (&first, rest) = group.outputs.split_first()?;
    let shape = group.nodes[first].shape.clone();
    let same = rest.iter().all(|&o| group.nodes[o].shape == shape);
    let reduces =
        |n: &NodeId| matches!(group.nodes[*n].kind, Kind::Generic(g, _) if group.generics[g].reduces());
    let alone = |o: &NodeId| group.nodes[*o].kind.stands_alone();
    if !same || shape.len() < 2 || group.outputs.iter().any(alone) || needed(group).iter().any(reduces) {
        return None;
    }
    let variables: Vec<_> = shape.iter().map(|n| e.facts.variable(n)).collect();
    let at: Vec<Expr> = variables.iter().map(|&v| v.into()).collect();
    let roots: Vec<_> = group.outputs.iter().map(|&o| e.place(o, &at)).collect();
    let inner = shape.len() - 1;
    let mut across = None;
    let (mut places, mut others) = (Vec::new(), Vec::new());
    for place in reach(e, &roots, |_| false) {
        let node = &group.nodes[place.0];
        if !matches!(node.kind, Kind::Input(_)) || node.dtype == DType::I1 {
            continue;
        }
        match crosses(&place, &variables, inner) {
            Some(b) if *across.get_or_insert(b) == b && places.len() < MOST_TILES => places.push(place),
            _ if place.1.iter().any(|i| mentions(i, variables[inner])) => others.push(place),
            _ => {}
        }
    }
    let bytes = places.iter().map(|p| group.nodes[p.0].dtype.size() as i64).max()?;
    Some(Tiles { shape, across: across?, places, others, variables, bytes })
}

/// The dimension of the results along which a read is contiguous, if it is another than the innermost, and the innermost steps through another
/// dimension of what is read.
fn crosses(place: &Place, variables: &[SymbolId], inner: usize) -> Option<usize> {
    let a = variables[inner];
    let (last, outer) = place.1.split_last()?;
    let steps: Vec<_> = outer.iter().filter(|i| mentions(i, a)).collect();
    if mentions(last, a) || steps.len() != 1 || stride(steps[0], a) != Stride::Step(1) {
        return None;
    }
    let b = (0..inner).find(|&d| stride(last, variables[d]) == Stride::Step(1))?;
    (!outer.iter().any(|i| mentions(i, variables[b]))).then_some(b)
}

/// Tiles of a block: of 64 × 64 elements of 16 bits or 32 × 32 of 64, these are 68 KB.
const MOST_TILES: usize = 8;

/// Vectors of other operands that a thread reads before it waits.
const MOST_EARLY: usize = 4;

/// Elements of a row of a tile in shared memory: one word more than the tile, so that neither rows nor columns meet in one bank.
fn row(tile: i64, dtype: DType) -> i64 {
    tile + (4 / dtype.size() as i64).max(1)
}

/// Bands of so many positions across, for each position in the dimensions besides the two: those dimensions' sizes, then the number of bands.
pub fn bands(tiles: &Tiles, positions: i64) -> Vec<Expr> {
    let inner = tiles.shape.len() - 1;
    let others = (0..inner).filter(|&d| d != tiles.across).map(|d| tiles.shape[d].clone());
    others.chain([tiles.shape[tiles.across].ceil_div(&positions.into())]).collect()
}

/// Tiles in each dimension: all of the results' but the two, then across, then along the innermost.
fn grid(tiles: &Tiles, tile: i64) -> Vec<Expr> {
    let innermost = tiles.shape.last().expect("two dimensions at least").ceil_div(&tile.into());
    bands(tiles, tile).into_iter().chain([innermost]).collect()
}

/// Number of blocks.
pub fn blocks(tiles: &Tiles, tile: i64) -> Expr {
    grid(tiles, tile).into_iter().product()
}

/// Emits the kernel's body; the current scope is the function's. Returns the grid.
pub fn emit<'c>(e: &mut Emitter<'c, '_>, tiles: &Tiles, shape: Shape, outs: &[V<'c>]) -> Vec<Expr> {
    let Shape { tile, vector, read, threads } = shape;
    let inner = tiles.shape.len() - 1;
    let sizes = grid(tiles, tile);
    let total: Expr = sizes.iter().cloned().product();
    let block = e.facts.variable(&total);
    let thread = e.facts.variable(&threads.into());
    e.forall(std::slice::from_ref(&total), "#gpu.block<x>", &[block], |e| {
        let mut number = e.facts.delinearize(&block.into(), &sizes);
        let along = number.pop().expect("the innermost") * Expr::from(tile);
        let across = number.pop().expect("another") * Expr::from(tile);
        // Where the results are at a place of the tile.
        let position = |i: Expr, j: Expr| {
            let mut others = number.iter().cloned();
            (0..=inner)
                .map(|d| match d {
                    d if d == inner => i.clone(),
                    d if d == tiles.across => j.clone(),
                    _ => others.next().expect("one a dimension"),
                })
                .collect::<Vec<_>>()
        };
        let arrays: Vec<_> = (tiles.places.iter())
            .map(|p| {
                let dtype = e.group.nodes[p.0].dtype;
                let element = dtype_to_mlir(e.context(), dtype);
                e.array(&[tile, row(tile, dtype)], element, "workgroup")
            })
            .collect();
        // Where all tiles are whole, a thread reads its other operands before it waits for the tile.
        let whole = [inner, tiles.across].iter().all(|&d| e.facts.divisor(&tiles.shape[d]) % tile == 0);
        let own = units(e, thread, shape, vector);
        let early: Vec<_> = (tiles.others.iter())
            .filter(|_| whole && tiles.others.len() * own.len() <= MOST_EARLY)
            .map(|p| {
                let element = dtype_to_mlir(e.context(), e.group.nodes[p.0].dtype);
                (p, e.array(&[threads, own.len() as i64, vector], element, "private"))
            })
            .collect();
        e.set_lanes(read);
        e.forall(&[threads.into()], "#gpu.thread<linear_dim_0>", &[thread], |e| {
            e.floored(|e| {
                let mut values = Vec::new();
                for (i, j) in units(e, thread, shape, read) {
                    // Beyond the end the last rows and vectors are read again.
                    let most = |n: &Expr, k: i64| n.clone() - Expr::from(k);
                    let (a, b) = (&tiles.shape[inner], &tiles.shape[tiles.across]);
                    let x = inside(e, along.clone() + i.clone(), a, &most(a, 1));
                    let y = inside(e, across.clone() + j.clone(), b, &most(b, read)) + e.lane_expr();
                    let at = position(x, y);
                    for (p, &array) in tiles.places.iter().zip(&arrays) {
                        let place = tiles.at(e, p, &at);
                        let v = e.value_at(place.0, &place.1);
                        values.push((v, p.0, array, i.clone(), j.clone()));
                    }
                }
                e.set_lanes(vector);
                for (k, (j, i)) in own.iter().enumerate() {
                    let at = position(along.clone() + i.clone() + e.lane_expr(), across.clone() + j.clone());
                    for &(p, array) in &early {
                        let place = tiles.at(e, p, &at);
                        let v = e.value_at(place.0, &place.1);
                        e.store_private(v, array, &[thread.into(), (k as i64).into(), e.lane_expr()]);
                    }
                }
                e.set_lanes(read);
                for (v, node, array, i, j) in values {
                    let dtype = e.group.nodes[node].dtype;
                    let at = [i, j + e.lane_expr()];
                    if e.lanes > 1 {
                        let v = e.widen(v);
                        e.store_vector(v, array, &at, &[tile.into(), row(tile, dtype).into()], dtype);
                    } else {
                        e.store(v.v, array, &at);
                    }
                }
            });
        });
        e.set_lanes(vector);
        e.forall(&[threads.into()], "#gpu.thread<linear_dim_0>", &[thread], |e| {
            e.floored(|e| {
                let mut all = Vec::new();
                for (j, i) in own {
                    let (x, y) = (along.clone() + i.clone(), across.clone() + j.clone());
                    let below = e.in_range(&x, &tiles.shape[inner]);
                    let mine = match e.in_range(&y, &tiles.shape[tiles.across]) {
                        Some(c) => Some(e.and(below, c)),
                        None => below,
                    };
                    all.push((mine, position(x + e.lane_expr(), y), i, j));
                }
                let known = |e: &mut Emitter<'c, '_>, at: &[Expr], i: &Expr, j: &Expr| {
                    for (p, &array) in tiles.places.iter().zip(&arrays) {
                        let place = tiles.at(e, p, at);
                        let lanes: Vec<_> = (0..e.lanes)
                            .map(|l| e.load(array, &[i.clone() + Expr::from(l), j.clone()]))
                            .collect();
                        let v = if e.lanes > 1 { e.gather(&lanes) } else { lanes[0] };
                        e.remember(place, Val { v, lanes: e.lanes > 1 });
                    }
                };
                let write = |e: &mut Emitter<'c, '_>, at: &[Expr]| {
                    for (&o, &memref) in e.group.outputs.iter().zip(outs) {
                        store_at(e, o, memref, at);
                    }
                };
                // Where there is no condition, all reads come first.
                let free = || all.iter().filter(|u| u.0.is_none());
                free().for_each(|(_, at, i, j)| known(e, at, i, j));
                for (k, (_, at, ..)) in all.iter().enumerate() {
                    for &(p, array) in &early {
                        let from = [thread.into(), (k as i64).into(), e.lane_expr()];
                        let v = e.load_private(array, &from, e.group.nodes[p.0].dtype);
                        e.remember(tiles.at(e, p, at), Val { v, lanes: e.lanes > 1 });
                    }
                }
                for (_, at, ..) in free() {
                    let roots: Vec<_> = e.group.outputs.iter().map(|&o| e.place(o, at)).collect();
                    e.read_first(&roots);
                }
                for (mine, at, i, j) in &all {
                    match mine {
                        Some(mine) => e.when(*mine, |e| {
                            known(e, at, i, j);
                            write(e, at);
                        }),
                        None => write(e, at),
                    }
                }
            });
        });
    });
    vec![total]
}

/// A position, or the last one where it may be beyond the end.
fn inside(e: &Emitter<'_, '_>, position: Expr, size: &Expr, last: &Expr) -> Expr {
    if e.facts.below(&position, size) { position } else { position.minimum(last) }
}

/// A thread's vectors of a tile: number of the row, and first position in it.
fn units(e: &Emitter<'_, '_>, thread: SymbolId, shape: Shape, vector: i64) -> Vec<(Expr, Expr)> {
    let a_row = shape.tile / vector;
    (0..shape.tile * a_row / shape.threads)
        .map(|k| {
            let unit = Expr::from(k * shape.threads) + Expr::from(thread);
            let vectors: Expr = a_row.into();
            (e.facts.floor_div(&unit, &vectors), e.facts.modulo(&unit, &vectors) * Expr::from(vector))
        })
        .collect()
}

impl Tiles {
    /// A planned place at a position of the results.
    pub fn at(&self, e: &Emitter<'_, '_>, place: &Place, at: &[Expr]) -> Place {
        let value = |s: SymbolId| match self.variables.iter().position(|&v| v == s) {
            Some(d) => at[d].clone(),
            None => s.into(),
        };
        let index: Vec<_> = place.1.iter().map(|i| e.facts.simplify(&i.substitute(&value))).collect();
        e.place(place.0, &index)
    }
}
