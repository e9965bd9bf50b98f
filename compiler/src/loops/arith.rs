//! Index expressions as ops, each as far out as its variables allow.

use super::emitter::Emitter;
use super::group::V;
use melior::ir::{Type, ValueLike};
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::{Atom, Expr};

impl<'c> Emitter<'c, '_> {
    /// The innermost scope that defines a variable of `e`; at least the second, so that kernels keep their arithmetic inside.
    pub(super) fn depth(&self, e: &Expr) -> usize {
        let outermost = 1.min(self.scopes.len() - 1);
        e.symbols()
            .into_iter()
            .filter(|&s| s != self.lane)
            .map(|s| {
                self.scopes
                    .iter()
                    .rposition(|scope| scope.variables.contains_key(&s))
                    .unwrap_or_else(|| panic!("variable {s:?} is not bound"))
            })
            .fold(outermost, usize::max)
    }

    /// An index expression as a value.
    pub fn index(&mut self, e: &Expr) -> V<'c> {
        let depth = self.depth(e);
        if let Some(v) = self.scopes[..=depth].iter().rev().find_map(|s| s.indices.get(e)) {
            return *v;
        }
        let ty = Type::index(self.context());
        let v = if let Some(s) = e.as_sym() {
            self.scopes[..=depth]
                .iter()
                .rev()
                .find_map(|scope| scope.variables.get(&s))
                .copied()
                .expect("a bound variable")
        } else if let Some(c) = e.as_const() {
            self.scopes[depth].b.index(c)
        } else {
            // Outer parts first, so that each goes as far out as it can; constants last.
            let mut terms: Vec<(usize, Expr)> = Vec::new();
            let mut constant = 0;
            for (atoms, c) in e.terms() {
                if atoms.is_empty() {
                    constant = c;
                    continue;
                }
                let product = self.product(atoms);
                let term = if c == 1 { product.clone() } else { product * Expr::from(c) };
                terms.push((self.depth(&term), term));
            }
            if terms.len() == 1 && constant == 0 {
                let (atoms, c) = e.terms().next().expect("one term");
                self.term(atoms, c)
            } else {
                terms.sort();
                let mut sum: Option<(V<'c>, usize)> = None;
                for (d, t) in &terms {
                    let v = self.index(t);
                    sum = Some(match sum {
                        None => (v, *d),
                        Some((s, at)) => {
                            let at = at.max(*d);
                            (self.scopes[at].b.value("arith.addi", &[s, v], ty, &[]), at)
                        }
                    });
                }
                let (sum, at) = sum.expect("a term that is not constant");
                if constant == 0 {
                    sum
                } else {
                    let c = self.index(&constant.into());
                    self.scopes[at].b.value("arith.addi", &[sum, c], ty, &[])
                }
            }
        };
        self.scopes[depth].indices.insert(e.clone(), v);
        v
    }

    fn product(&self, atoms: &[Atom]) -> Expr {
        let single = |a: &Atom| match a {
            Atom::Sym(s) => Expr::from(*s),
            Atom::FloorDiv(a, b) => a.floor_div(b),
            Atom::Mod(a, b) => a.modulo(b),
            Atom::Min(a, b) => a.minimum(b),
            Atom::Max(a, b) => a.maximum(b),
        };
        atoms.iter().map(single).product()
    }

    /// `c * atoms` as a value, in the scope it belongs to.
    fn term(&mut self, atoms: &[Atom], c: i64) -> V<'c> {
        let ty = Type::index(self.context());
        let mut out: Option<V<'c>> = None;
        let mut depth = 1.min(self.scopes.len() - 1);
        if atoms.len() > 1 || c != 1 {
            for a in atoms {
                let e = self.product(std::slice::from_ref(a));
                depth = depth.max(self.depth(&e));
                let v = self.index(&e);
                out = Some(match out {
                    None => v,
                    Some(o) => self.scopes[depth].b.value("arith.muli", &[o, v], ty, &[]),
                });
            }
            let v = out.expect("at least one atom");
            if c == 1 {
                return v;
            }
            let k = self.index(&c.into());
            return self.scopes[depth].b.value("arith.muli", &[v, k], ty, &[]);
        }
        let (a, b, name) = match &atoms[0] {
            Atom::Sym(_) => unreachable!("variables are looked up"),
            Atom::FloorDiv(a, b) => (a, b, "div"),
            Atom::Mod(a, b) => (a, b, "rem"),
            Atom::Min(a, b) => (a, b, "arith.minsi"),
            Atom::Max(a, b) => (a, b, "arith.maxsi"),
        };
        let depth = self.depth(a).max(self.depth(b));
        // Arithmetic moves out of loops that may not run, where a size may be 0.
        let divides = matches!(&atoms[0], Atom::FloorDiv(..) | Atom::Mod(..));
        let divisor =
            if divides && self.facts.interval(b).0.is_none_or(|l| l < 1) { &b.maximum(&1.into()) } else { b };
        let (x, y) = (self.index(a), self.index(divisor));
        let b_builder = self.scopes[depth].b;
        let op = |name: &str, x, y| b_builder.value(name, &[x, y], ty, &[]);
        match name {
            "div" if self.facts.nonnegative(a) => op("arith.divui", x, y),
            "rem" if self.facts.nonnegative(a) => op("arith.remui", x, y),
            "div" => op("arith.floordivsi", x, y),
            // Of a dividend that may be negative: a - floor(a / b) * b.
            "rem" => {
                let q = op("arith.floordivsi", x, y);
                let product = op("arith.muli", q, y);
                op("arith.subi", x, product)
            }
            _ => op(name, x, y),
        }
    }

    /// Whether a position is inside of `0..size`, as far as it is not known anyway; `None` where it is.
    pub fn in_range(&mut self, position: &Expr, size: &Expr) -> Option<V<'c>> {
        let mut condition = None;
        if !self.facts.nonnegative(position) {
            let zero = 0.into();
            condition = Some(self.compare("sge", position, &zero));
        }
        if !self.facts.below(position, size) {
            let c = self.compare("slt", position, size);
            condition = Some(self.and(condition, c));
        }
        condition
    }

    /// Both conditions.
    pub fn and(&self, a: Option<V<'c>>, b: V<'c>) -> V<'c> {
        match a {
            None => b,
            Some(a) => self.b().value("arith.andi", &[a, b], b.r#type(), &[]),
        }
    }

    /// `arith.cmpi` of two index expressions; predicates `sge`, `slt`, `eq`.
    pub fn compare(&mut self, predicate: &str, x: &Expr, y: &Expr) -> V<'c> {
        let (x, y) = (self.index(x), self.index(y));
        let number = match predicate {
            "eq" => 0,
            "slt" => 2,
            _ => 5,
        };
        let context = self.context();
        let p = self.attribute(&format!("{number} : i64"));
        self.b().value("arith.cmpi", &[x, y], dtype_to_mlir(context, DType::I1), &[("predicate", p)])
    }
}
