//! The emitter's state: scopes, variables, memoised values, and the ops that loops are made of.

use super::group::{Group, NodeId, V, value};
use super::index::Facts;
use melior::Context;
use melior::ir::attribute::{DenseI32ArrayAttribute, DenseI64ArrayAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{
    Attribute, Block, BlockLike, BlockRef, Location, Region, RegionLike, Type, TypeLike, ValueLike,
};
use std::collections::BTreeMap;
use strata_dialects::Builder;
use strata_runtime::sym::{Expr, SymbolId};

/// An emitted value: one scalar for all lanes, or a vector with one element a lane.
#[derive(Clone, Copy, Debug)]
pub struct Val<'c> {
    /// The value.
    pub v: V<'c>,
    /// Whether it is a vector.
    pub lanes: bool,
}

/// A tensor at a position.
pub type Place = (NodeId, Vec<Expr>);

/// A block that is being filled, and what is known inside of it.
pub struct Scope<'c> {
    /// Appends to the block.
    pub b: Builder<'c, 'c>,
    values: BTreeMap<Place, Val<'c>>,
    pub(super) indices: BTreeMap<Expr, V<'c>>,
    /// Variables that the block defines.
    pub(super) variables: BTreeMap<SymbolId, V<'c>>,
    /// Whether the block runs on a condition: nothing that only makes sense under it may move out.
    guard: bool,
}

/// Writes the ops of one kernel.
pub struct Emitter<'c, 'g> {
    /// The kernel's tensors.
    pub group: &'g Group<'c>,
    /// What is known of variables.
    pub facts: Facts,
    /// Open blocks, outermost first. Index arithmetic goes as far out as its variables allow, but not out of the second.
    pub scopes: Vec<Scope<'c>>,
    /// Memrefs of the operands.
    pub memrefs: Vec<V<'c>>,
    /// Lanes of a vector; 1 without vectors.
    pub lanes: i64,
    /// The variable that stands for the lane.
    pub lane: SymbolId,
    /// Whether the code is for the CPU: lanes are combined by `vector.reduction`, not by scalar ops, and accesses need no alignment.
    pub cpu: bool,
    /// The outermost scope that values may move to.
    pub floor: usize,
    pub(super) bound: BTreeMap<usize, SymbolId>,
    /// Values that are known to be below a size, from 0 on.
    pub(super) checked: BTreeMap<usize, Expr>,
    depends: Vec<Vec<bool>>,
}

impl<'c, 'g> Emitter<'c, 'g> {
    /// An emitter for a kernel whose function body is `body`.
    pub fn new(
        context: &'c Context,
        group: &'g Group<'c>,
        body: BlockRef<'c, 'c>,
        memrefs: Vec<V<'c>>,
        symbols: &[V<'c>],
        location: Location<'c>,
    ) -> Self {
        let mut facts = Facts::new(&group.symbols);
        let lane = facts.variable(&1.into());
        let mut scope = Scope {
            b: Builder::at_end(context, body, location),
            values: BTreeMap::new(),
            indices: BTreeMap::new(),
            variables: BTreeMap::new(),
            guard: false,
        };
        for (i, &s) in symbols.iter().enumerate() {
            scope.variables.insert(SymbolId(i as u32), s);
        }
        Self {
            group,
            facts,
            scopes: vec![scope],
            memrefs,
            lanes: 1,
            lane,
            cpu: false,
            floor: usize::MAX,
            bound: BTreeMap::new(),
            checked: BTreeMap::new(),
            depends: super::group::dependences(group),
        }
    }

    /// An emitter that only answers questions about the kernel.
    pub fn probe(context: &'c Context, group: &'g Group<'c>, location: Location<'c>) -> Self {
        let block = Block::new(&[]);
        // SAFETY: nothing is appended to it, so that the block need not live on.
        let body = unsafe { BlockRef::<'c, 'c>::from_raw(block.to_raw()) };
        Self::new(context, group, body, vec![], &[], location)
    }

    /// A place with position 0 in dimensions that do not matter.
    pub fn place(&self, node: NodeId, index: &[Expr]) -> Place {
        let index = index
            .iter()
            .zip(&self.depends[node])
            .map(|(e, &d)| if d { e.clone() } else { Expr::default() })
            .collect();
        (node, index)
    }

    /// Sets the number of lanes for what follows.
    pub fn set_lanes(&mut self, lanes: i64) {
        self.lanes = lanes;
        self.lane = self.facts.variable(&lanes.into());
    }

    /// The lane's number as an expression; 0 without vectors.
    pub fn lane_expr(&self) -> Expr {
        if self.lanes == 1 { Expr::default() } else { self.lane.into() }
    }

    /// The builder of the innermost block.
    pub fn b(&self) -> Builder<'c, 'c> {
        self.scopes.last().expect("an open scope").b
    }

    /// The context.
    pub fn context(&self) -> &'c Context {
        self.scopes[0].b.context
    }

    /// What is memoised for a place.
    pub fn known(&self, place: &Place) -> Option<Val<'c>> {
        self.scopes.iter().rev().find_map(|s| s.values.get(place).copied())
    }

    /// Memoises a value in the innermost scope.
    pub fn remember(&mut self, place: Place, v: Val<'c>) {
        self.scopes.last_mut().expect("an open scope").values.insert(place, v);
    }

    /// An op with a region of one block, whose body `fill` writes, terminator included.
    pub fn nested<R>(
        &mut self,
        op: NestedOp<'_, 'c>,
        fill: impl FnOnce(&mut Self, BlockRef<'c, 'c>) -> R,
    ) -> (OperationRef<'c, 'c>, R) {
        let b = self.b();
        let make_block = |arguments: &[Type<'c>]| {
            let arguments: Vec<_> = arguments.iter().map(|&t| (t, b.location)).collect();
            let region = Region::new();
            let block = region.append_block(Block::new(&arguments));
            // SAFETY: building the op moves the region's blocks into the op, where they live as long as the module.
            let block = unsafe { BlockRef::<'c, 'c>::from_raw(block.to_raw()) };
            (region, block)
        };
        let (region, block) = make_block(op.arguments);
        let mut regions = vec![region];
        if op.empty_regions > 0 {
            regions.extend((0..op.empty_regions).map(|_| Region::new()));
        }
        let built = b.op(op.name, op.operands, op.results, op.attributes, regions);
        let depth = self.scopes.len() - 1;
        let before = self.scopes[depth].b.before.replace(built);
        let r = self.inside(block, |e| fill(e, block));
        self.scopes[depth].b.before = before;
        (built, r)
    }

    /// Runs `fill` with `block` as the innermost scope.
    pub fn inside<R>(&mut self, block: BlockRef<'c, 'c>, fill: impl FnOnce(&mut Self) -> R) -> R {
        let b = self.b();
        self.scopes.push(Scope {
            b: Builder::at_end(b.context, block, b.location),
            values: BTreeMap::new(),
            indices: BTreeMap::new(),
            variables: BTreeMap::new(),
            guard: false,
        });
        let r = fill(self);
        self.scopes.pop();
        r
    }

    /// Makes the innermost scope the outermost that values may move to, while `fill` runs.
    pub fn floored<R>(&mut self, fill: impl FnOnce(&mut Self) -> R) -> R {
        let before = std::mem::replace(&mut self.floor, self.scopes.len() - 1);
        let r = fill(self);
        self.floor = before;
        r
    }

    /// Runs `fill` as far out as the variables of a position, conditions and the floor allow: what does not change in a loop is
    /// computed before it.
    pub fn hoisted<R>(&mut self, index: &[Expr], fill: impl FnOnce(&mut Self) -> R) -> R {
        let innermost = self.scopes.len() - 1;
        let guard = self.scopes.iter().rposition(|s| s.guard).unwrap_or(0);
        let depth = index.iter().map(|e| self.depth(e)).fold(guard.max(self.floor), usize::max);
        if depth >= innermost {
            return fill(self);
        }
        let inner = self.scopes.split_off(depth + 1);
        let r = fill(self);
        self.scopes.extend(inner);
        r
    }

    /// Binds a variable to a value in the innermost scope.
    pub fn bind(&mut self, s: SymbolId, v: V<'c>) {
        self.scopes.last_mut().expect("an open scope").variables.insert(s, v);
    }

    /// Parses an attribute that is known to be valid.
    pub fn attribute(&self, text: &str) -> Attribute<'c> {
        Attribute::parse(self.context(), text).unwrap_or_else(|| panic!("invalid attribute '{text}'"))
    }

    /// `scf.forall (i…) in (bounds…)` with a mapping, e.g. `#gpu.block<x>`. The body gets the variables.
    pub fn forall<R>(
        &mut self,
        bounds: &[Expr],
        mapping: &str,
        variables: &[SymbolId],
        fill: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let mut dynamic = Vec::new();
        let mut fixed = Vec::new();
        for e in bounds {
            match e.as_const() {
                Some(c) => fixed.push(c),
                None => {
                    fixed.push(i64::MIN);
                    dynamic.push(self.index(e));
                }
            }
        }
        let context = self.context();
        let dense = |v: &[i64]| -> Attribute<'c> { DenseI64ArrayAttribute::new(context, v).into() };
        let segments = DenseI32ArrayAttribute::new(context, &[0, dynamic.len() as i32, 0, 0]).into();
        let mapping = self.attribute(&format!("[{mapping}]"));
        let index = Type::index(context);
        let attributes = [
            ("staticLowerBound", dense(&vec![0; fixed.len()])),
            ("staticUpperBound", dense(&fixed)),
            ("staticStep", dense(&vec![1; fixed.len()])),
            ("mapping", mapping),
            ("operandSegmentSizes", segments),
        ];
        let arguments = vec![index; bounds.len()];
        let op = NestedOp {
            name: "scf.forall",
            operands: &dynamic,
            results: &[],
            attributes: &attributes,
            arguments: &arguments,
            empty_regions: 0,
        };
        let (_, r) = self.nested(op, |e, block| {
            for (i, &v) in variables.iter().enumerate() {
                e.bind(v, value(block.argument(i).expect("one argument a bound")));
            }
            let r = fill(e);
            let region = Region::new();
            region.append_block(Block::new(&[]));
            e.b().op("scf.forall.in_parallel", &[], &[], &[], vec![region]);
            r
        });
        r
    }

    /// `scf.for variable in 0..bound`, with values carried around: `step` gets the carried values and returns the next ones.
    pub fn for_loop(
        &mut self,
        bound: &Expr,
        variable: SymbolId,
        initial: &[V<'c>],
        step: impl FnOnce(&mut Self, &[V<'c>]) -> Vec<V<'c>>,
    ) -> Vec<V<'c>> {
        let bounds = [self.index(&0.into()), self.index(bound), self.index(&1.into())];
        let operands: Vec<_> = bounds.iter().chain(initial).copied().collect();
        let results: Vec<_> = initial.iter().map(|v| v.r#type()).collect();
        let mut arguments = vec![Type::index(self.context())];
        arguments.extend(&results);
        let op = NestedOp {
            name: "scf.for",
            operands: &operands,
            results: &results,
            attributes: &[],
            arguments: &arguments,
            empty_regions: 0,
        };
        let (op, ()) = self.nested(op, |e, block| {
            e.bind(variable, value(block.argument(0).expect("the variable")));
            let carried: Vec<_> =
                (0..initial.len()).map(|i| value(block.argument(1 + i).expect("carried"))).collect();
            let next = step(e, &carried);
            e.b().op("scf.yield", &next, &[], &[], vec![]);
        });
        op.results().map(value).collect()
    }

    fn guard(&mut self) {
        self.scopes.last_mut().expect("an open scope").guard = true;
    }

    /// `scf.if` without results.
    pub fn when(&mut self, condition: V<'c>, then: impl FnOnce(&mut Self)) {
        let op = NestedOp {
            name: "scf.if",
            operands: &[condition],
            results: &[],
            attributes: &[],
            arguments: &[],
            empty_regions: 1,
        };
        self.nested(op, |e, _| {
            e.guard();
            then(e);
            e.b().op("scf.yield", &[], &[], &[], vec![]);
        });
    }

    /// `scf.if` that gives a value.
    pub fn choose(
        &mut self,
        condition: V<'c>,
        ty: Type<'c>,
        then: impl FnOnce(&mut Self) -> V<'c>,
        otherwise: impl FnOnce(&mut Self) -> V<'c>,
    ) -> V<'c> {
        let op = NestedOp {
            name: "scf.if",
            operands: &[condition],
            results: &[ty],
            attributes: &[],
            arguments: &[],
            empty_regions: 1,
        };
        let (op, ()) = self.nested(op, |e, _| {
            e.guard();
            let v = then(e);
            e.b().op("scf.yield", &[v], &[], &[], vec![]);
        });
        let region = op.region(1).expect("the else region");
        let block = region.append_block(Block::new(&[]));
        // SAFETY: the block belongs to the op, which lives as long as the module.
        let block = unsafe { BlockRef::<'c, 'c>::from_raw(block.to_raw()) };
        let depth = self.scopes.len() - 1;
        let before = self.scopes[depth].b.before.replace(op);
        self.inside(block, |e| {
            e.guard();
            let v = otherwise(e);
            e.b().op("scf.yield", &[v], &[], &[], vec![]);
        });
        self.scopes[depth].b.before = before;
        value(op.result(0).expect("one result"))
    }
}

/// An op with a region.
pub struct NestedOp<'r, 'c> {
    /// Its name.
    pub name: &'r str,
    /// Its operands.
    pub operands: &'r [V<'c>],
    /// Types of its results.
    pub results: &'r [Type<'c>],
    /// Its attributes.
    pub attributes: &'r [(&'r str, Attribute<'c>)],
    /// Types of its block's arguments.
    pub arguments: &'r [Type<'c>],
    /// Further regions, left without a block.
    pub empty_regions: usize,
}

/// A one-dimensional vector type.
pub fn vector_of(element: Type<'_>, lanes: i64) -> Type<'_> {
    // SAFETY: a scalar element type and a positive length.
    unsafe { Type::from_raw(mlir_sys::mlirVectorTypeGet(1, &lanes, element.to_raw())) }
}
