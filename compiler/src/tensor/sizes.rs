//! Sizes as values: expressions over the symbol arguments, and arithmetic that folds numbers.

use super::emitter::Emitter;
use melior::ir::attribute::{DenseI64ArrayAttribute, IntegerAttribute};
use melior::ir::{AffineMap, Attribute, Type, Value};
use strata_dialects::affine::to_affine;
use strata_dialects::types::DYNAMIC;
use strata_runtime::sym::{Atom, Expr};

/// A size or position: a number, or an `index` value.
#[derive(Clone, Copy)]
pub(super) enum Size<'c, 'a> {
    Static(i64),
    Dynamic(Value<'c, 'a>),
}

impl<'c, 'a> Emitter<'c, 'a> {
    /// The value of an expression over the symbols as an `index`. The same expression gives the same value.
    pub fn size(&mut self, e: &Expr) -> Value<'c, 'a> {
        if let Some(v) = self.sizes.get(e) {
            return *v;
        }
        let v = self.compute(e);
        self.sizes.insert(e.clone(), v);
        v
    }

    fn compute(&mut self, e: &Expr) -> Value<'c, 'a> {
        if let Some(c) = e.as_const() {
            return self.b().index(c);
        }
        if let Some(s) = e.as_sym() {
            return self.symbols[s.0 as usize];
        }
        let used = e.symbols();
        let renumbered =
            e.substitute(&|s| Expr::sym(used.iter().position(|&u| u == s).expect("it occurs") as u32));
        if let Some(affine) = to_affine(self.context, &renumbered) {
            let map = AffineMap::new(self.context, 0, used.len(), &[affine]);
            // SAFETY: a valid map of this context.
            let map = unsafe { Attribute::from_raw(mlir_sys::mlirAffineMapAttrGet(map.to_raw())) };
            let operands: Vec<_> = used.iter().map(|s| self.symbols[s.0 as usize]).collect();
            return self.b().value("affine.apply", &operands, Type::index(self.context), &[("map", map)]);
        }
        // Products, minima and maxima are not affine: one arith op after another.
        let terms: Vec<(Vec<Atom>, i64)> = e.terms().map(|(a, c)| (a.to_vec(), c)).collect();
        let mut sum: Option<Value<'c, 'a>> = None;
        for (atoms, c) in terms {
            let mut product = (c != 1 || atoms.is_empty()).then(|| self.size(&Expr::from(c)));
            for atom in atoms {
                let v = self.atom(&atom);
                product = Some(product.map_or(v, |p| self.arith("arith.muli", p, v)));
            }
            let product = product.expect("a term has a factor");
            sum = Some(sum.map_or(product, |s| self.arith("arith.addi", s, product)));
        }
        sum.expect("not a number, so it has terms")
    }

    fn atom(&mut self, atom: &Atom) -> Value<'c, 'a> {
        let (a, b, op) = match atom {
            Atom::Sym(s) => return self.symbols[s.0 as usize],
            Atom::FloorDiv(a, b) => (a, b, "arith.floordivsi"),
            // Sizes are not negative, so the remainder with the dividend's sign is the one in [0, b).
            Atom::Mod(a, b) => (a, b, "arith.remsi"),
            Atom::Min(a, b) => (a, b, "arith.minsi"),
            Atom::Max(a, b) => (a, b, "arith.maxsi"),
        };
        let (a, b) = (self.size(a), self.size(b));
        self.arith(op, a, b)
    }

    fn arith(&self, op: &str, a: Value<'c, 'a>, b: Value<'c, 'a>) -> Value<'c, 'a> {
        self.b().value(op, &[a, b], Type::index(self.context), &[])
    }

    /// The sizes of a shape that are not numbers, in order.
    pub fn dynamic_sizes(&mut self, shape: &[Expr]) -> Vec<Value<'c, 'a>> {
        shape.iter().filter(|e| e.as_const().is_none()).map(|e| self.size(e)).collect()
    }

    /// An expression as a size.
    pub fn sized(&mut self, e: &Expr) -> Size<'c, 'a> {
        match e.as_const() {
            Some(c) => Size::Static(c),
            None => Size::Dynamic(self.size(e)),
        }
    }

    /// A size as an `index` value.
    pub fn index_value(&mut self, s: Size<'c, 'a>) -> Value<'c, 'a> {
        match s {
            Size::Static(c) => self.size(&Expr::from(c)),
            Size::Dynamic(v) => v,
        }
    }

    /// `arith` on sizes: `addi`, `subi`, `minsi`, `maxsi`; numbers are computed here.
    pub fn combine(&mut self, op: &'static str, a: Size<'c, 'a>, b: Size<'c, 'a>) -> Size<'c, 'a> {
        if let (Size::Static(a), Size::Static(b)) = (a, b) {
            return Size::Static(match op {
                "addi" => a + b,
                "subi" => a - b,
                "minsi" => a.min(b),
                "maxsi" => a.max(b),
                other => unreachable!("'{other}' is not used on sizes"),
            });
        }
        let (a, b) = (self.index_value(a), self.index_value(b));
        Size::Dynamic(self.arith(&format!("arith.{op}"), a, b))
    }

    /// Sizes the way ops of `tensor` hold them: an attribute with a marker for every dynamic one, and the dynamic ones.
    pub fn split(&self, sizes: &[Size<'c, 'a>]) -> (Attribute<'c>, Vec<Value<'c, 'a>>) {
        let numbers: Vec<i64> = sizes
            .iter()
            .map(|s| match s {
                Size::Static(c) => *c,
                Size::Dynamic(_) => DYNAMIC as i64,
            })
            .collect();
        let values = sizes
            .iter()
            .filter_map(|s| match s {
                Size::Static(_) => None,
                Size::Dynamic(v) => Some(*v),
            })
            .collect();
        (DenseI64ArrayAttribute::new(self.context, &numbers).into(), values)
    }

    /// An `i64` attribute.
    pub fn i64(&self, value: i64) -> Attribute<'c> {
        IntegerAttribute::new(melior::ir::r#type::IntegerType::new(self.context, 64).into(), value).into()
    }
}
