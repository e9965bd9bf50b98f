//! Sorting along a dimension, stably: equal elements keep their order, NaN is the largest. What both devices share.
//!
//! An element that fits 32 bits becomes a number that has its order, with its position below it: one integer of 64 bits a place, no two of
//! them equal, so that any way to sort them is stable. The element itself is read again in the end. Wider elements are moved together
//! with their positions.

use super::emitter::Emitter;
use super::group::{Group, Kind, NodeId, V};
use melior::ir::attribute::IntegerAttribute;
use melior::ir::{Type, ValueLike};
use strata_dialects::scalar::{cmpf, cmpi};
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// A sort as plain data.
#[derive(Clone, Copy, Debug)]
pub struct Sort {
    /// What is sorted.
    pub source: NodeId,
    /// The dimension.
    pub dim: usize,
    /// Whether the largest comes first.
    pub descending: bool,
    /// Whether integers have no sign.
    pub unsigned: bool,
}

/// The sort that computes a node, if one does.
pub fn sort_of(group: &Group<'_>, node: NodeId) -> Option<Sort> {
    match group.nodes[node].kind {
        Kind::Sort { source, dim, descending, unsigned, .. } => {
            Some(Sort { source, dim, descending, unsigned })
        }
        _ => None,
    }
}

/// The sizes of everything but the dimension that is sorted.
pub fn rows(group: &Group<'_>, s: &Sort) -> Vec<Expr> {
    let mut shape = group.nodes[s.source].shape.clone();
    shape.remove(s.dim);
    shape
}

/// The types of what is moved for an element: one number, or the element and its position.
pub fn moved(dtype: DType) -> &'static [DType] {
    match dtype {
        DType::F64 => &[DType::F64, DType::I64],
        DType::I64 => &[DType::I64, DType::I64],
        // Rows of 2^32 elements would take 32 GB for these numbers alone.
        _ => &[DType::I64],
    }
}

/// Sizes and positions are below this where nothing else is known.
pub(super) const MOST: i64 = 1 << 48;

/// What is moved for an element.
pub(super) type Item<'c> = Vec<V<'c>>;

/// A row of items: a memref for each part.
#[derive(Clone)]
pub(super) struct Row<'c> {
    pub parts: Vec<V<'c>>,
    /// What is before and after the position in the row; nothing for a row on its own.
    pub around: (Vec<Expr>, Vec<Expr>),
}

impl<'c> Row<'c> {
    fn at(&self, i: &Expr) -> Vec<Expr> {
        [&self.around.0[..], std::slice::from_ref(i), &self.around.1].concat()
    }

    /// The item at a position.
    pub fn load(&self, e: &mut Emitter<'c, '_>, i: &Expr) -> Item<'c> {
        let at = self.at(i);
        self.parts.iter().map(|&m| e.load(m, &at)).collect()
    }

    /// Only what it is compared by.
    pub fn load_key(&self, e: &mut Emitter<'c, '_>, i: &Expr) -> V<'c> {
        e.load(self.parts[0], &self.at(i))
    }

    /// Writes the item at a position.
    pub fn store(&self, e: &mut Emitter<'c, '_>, i: &Expr, item: &[V<'c>]) {
        let at = self.at(i);
        for (&m, &v) in self.parts.iter().zip(item) {
            e.store(v, m, &at);
        }
    }
}

impl Sort {
    /// The element type.
    pub(super) fn dtype(&self, e: &Emitter<'_, '_>) -> DType {
        e.group.nodes[self.source].dtype
    }

    /// The length of a row.
    pub(super) fn length(&self, e: &Emitter<'_, '_>) -> Expr {
        e.group.nodes[self.source].shape[self.dim].clone()
    }

    /// Whether one number stands for an element and its position.
    pub(super) fn packed(&self, e: &Emitter<'_, '_>) -> bool {
        moved(self.dtype(e)).len() == 1
    }

    /// A row of buffers of the results' shape.
    pub(super) fn row<'c>(&self, parts: &[V<'c>], row: &[Expr]) -> Row<'c> {
        Row { parts: parts.to_vec(), around: (row[..self.dim].to_vec(), row[self.dim..].to_vec()) }
    }

    /// The results' own memory as a row of items: the positions' alone where a number stands for both.
    pub(super) fn in_place<'c>(&self, e: &Emitter<'c, '_>, outs: &[V<'c>], row: &[Expr]) -> Row<'c> {
        self.row(if self.packed(e) { &outs[1..] } else { outs }, row)
    }

    fn element<'c>(&self, e: &mut Emitter<'c, '_>, row: &[Expr], i: &Expr) -> V<'c> {
        e.value_at(self.source, &[&row[..self.dim], std::slice::from_ref(i), &row[self.dim..]].concat()).v
    }

    /// Stores the item of an element of the operand.
    pub(super) fn fill<'c>(&self, e: &mut Emitter<'c, '_>, row: &[Expr], i: &Expr, to: &Row<'c>) {
        let x = self.element(e, row, i);
        let i_at = e.index(i);
        let item = if self.packed(e) {
            let i64 = dtype_to_mlir(e.context(), DType::I64);
            let key = self.key(e, x);
            let key = e.b().value("arith.extsi", &[key], i64, &[]);
            let bits = integer(e, DType::I64, 32);
            let key = op(e, "arith.shli", key, bits);
            let place = e.b().value("arith.index_cast", &[i_at], i64, &[]);
            vec![op(e, "arith.ori", key, place)]
        } else {
            let ty = strata_dialects::build::element_type(to.parts[1].r#type());
            vec![x, e.b().value("arith.index_cast", &[i_at], ty, &[])]
        };
        to.store(e, i, &item);
    }

    /// Stores the element and the position that an item stands for.
    pub(super) fn unpack<'c>(
        &self,
        e: &mut Emitter<'c, '_>,
        row: &[Expr],
        i: &Expr,
        item: &[V<'c>],
        to: &Row<'c>,
    ) {
        let i64 = dtype_to_mlir(e.context(), DType::I64);
        if let [element, place] = *item {
            let place =
                if place.r#type() == i64 { place } else { e.b().value("arith.extsi", &[place], i64, &[]) };
            return to.store(e, i, &[element, place]);
        }
        let low = integer(e, DType::I64, 0xffff_ffff);
        let place = op(e, "arith.andi", item[0], low);
        let from = e.b().value("arith.index_cast", &[place], Type::index(e.context()), &[]);
        let from = named(e, from, &MOST.into());
        let x = self.element(e, row, &from);
        to.store(e, i, &[x, place]);
    }

    /// A number of 32 bits that has an element's order; what is equal has one number.
    fn key<'c>(&self, e: &mut Emitter<'c, '_>, x: V<'c>) -> V<'c> {
        let (dtype, i32) = (self.dtype(e), dtype_to_mlir(e.context(), DType::I32));
        let key = match dtype {
            DType::I32 => x,
            DType::I1 => e.b().value("arith.extui", &[x], i32, &[]),
            _ if self.unsigned => e.b().value("arith.extui", &[x], i32, &[]),
            _ if !dtype.is_float() => e.b().value("arith.extsi", &[x], i32, &[]),
            _ => {
                // Adding 0 makes 0 of -0. Below 0 the order of the bits is the other way round.
                let zero = e.zero(DType::F32);
                let x = op(e, "arith.addf", e.wide(x, dtype), zero);
                let bits = e.b().value("arith.bitcast", &[x], i32, &[]);
                let (last, all) = (integer(e, DType::I32, 31), integer(e, DType::I32, i64::from(i32::MAX)));
                let sign = op(e, "arith.shrsi", bits, last);
                let key = op(e, "arith.xori", bits, op(e, "arith.andi", sign, all));
                let no_number = compare(e, "arith.cmpf", cmpf::UNO, x, x);
                e.b().value("arith.select", &[no_number, all, key], i32, &[])
            }
        };
        if self.descending { op(e, "arith.xori", key, integer(e, DType::I32, -1)) } else { key }
    }

    /// Whether what is compared of one item comes before that of another, and is not equal to it.
    pub(super) fn before<'c>(&self, e: &Emitter<'c, '_>, a: V<'c>, b: V<'c>) -> V<'c> {
        let dtype = self.dtype(e);
        if self.packed(e) {
            return compare(e, "arith.cmpi", cmpi::SLT, a, b);
        }
        let (a, b) = if self.descending { (b, a) } else { (a, b) };
        if !dtype.is_float() {
            return compare(e, "arith.cmpi", cmpi::SLT, a, b);
        }
        let less = compare(e, "arith.cmpf", cmpf::ULT, a, b);
        let number = compare(e, "arith.cmpf", cmpf::ORD, a, a);
        e.and(Some(less), number)
    }
}

/// `arith.cmpi` or `arith.cmpf`.
pub(super) fn compare<'c>(e: &Emitter<'c, '_>, op: &str, predicate: i64, a: V<'c>, b: V<'c>) -> V<'c> {
    let p = e.attribute(&format!("{predicate} : i64"));
    e.b().value(op, &[a, b], dtype_to_mlir(e.context(), DType::I1), &[("predicate", p)])
}

/// Arithmetic on numbers that are not expressions of sizes.
pub(super) fn op<'c>(e: &Emitter<'c, '_>, name: &str, a: V<'c>, b: V<'c>) -> V<'c> {
    e.b().value(name, &[a, b], a.r#type(), &[])
}

/// A constant with all its bits.
fn integer<'c>(e: &Emitter<'c, '_>, dtype: DType, value: i64) -> V<'c> {
    let ty = dtype_to_mlir(e.context(), dtype);
    e.constant_of(ty, IntegerAttribute::new(ty, value).into())
}

/// One of two items.
pub(super) fn select<'c>(e: &Emitter<'c, '_>, condition: V<'c>, a: V<'c>, b: V<'c>) -> V<'c> {
    e.b().value("arith.select", &[condition, a, b], a.r#type(), &[])
}

/// A variable in `0..bound` that stands for a value.
pub(super) fn named<'c>(e: &mut Emitter<'c, '_>, v: V<'c>, bound: &Expr) -> Expr {
    let s = e.facts.variable(bound);
    e.bind(s, v);
    s.into()
}

/// How often 1 is doubled until it is at least `n`.
pub(super) fn doublings<'c>(e: &mut Emitter<'c, '_>, n: &Expr) -> Expr {
    let log = |n: i64| i64::from(64 - (n.max(1) as u64 - 1).leading_zeros());
    if let Some(n) = n.as_const() {
        return log(n).into();
    }
    let most = e.facts.interval(n).1.map_or(48, log);
    let zero = e.index(&0.into());
    let k = e.facts.variable(&most.into());
    let count = e.for_loop(&most.into(), k, &[zero], |e, count| {
        let (one, power, n) = (e.index(&1.into()), e.index(&k.into()), e.index(n));
        let power = op(e, "arith.shli", one, power);
        let more = compare(e, "arith.cmpi", cmpi::SLT, power, n);
        let next = op(e, "arith.addi", count[0], one);
        vec![select(e, more, next, count[0])]
    });
    named(e, count[0], &(most + 1).into())
}
