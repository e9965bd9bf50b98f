//! What a kernel of row reductions computes in which order, and what its threads keep.

use super::emitter::{Emitter, Place};
use super::group::{Generic, Group, Kind, NodeId};
use super::index::mentions;
use crate::ir;
use std::collections::{BTreeMap, BTreeSet};
use strata_runtime::sym::{Expr, SymbolId};

/// The rows of a kernel: what is reduced, and by which stages.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Sizes of the dimensions that stay.
    pub row_sizes: Vec<Expr>,
    /// Sizes of the dimensions that are reduced.
    pub column_sizes: Vec<Expr>,
    /// Reductions (numbers of generics) by stage.
    pub stages: Vec<Vec<usize>>,
    /// The nodes of the reductions' results.
    pub results: BTreeMap<usize, NodeId>,
    /// Number of rows.
    pub rows: Expr,
    /// Length of a row.
    pub columns: Expr,
    /// Whether rows lie along the innermost loop: else they are columns.
    pub along: bool,
}

/// How an output lies over the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One element a row.
    Row,
    /// One element a row and column.
    Full,
}

fn split(g: &Generic<'_>) -> (Vec<Expr>, Vec<Expr>) {
    let pick =
        |r: bool| (0..g.sizes.len()).filter(|&d| g.reduction[d] == r).map(|d| g.sizes[d].clone()).collect();
    (pick(false), pick(true))
}

/// Nodes that the outputs need.
pub fn needed(group: &Group<'_>) -> BTreeSet<NodeId> {
    let mut seen = BTreeSet::new();
    let mut todo = group.outputs.clone();
    while let Some(n) = todo.pop() {
        if !seen.insert(n) {
            continue;
        }
        match &group.nodes[n].kind {
            Kind::Slice(s, ..) | Kind::Pad(s, ..) | Kind::Reshape(s) => todo.push(*s),
            Kind::Concat(parts, _) => todo.extend(parts),
            // The operand of a scatter is in the result's buffer already.
            Kind::Scatter { indices, updates, .. } => todo.extend([*indices, *updates]),
            Kind::Scan { source, .. } | Kind::Sort { source, .. } => todo.push(*source),
            Kind::Generic(g, _) => {
                todo.extend(&group.generics[*g].operands);
                todo.extend(super::group::captured(group, *g));
            }
            _ => {}
        }
    }
    seen
}

/// The rows of a kernel; `None` where its reductions do not share one set of rows, or cannot be combined in parallel.
pub fn analyze(group: &Group<'_>) -> Option<Rows> {
    if group.outputs.iter().any(|&o| group.nodes[o].kind.stands_alone()) {
        return None;
    }
    let mut results = BTreeMap::new();
    for &n in &needed(group) {
        if let Kind::Generic(g, _) = group.nodes[n].kind
            && group.generics[g].reduces()
        {
            group.generics[g].combine?;
            results.insert(g, n);
        }
    }
    let (&first, _) = results.iter().next()?;
    let (row_sizes, column_sizes) = split(&group.generics[first]);
    let innermost = |g: usize| group.generics[g].reduction.last().copied();
    let along = innermost(first)?;
    for &g in results.keys() {
        if split(&group.generics[g]) != (row_sizes.clone(), column_sizes.clone())
            || innermost(g) != Some(along)
        {
            return None;
        }
    }
    let rows: Expr = row_sizes.iter().cloned().product();
    let columns: Expr = column_sizes.iter().cloned().product();
    let mut rows = Rows { row_sizes, column_sizes, stages: Vec::new(), results, rows, columns, along };
    let mut levels: BTreeMap<usize, usize> = BTreeMap::new();
    for &g in rows.results.keys() {
        let level = group.generics[g].operands[..group.generics[g].inputs]
            .iter()
            .flat_map(|&n| reductions_below(group, n))
            .map(|r| levels.get(&r).map_or(0, |l| l + 1))
            .max()
            .unwrap_or(0);
        levels.insert(g, level);
    }
    rows.stages = vec![Vec::new(); levels.values().max().map_or(0, |l| l + 1)];
    for (g, l) in levels {
        rows.stages[l].push(g);
    }
    for &o in &group.outputs {
        rows.extent(group, o)?;
    }
    Some(rows)
}

/// The reductions that a node's value comes from, through everything but reductions.
pub fn reductions_below(group: &Group<'_>, node: NodeId) -> BTreeSet<usize> {
    let (mut out, mut seen, mut todo) = (BTreeSet::new(), BTreeSet::new(), vec![node]);
    while let Some(n) = todo.pop() {
        if !seen.insert(n) {
            continue;
        }
        match &group.nodes[n].kind {
            Kind::Slice(s, ..) | Kind::Pad(s, ..) | Kind::Reshape(s) => todo.push(*s),
            Kind::Concat(parts, _) => todo.extend(parts),
            Kind::Generic(g, _) if group.generics[*g].reduces() => {
                out.insert(*g);
            }
            Kind::Generic(g, _) => {
                todo.extend(&group.generics[*g].operands);
                todo.extend(super::group::captured(group, *g));
            }
            _ => {}
        }
    }
    out
}

impl Rows {
    /// How an output lies over the rows; `None` where it does not.
    pub fn extent(&self, group: &Group<'_>, output: NodeId) -> Option<Extent> {
        let size: Expr = group.nodes[output].shape.iter().cloned().product();
        if size == self.rows.clone() * self.columns.clone() {
            Some(Extent::Full)
        } else if size == self.rows {
            Some(Extent::Row)
        } else {
            None
        }
    }

    /// The loops of a reduction at a row and column.
    pub fn loops(&self, e: &Emitter<'_, '_>, g: usize, row: &Expr, column: &Expr) -> Vec<Expr> {
        let mut rows = e.facts.delinearize(row, &self.row_sizes).into_iter();
        let mut columns = e.facts.delinearize(column, &self.column_sizes).into_iter();
        let next = |reduced: &bool| if *reduced { columns.next() } else { rows.next() };
        e.group.generics[g].reduction.iter().map(next).map(|i| i.expect("one position a loop")).collect()
    }

    /// The place of a reduction's result for a row.
    pub fn result(&self, e: &Emitter<'_, '_>, g: usize, row: &Expr) -> Place {
        let loops = self.loops(e, g, row, &Expr::default());
        let (_, index) = e.operand_place(g, e.group.generics[g].inputs, &loops);
        e.place(self.results[&g], &index)
    }

    /// The place of an output at a row and column.
    pub fn output(&self, e: &Emitter<'_, '_>, output: NodeId, row: &Expr, column: &Expr) -> Vec<Expr> {
        let shape = &e.group.nodes[output].shape;
        if self.extent(e.group, output) == Some(Extent::Row) {
            return e.facts.delinearize(row, shape);
        }
        let first = self.stages[0][0];
        if *shape == e.group.generics[first].sizes {
            return self.loops(e, first, row, column);
        }
        e.facts.delinearize(&(row.clone() * self.columns.clone() + column.clone()), shape)
    }
}

/// A tensor that threads keep from one stage to later ones.
#[derive(Clone, Debug)]
pub struct Held {
    /// What, with the planning variable as its column.
    pub place: Place,
    /// The stage that computes it.
    pub first: usize,
    /// Later stages that use it.
    pub uses: BTreeSet<usize>,
}

/// What each stage reads, and what is kept between stages.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Kept values.
    pub held: Vec<Held>,
    /// Places that each stage reads from memory, which vary along the row.
    pub reads: Vec<Vec<Place>>,
}

/// What threads keep between stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: it is read and computed again.
    Nothing,
    /// What is read more than once.
    Reads,
    /// That, and results of expensive ops.
    All,
}

/// Plans the stages, with `column` as the variable for the position in the row. The last stage is that of the full outputs.
pub fn plan(e: &Emitter<'_, '_>, rows: &Rows, row: &Expr, column: SymbolId, keep: Keep) -> Plan {
    let mut roots: Vec<Vec<Place>> = Vec::new();
    let c = Expr::from(column);
    for stage in &rows.stages {
        let mut places = Vec::new();
        for &g in stage {
            let loops = rows.loops(e, g, row, &c);
            for i in 0..e.group.generics[g].inputs {
                let (n, index) = e.operand_place(g, i, &loops);
                places.push(e.place(n, &index));
            }
        }
        roots.push(places);
    }
    let outputs = e.group.outputs.iter().filter(|&&o| rows.extent(e.group, o) == Some(Extent::Full));
    roots.push(outputs.map(|&o| e.place(o, &rows.output(e, o, row, &c))).collect());

    let touched = |stops: &BTreeMap<Place, usize>| -> Vec<Vec<Place>> {
        roots.iter().enumerate().map(|(s, r)| reach(e, r, |p| stops.get(p).is_some_and(|&f| f < s))).collect()
    };
    let mut held: BTreeMap<Place, usize> = BTreeMap::new();
    if keep == Keep::All {
        let all = touched(&held);
        // Expensive values first: what they are made of is then not needed again.
        for (s, places) in all.iter().enumerate() {
            for p in places.iter().filter(|p| varies(p, column) && expensive(e.group, p.0)) {
                if !held.contains_key(p) && all[s + 1..].iter().any(|later| later.contains(p)) {
                    let user = |q: &Place| q != p && held.contains_key(q);
                    if !places.iter().any(user) {
                        held.insert(p.clone(), s);
                    }
                }
            }
        }
    }
    if keep != Keep::Nothing {
        let all = touched(&held);
        for (s, places) in all.iter().enumerate() {
            for p in places.iter().filter(|p| varies(p, column) && is_read(e.group, p.0)) {
                if !held.contains_key(p) && all[s + 1..].iter().any(|later| later.contains(p)) {
                    held.insert(p.clone(), s);
                }
            }
        }
    }
    let all = touched(&held);
    let mut plan = Plan::default();
    for (place, first) in &held {
        let uses = (first + 1..all.len()).filter(|&s| all[s].contains(place)).collect();
        plan.held.push(Held { place: place.clone(), first: *first, uses });
    }
    plan.reads = all
        .iter()
        .enumerate()
        .map(|(s, places)| {
            let fresh = |p: &&Place| held.get(*p).is_none_or(|&f| f >= s);
            places
                .iter()
                .filter(|p| varies(p, column) && is_read(e.group, p.0))
                .filter(fresh)
                .cloned()
                .collect()
        })
        .collect();
    plan
}

fn varies(p: &Place, column: SymbolId) -> bool {
    p.1.iter().any(|e| mentions(e, column))
}

fn is_read(group: &Group<'_>, node: NodeId) -> bool {
    matches!(group.nodes[node].kind, Kind::Input(_))
}

/// Whether computing a value again costs more than a register.
fn expensive(group: &Group<'_>, node: NodeId) -> bool {
    let Kind::Generic(g, _) = group.nodes[node].kind else { return false };
    // Vectors of i1 are packed in memory.
    if group.nodes[node].dtype == strata_runtime::DType::I1 {
        return false;
    }
    ir::ops(group.generics[g].body).iter().any(|op| {
        let name = ir::name(op);
        name == "arith.divf" || name.starts_with("math.") && !["math.absf", "math.fma"].contains(&name)
    })
}

/// Everything that is computed for some places, without what is behind a reduction or a stop. In the order of first need.
pub fn reach(e: &Emitter<'_, '_>, roots: &[Place], stop: impl Fn(&Place) -> bool) -> Vec<Place> {
    let (mut out, mut seen) = (Vec::new(), BTreeSet::new());
    let mut todo: Vec<Place> = roots.iter().rev().cloned().collect();
    while let Some(p) = todo.pop() {
        if !seen.insert(p.clone()) {
            continue;
        }
        if !stop(&p) {
            todo.extend(e.sources(&p).into_iter().rev());
        }
        out.push(p);
    }
    out
}

/// Reads beyond these are left where they are needed, so that registers last.
const FIRST_READS: usize = 16;

impl Emitter<'_, '_> {
    /// Issues the reads behind some places, so that none waits for what is computed from another.
    pub fn read_first(&mut self, roots: &[Place]) {
        let group = self.group;
        let reads: Vec<Place> = reach(self, roots, |_| false)
            .into_iter()
            .filter(|p| is_read(group, p.0))
            .take(FIRST_READS)
            .collect();
        for (node, index) in reads {
            self.value_at(node, &index);
        }
    }

    /// The places that the value of a place is computed from; none for reductions, and none that are only known at run time.
    pub fn sources(&self, place: &Place) -> Vec<Place> {
        let (node, index) = place;
        match &self.group.nodes[*node].kind {
            Kind::Slice(source, offsets, strides) => {
                let at: Vec<_> = index
                    .iter()
                    .zip(offsets.iter().zip(strides))
                    .map(|(i, (o, s))| o.clone() + i.clone() * s.clone())
                    .collect();
                vec![self.place(*source, &at)]
            }
            Kind::Reshape(source) => vec![self.place(*source, &self.reshaped(index, *node, *source))],
            Kind::Generic(g, r) if !self.group.generics[*g].reduces() => {
                let generic = &self.group.generics[*g];
                let loops = self.loops_at(*g, generic.inputs + r, index);
                (0..generic.inputs)
                    .map(|i| {
                        let (n, at) = self.operand_place(*g, i, &loops);
                        self.place(n, &at)
                    })
                    .collect()
            }
            // Reads behind a condition are not moved or kept.
            _ => Vec::new(),
        }
    }
}
