//! `fuse`: decides which ops of the entry function become one kernel, as an attribute `graph.group = N`.
//!
//! The simple rule: walking backwards, an op joins the group of its users where it can be computed there without being
//! computed again: pointwise ops and views into their consumer, reductions into a group over the same rows (of columns into
//! what has the shape of their result). An op with users outside of the group joins as a further result where that makes no
//! cycle, but for what is cheaper to compute again (`recompute.rs`). What a library computes, and views that a library reads
//! through strides, stay out (no attribute).

use crate::driver::pass::{Failure, Level, Pass, PassCx, PassOption};
use crate::graph::fusion_class::{Class, classify_all, repeat_free_ops};
use crate::graph::product_layout::{contiguous, product_layout};
use crate::graph::recompute::Decided;
use crate::graph::units::{Unit, Units};
use crate::graph::{entry, users};
use crate::ir;
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationMutLike, OperationRef, OperationRefMut};
use melior::ir::r#type::IntegerType;
use melior::ir::{Module, ValueLike};
use std::collections::{BTreeMap, BTreeSet};
use strata_dialects::build::definition;
use strata_dialects::{Attr, OpView};
use strata_runtime::device::Libraries;
use strata_runtime::sym::Expr;

/// The attribute that names an op's group.
pub const GROUP: &str = "graph.group";

/// Larger groups than this take longer to compile than they can save.
const LIMIT: usize = 192;

/// Rounds of repeating what is cheaper to compute again than to read.
const ROUNDS: usize = 16;

/// The pass.
pub static PASS: Pass = Pass {
    name: "fuse",
    summary: "assign the ops of the entry function to kernels (attribute graph.group)",
    from: Level::Graph,
    to: Level::Graph,
    exact: true,
    options: &[
        PassOption { name: "enable", default: "true", help: "false: every op is a kernel of its own" },
        PassOption {
            name: "libraries",
            default: "all",
            help: "all, products, convolutions, none: what is left to libraries; the rest becomes own kernels",
        },
    ],
    run,
};

struct Group {
    unit: Unit,
    size: usize,
    /// The iteration space of its reductions: shape and reduced dimensions.
    domain: Option<(Vec<Expr>, Vec<usize>)>,
    /// Shape of its first result.
    shape: Vec<Expr>,
    /// Whether it has the results of one op only: a scatter, a scan or a sort.
    single: bool,
}

struct Fusion<'c, 'm> {
    ops: Vec<OperationRef<'c, 'm>>,
    views: Vec<Option<OpView>>,
    classes: Vec<Class>,
    /// Uses of each op's results by place of the user; the terminator counts.
    uses: Vec<Vec<usize>>,
    /// The place of each op, by its address.
    places: BTreeMap<usize, usize>,
    group_of: Vec<Option<usize>>,
    groups: Vec<Group>,
    /// The unit of each op from the last one placed on.
    unit_of: Vec<Option<Unit>>,
    units: Units,
}

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    let Some(function) = entry(module) else { return Ok(()) };
    let Some(body) = ir::body(&function) else { return Ok(()) };
    let enable = cx.option("enable") != "false";
    let mut rounds = 0;
    let fusion = loop {
        repeat_free_ops(body)?;
        let mut fusion = Fusion::new(ir::ops(body), cx.parsed("libraries")?)?;
        for i in (0..fusion.ops.len()).rev() {
            fusion.place(i, enable);
        }
        // What is computed again in two kernels may leave more to compute again before it.
        rounds += 1;
        let repeated =
            if enable && rounds <= ROUNDS { fusion.decided().repeat(|| cx.may_rewrite()) } else { 0 };
        if repeated == 0 {
            break fusion;
        }
        cx.count("repeated-ops", repeated);
    };
    let i64_type = IntegerType::new(cx.context, 64).into();
    // Number the groups in program order.
    let mut numbers = BTreeMap::new();
    for (op, group) in fusion.ops.iter().zip(&fusion.group_of) {
        let Some(g) = group else { continue };
        let n = numbers.len() as i64;
        let n = *numbers.entry(*g).or_insert(n);
        // SAFETY: no other handle is used to change the op meanwhile.
        let mut op = unsafe { OperationRefMut::from_raw(op.to_raw()) };
        op.set_attribute(GROUP, IntegerAttribute::new(i64_type, n).into());
    }
    cx.count("groups", numbers.len() as u64);
    cx.count("grouped-ops", fusion.group_of.iter().flatten().count() as u64);
    Ok(())
}

impl<'c: 'm, 'm> Fusion<'c, 'm> {
    fn new(ops: Vec<OperationRef<'c, 'm>>, libraries: Libraries) -> Result<Self, Failure> {
        let places: BTreeMap<usize, usize> =
            ops.iter().enumerate().map(|(i, op)| (op.to_raw().ptr as usize, i)).collect();
        let views: Vec<Option<OpView>> = ops
            .iter()
            .map(|op| {
                if !ir::name(op).starts_with("graph.") {
                    return Ok(None);
                }
                OpView::new(op).map(Some).map_err(|m| Failure::new(op.location(), m))
            })
            .collect::<Result<_, _>>()?;
        let classes = classify_all(&ops, &views, libraries);
        let at = |user| crate::graph::place_of(&places, user);
        let uses = ops
            .iter()
            .map(|op| {
                let mut list: Vec<usize> =
                    op.results().flat_map(|r| users(r.into())).filter_map(at).collect();
                list.sort_unstable();
                list.dedup();
                list
            })
            .collect();
        let n = ops.len();
        Ok(Self {
            ops,
            views,
            classes,
            uses,
            places,
            group_of: vec![None; n],
            groups: vec![],
            unit_of: vec![None; n],
            units: Units::default(),
        })
    }

    fn decided(&self) -> Decided<'_, 'c, 'm> {
        let Self { ops, views, classes, uses, places, group_of, .. } = self;
        Decided { ops, views, classes, uses, places, group_of }
    }

    /// Decides the group of op `i`; all its users are decided.
    fn place(&mut self, i: usize, enable: bool) {
        let group = self.choose(i, enable);
        let unit = group.map_or_else(|| self.units.add(), |g| self.groups[g].unit);
        self.unit_of[i] = Some(unit);
        for &u in &self.uses[i] {
            self.units.connect(unit, self.unit_of[u].expect("users are placed first"));
        }
        let Some(g) = group else { return };
        self.group_of[i] = Some(g);
        self.groups[g].size += 1;
        if let Class::Reduce { shape, dims, .. } = &self.classes[i] {
            self.groups[g].domain = Some((shape.clone(), dims.clone()));
        }
    }

    /// The group that op `i` belongs to, which may be a new one; `None` where it stays in the entry function.
    fn choose(&mut self, i: usize, enable: bool) -> Option<usize> {
        let view = self.views[i].as_ref()?;
        if self.classes[i] == Class::Plan || self.stays_a_view(i, view) {
            return None;
        }
        let shape = &view.results[0].shape;
        if enable {
            let targets: BTreeSet<Option<usize>> = self.uses[i].iter().map(|&u| self.group_of[u]).collect();
            let inside: Vec<usize> = targets.iter().flatten().copied().collect();
            let choice = match (inside.as_slice(), targets.contains(&None)) {
                ([g], false) => self.may_join(i, *g).then_some(*g),
                // Further users elsewhere: the value becomes a result of the group too.
                (list, _) => list.iter().copied().find(|&g| {
                    !self.groups[g].single
                        && self.groups[g].shape == *shape
                        && self.may_join(i, g)
                        && !self.makes_cycle(i, g)
                }),
            };
            if choice.is_some() {
                return choice;
            }
        }
        let single = matches!(view.spec.mnemonic(), "scatter" | "scan" | "sort");
        let unit = self.units.add();
        self.groups.push(Group { unit, size: 0, domain: None, shape: shape.clone(), single });
        Some(self.groups.len() - 1)
    }

    /// Whether op `i` may be computed inside group `g`, which holds some of its users.
    fn may_join(&self, i: usize, g: usize) -> bool {
        let group = &self.groups[g];
        if group.size >= LIMIT {
            return false;
        }
        let inside = || self.uses[i].iter().filter(|&&u| self.group_of[u] == Some(g));
        let cheap = self.classes[i] == Class::Free || matches!(self.classes[i], Class::Reshape);
        if !cheap && inside().any(|&u| self.classes[u] == Class::Rereads) {
            return false;
        }
        if inside().any(|&u| self.classes[u] == Class::Scatter && self.is_operand(u, 0, i)) {
            return false;
        }
        match &self.classes[i] {
            Class::Reduce { .. } | Class::Scatter if group.single => false,
            Class::Scatter | Class::Sort => false,
            Class::Free | Class::Inline | Class::Reshape => true,
            Class::Rereads | Class::Plan => false,
            Class::Reduce { joins: false, .. } => false,
            Class::Reduce { shape, dims, .. } => {
                let kept: Vec<usize> = (0..shape.len()).filter(|d| !dims.contains(d)).collect();
                let out: Vec<Expr> = kept.iter().map(|&d| shape[d].clone()).collect();
                let fits = match &group.domain {
                    Some((s, d)) => s == shape && d == dims,
                    None => group.shape == *shape || group.shape == out,
                };
                // Its value must come back to the rows it was computed from. That of a column cannot: no thread holds a column, and each
                // element would go through it again.
                let rows = shape.is_empty() || dims.contains(&(shape.len() - 1));
                fits && inside().all(|&u| match self.views[u].as_ref() {
                    Some(v) if v.spec.mnemonic() == "broadcast" => {
                        rows && v.results[0].shape == *shape && v.indices("dims") == kept
                    }
                    Some(v) => v.spec.is_pointwise(),
                    None => false,
                })
            }
        }
    }

    /// Whether the result of op `i` is operand `k` of op `u`.
    fn is_operand(&self, u: usize, k: usize, i: usize) -> bool {
        let result = self.ops[i].result(0).expect("a result");
        self.ops[u].operand(k).is_ok_and(|v| {
            // SAFETY: comparison of live values.
            unsafe { mlir_sys::mlirValueEqual(v.to_raw(), result.to_raw()) }
        })
    }

    /// Whether group `g` depends on a user of op `i` outside of it: then it cannot also produce `i`.
    fn makes_cycle(&self, i: usize, g: usize) -> bool {
        let to = self.groups[g].unit;
        let users = self.uses[i].iter().filter_map(|&u| self.unit_of[u]);
        self.units.leads(users.filter(|u| *u != to), to)
    }

    /// Whether a reshape or transposition is better left in the entry function, as another view of a buffer.
    fn stays_a_view(&self, i: usize, view: &OpView) -> bool {
        let outside = |u: &usize| self.group_of[*u].is_none();
        match view.spec.mnemonic() {
            "reshape" => {
                let source = self.ops[i].operand(0).ok().and_then(definition);
                let from_buffer = source.is_none_or(|op| {
                    let place = self.places.get(&(op.to_raw().ptr as usize));
                    place.is_none_or(|&k| self.classes[k] == Class::Plan)
                });
                from_buffer || self.uses[i].iter().all(outside)
            }
            "transpose" => {
                !self.uses[i].is_empty()
                    && self.uses[i].iter().all(|&u| outside(&u) && self.reads_through(u, i, view))
            }
            _ => false,
        }
    }

    /// Whether user `u`, a library product, can read the transposition `i` of a contiguous tensor through strides.
    fn reads_through(&self, u: usize, i: usize, transpose: &OpView) -> bool {
        let Some(product) =
            self.views[u].as_ref().filter(|v| matches!(v.spec.mnemonic(), "dot_general" | "linear"))
        else {
            return false;
        };
        let from = contiguous(&transpose.operands[0].shape);
        let strides: Vec<Expr> = transpose.indices("permutation").iter().map(|&d| from[d].clone()).collect();
        let side = |k: usize| {
            if self.is_operand(u, k, i) { strides.clone() } else { contiguous(&product.operands[k].shape) }
        };
        debug_assert!(product.attr("lhs_batch").is_some_and(|a| matches!(a, Attr::Ints(_))));
        product_layout(product, &side(0), &side(1)).is_some()
    }
}
