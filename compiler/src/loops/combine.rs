//! Combining elements: neutral elements, partial results, lanes.

use super::emitter::{Emitter, Val};
use super::group::{Group, Kind, V};
use crate::ir;
use melior::ir::attribute::{FloatAttribute, IntegerAttribute};
use melior::ir::operation::OperationLike;
use melior::ir::{Attribute, Type, TypeLike, ValueLike};
use strata_dialects::build::element_type;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;

/// A way to combine elements of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combine<'c> {
    /// The op: `arith.addf`, ….
    pub op: &'c str,
    /// The element type.
    pub dtype: DType,
    /// The op's own fast-math flags.
    fastmath: Option<Attribute<'c>>,
}

impl<'c> Combine<'c> {
    /// A way to combine, by the op's name.
    pub fn plain(op: &'static str, dtype: DType) -> Self {
        Self { op, dtype, fastmath: None }
    }

    /// How a reduction combines.
    pub fn of(e: &Emitter<'c, '_>, generic: usize) -> Self {
        let (op, _) = e.group.generics[generic].combine.expect("a reduction that combines");
        let dtype = Self::dtype_of(e.group, generic);
        Self { op: ir::name(&op), dtype, fastmath: op.attribute("fastmath").ok() }
    }

    /// The element type of a reduction.
    pub fn dtype_of(group: &Group<'_>, generic: usize) -> DType {
        let (_, v) = group.generics[generic].combine.expect("a reduction that combines");
        strata_dialects::types::dtype_of(v.r#type()).expect("a scalar of a known type")
    }

    /// The name in `loop.all_reduce` and `vector.reduction`.
    pub fn kind(&self) -> &'static str {
        match self.op {
            "arith.addf" | "arith.addi" => "add",
            "arith.mulf" | "arith.muli" => "mul",
            "arith.maximumf" | "arith.maxsi" => "max",
            "arith.minimumf" | "arith.minsi" => "min",
            "arith.andi" => "and",
            _ => "or",
        }
    }

    /// The number of [`Self::kind`] in `loop.all_reduce`.
    pub fn number(&self) -> i64 {
        ["add", "mul", "max", "min", "and", "or"].iter().position(|k| *k == self.kind()).expect("a kind")
            as i64
    }

    /// The kind in `vector.reduction`.
    pub fn vector_kind(&self) -> &'static str {
        match self.op {
            "arith.addf" | "arith.addi" => "add",
            "arith.mulf" | "arith.muli" => "mul",
            "arith.maximumf" => "maximumf",
            "arith.minimumf" => "minimumf",
            "arith.maxsi" => "maxsi",
            "arith.minsi" => "minsi",
            "arith.andi" => "and",
            _ => "or",
        }
    }

    /// Whether each step rounds, so that the number of terms that go one after another into the same number matters.
    pub fn adds_up(&self) -> bool {
        self.op == "arith.addf"
    }

    /// The neutral element. Sums of floats start at +0: that a sum of negative zeros is then +0 is what the op table says.
    pub fn neutral(&self, context: &'c melior::Context) -> Attribute<'c> {
        let ty = dtype_to_mlir(context, self.dtype);
        if self.dtype.is_float() {
            let x = match self.kind() {
                "add" => 0.0,
                "mul" => 1.0,
                "max" => f64::NEG_INFINITY,
                _ => f64::INFINITY,
            };
            return FloatAttribute::new(context, ty, x).into();
        }
        let bits = 8 * self.dtype.size() as u32;
        let x = match self.kind() {
            "add" | "or" => 0,
            "mul" => 1,
            "max" => i64::MIN >> (64 - bits),
            "min" => i64::MAX >> (64 - bits),
            _ if self.dtype == DType::I1 => 1,
            _ => -1,
        };
        IntegerAttribute::new(ty, x).into()
    }

    /// Combines two scalars or two vectors.
    pub fn apply(&self, e: &Emitter<'c, '_>, a: V<'c>, b: V<'c>) -> V<'c> {
        let ty = a.r#type();
        let flags: Vec<_> = self.fastmath.iter().map(|a| ("fastmath", *a)).collect();
        e.b().value(self.op, &[a, b], ty, &flags)
    }

    /// The lanes of a vector combined: pairwise, halves first.
    pub fn lanes(&self, e: &Emitter<'c, '_>, v: V<'c>) -> V<'c> {
        if !v.r#type().is_vector() {
            return v;
        }
        if e.cpu {
            let kind = e.attribute(&format!("#vector.kind<{}>", self.vector_kind()));
            let ty: Type<'c> = element_type(v.r#type());
            return e.b().value("vector.reduction", &[v], ty, &[("kind", kind)]);
        }
        self.pairwise(e, (0..e.lanes).map(|l| e.extract(v, l)).collect())
    }

    /// One value or more combined in pairs, in an order that depends on their number alone.
    pub fn pairwise(&self, e: &Emitter<'c, '_>, mut all: Vec<V<'c>>) -> V<'c> {
        while all.len() > 1 {
            let half = all.len().div_ceil(2);
            for i in 0..all.len() - half {
                all[i] = self.apply(e, all[i], all[i + half]);
            }
            all.truncate(half);
        }
        all[0]
    }
}

impl<'c> Emitter<'c, '_> {
    /// The initial value of a reduction at a place of its result, unless it is the neutral element.
    pub fn initial(&mut self, generic: usize, index: &[strata_runtime::sym::Expr]) -> Option<Val<'c>> {
        let g = &self.group.generics[generic];
        let node = g.operands[g.inputs];
        let combine = Combine::of(self, generic);
        if let Kind::Splat(v) = self.group.nodes[node].kind {
            let constant = super::group::definition(v).and_then(|op| op.attribute("value").ok());
            if constant == Some(combine.neutral(self.context())) {
                return None;
            }
        }
        Some(self.value_at(node, index))
    }
}
