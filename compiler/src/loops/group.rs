//! A tensor-level kernel function as plain data: a graph of nodes with symbolic shapes.

use crate::ir;
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, BlockLike, BlockRef, Location, Value, ValueLike};
use std::collections::BTreeMap;
pub use strata_dialects::build::definition;
use strata_dialects::ops::indexing::ScatterKind;
use strata_dialects::ops::reductions::ReduceKind;
use strata_runtime::DType;
use strata_runtime::sym::{Expr, Symbol};

/// A value; its lifetime is that of the module, which outlives emission.
pub type V<'c> = Value<'c, 'c>;
/// Number of a node.
pub type NodeId = usize;

/// A tensor of the kernel.
#[derive(Clone, Debug)]
pub struct Node<'c> {
    /// What computes it.
    pub kind: Kind<'c>,
    /// Element type.
    pub dtype: DType,
    /// Sizes over the kernel's symbols.
    pub shape: Vec<Expr>,
    /// Where it comes from in the source.
    pub location: Location<'c>,
}

/// What computes a node.
#[derive(Clone, Debug)]
pub enum Kind<'c> {
    /// An operand of the kernel.
    Input(usize),
    /// One scalar everywhere.
    Splat(V<'c>),
    /// Element attributes in row-major order; one where all are equal.
    Constant(Vec<Attribute<'c>>),
    /// Contents do not matter.
    Empty,
    /// A result of a `linalg.generic`.
    Generic(usize, usize),
    /// Positions `offset + i * stride` of the operand.
    Slice(NodeId, Vec<Expr>, Vec<Expr>),
    /// The operand at `i - low`, the scalar outside of it.
    Pad(NodeId, Vec<Expr>, V<'c>),
    /// Operands one after another along a dimension.
    Concat(Vec<NodeId>, usize),
    /// The same row-major elements under another shape.
    Reshape(NodeId),
    /// The elements of an operand with updates written to places along `dim` that indices say. Only as the kernel's result.
    Scatter {
        /// How an update meets the element.
        kind: ScatterKind,
        /// The operand.
        dest: NodeId,
        /// Places along `dim`.
        indices: NodeId,
        /// What is written.
        updates: NodeId,
        /// The dimension that the indices are places of.
        dim: usize,
        /// Whether no index is outside or counts from the end.
        in_bounds: bool,
    },
    /// Running combinations along a dimension. Only as the kernel's result.
    Scan {
        /// What is combined.
        source: NodeId,
        /// The op: `add`, `mul`, `max`, `min`.
        kind: ReduceKind,
        /// The dimension.
        dim: usize,
    },
    /// The elements along a dimension in order, or the positions they had. Only as the kernel's results, both of them.
    Sort {
        /// What is sorted.
        source: NodeId,
        /// The dimension.
        dim: usize,
        /// Whether the largest comes first.
        descending: bool,
        /// Whether integers have no sign.
        unsigned: bool,
        /// 0 for the elements, 1 for the positions.
        part: usize,
    },
}

impl Kind<'_> {
    /// Whether it has a kernel's results for itself.
    pub fn stands_alone(&self) -> bool {
        matches!(self, Self::Scatter { .. } | Self::Scan { .. } | Self::Sort { .. })
    }
}

/// A `linalg.generic`.
#[derive(Clone, Debug)]
pub struct Generic<'c> {
    /// Sizes of the loops.
    pub sizes: Vec<Expr>,
    /// Which loops reduce.
    pub reduction: Vec<bool>,
    /// Inputs, then initial values.
    pub operands: Vec<NodeId>,
    /// Positions of the operands over the loops (symbol `d` is loop `d`).
    pub maps: Vec<Vec<Expr>>,
    /// How many of the operands are inputs.
    pub inputs: usize,
    /// The body.
    pub body: BlockRef<'c, 'c>,
    /// For a reduction with one result: the op that combines, and the body's value that is combined with the accumulator.
    pub combine: Option<(OperationRef<'c, 'c>, V<'c>)>,
}

impl Generic<'_> {
    /// Whether any loop reduces.
    pub fn reduces(&self) -> bool {
        self.reduction.contains(&true)
    }
}

/// A kernel function.
#[derive(Clone, Debug, Default)]
pub struct Group<'c> {
    /// Tensors, operands before users.
    pub nodes: Vec<Node<'c>>,
    /// Generics, operands before users.
    pub generics: Vec<Generic<'c>>,
    /// Nodes of the operands.
    pub inputs: Vec<NodeId>,
    /// Nodes of the results.
    pub outputs: Vec<NodeId>,
    /// The kernel's symbols.
    pub symbols: Vec<Symbol>,
    /// The symbols' arguments.
    pub symbol_arguments: Vec<V<'c>>,
    pub(super) values: BTreeMap<usize, NodeId>,
    pub(super) sizes: BTreeMap<usize, Expr>,
}

/// Memory of a kernel's own, a buffer argument after its results.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// Element type.
    pub dtype: DType,
    /// Sizes over the kernel's symbols.
    pub shape: Vec<Expr>,
    /// Whether it is 0 when the kernel starts, and again when it ends: tickets of `loop.arrive`.
    pub tickets: bool,
}

/// Shortens a lifetime-laden handle to the module's.
pub fn value<'c>(v: impl ValueLike<'c>) -> V<'c> {
    // SAFETY: the caller's module outlives all uses.
    unsafe { Value::from_raw(v.to_raw()) }
}

/// Identity of a value.
pub(super) fn key(v: V<'_>) -> usize {
    v.to_raw().ptr as usize
}

/// The number of a block argument of `block`.
pub fn argument_number(v: V<'_>, block: BlockRef<'_, '_>) -> Option<usize> {
    // SAFETY: a live value; the kind is checked first.
    unsafe {
        (mlir_sys::mlirValueIsABlockArgument(v.to_raw())
            && mlir_sys::mlirBlockEqual(mlir_sys::mlirBlockArgumentGetOwner(v.to_raw()), block.to_raw()))
        .then(|| mlir_sys::mlirBlockArgumentGetArgNumber(v.to_raw()) as usize)
    }
}

/// Whether a value is defined by an op of `block`.
pub fn defined_in<'c>(v: V<'c>, block: BlockRef<'c, '_>) -> bool {
    definition(v).and_then(|op| op.block().map(|b| b.to_raw().ptr == block.to_raw().ptr)).unwrap_or(false)
}

impl<'c> Group<'c> {
    /// The index value of the function that was read, as an expression of the symbols.
    pub fn size_of(&self, v: V<'c>) -> Option<Expr> {
        self.sizes.get(&key(v)).cloned()
    }

    /// The node behind a tensor value of the function that was read.
    pub fn node_of(&self, v: V<'c>) -> Option<NodeId> {
        self.values.get(&key(v)).copied()
    }
}

/// Whether a node's value depends on each of its positions: broadcast dimensions do not matter.
pub fn dependences(group: &Group<'_>) -> Vec<Vec<bool>> {
    let mut all: Vec<Vec<bool>> = Vec::with_capacity(group.nodes.len());
    for node in &group.nodes {
        let rank = node.shape.len();
        let depends = match &node.kind {
            Kind::Input(_) => node.shape.iter().map(|s| s.as_const() != Some(1)).collect(),
            Kind::Splat(_) | Kind::Empty => vec![false; rank],
            Kind::Constant(list) => vec![list.len() > 1; rank],
            Kind::Slice(source, ..) => all[*source].clone(),
            Kind::Pad(..)
            | Kind::Concat(..)
            | Kind::Scatter { .. }
            | Kind::Scan { .. }
            | Kind::Sort { .. } => {
                vec![true; rank]
            }
            Kind::Reshape(source) => vec![all[*source].contains(&true); rank],
            Kind::Generic(g, result) => {
                let g = &group.generics[*g];
                let mut loops = indexed_loops(g);
                for (operand, map) in g.operands.iter().zip(&g.maps) {
                    for (e, _) in map.iter().zip(&all[*operand]).filter(|(_, d)| **d) {
                        e.symbols().iter().for_each(|s| loops[s.0 as usize] = true);
                    }
                }
                let map = &g.maps[g.inputs + result];
                map.iter().map(|e| e.symbols().iter().any(|s| loops[s.0 as usize])).collect()
            }
        };
        all.push(depends);
    }
    all
}

/// Loops whose position the body reads.
fn indexed_loops(g: &Generic<'_>) -> Vec<bool> {
    let mut loops = vec![false; g.sizes.len()];
    for op in ir::ops(g.body) {
        if ir::name(&op) == "linalg.index" {
            let dim = op.attribute("dim").ok().and_then(|a| IntegerAttribute::try_from(a).ok());
            loops[dim.map_or(0, |d| d.value() as usize)] = true;
        }
    }
    loops
}

/// Tensors that a generic's body reads by `tensor.extract`.
pub fn captured(group: &Group<'_>, generic: usize) -> Vec<NodeId> {
    ir::ops(group.generics[generic].body)
        .into_iter()
        .filter(|op| ir::name(op) == "tensor.extract")
        .filter_map(|op| group.node_of(value(op.operand(0).ok()?)))
        .collect()
}
