//! Symbolic sizes: polynomials over a function's symbols, with floor division, remainder, minimum and maximum.
//!
//! Expressions are kept in one normal form (a sum of coefficient × product of atoms), so that structural equality
//! finds most equal sizes: `s0*s1 + 2` equals `2 + s1*s0`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A symbol by its place in the function's table, printed `s0`, `s1`, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SymbolId(pub u32);

/// What is known of a symbol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// The user's name for it (`batch`), or `s0`.
    pub name: String,
    /// Smallest value, inclusive.
    pub min: i64,
    /// Largest value, inclusive; `i64::MAX` where nothing is known.
    pub max: i64,
    /// The value is a multiple of this (≥ 1).
    pub divisor: i64,
    /// A typical value, for choosing schedules. No code depends on it for correctness.
    pub hint: Option<i64>,
}

impl Symbol {
    /// A symbol of which nothing but its name is known: any size from 0.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), min: 0, max: i64::MAX, divisor: 1, hint: None }
    }
}

/// A factor of a term that is not a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Atom {
    /// A symbol.
    Sym(SymbolId),
    /// `floor(a / b)`, rounding towards minus infinity, `b > 0`.
    FloorDiv(Expr, Expr),
    /// `a - b * floor(a / b)`, in `[0, b)`.
    Mod(Expr, Expr),
    /// The smaller.
    Min(Expr, Expr),
    /// The larger.
    Max(Expr, Expr),
}

/// An integer expression over symbols, in normal form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Expr {
    /// Product of atoms (sorted, with repetition) → coefficient, never 0. The empty product is the constant.
    terms: BTreeMap<Vec<Atom>, i64>,
}

impl From<i64> for Expr {
    fn from(c: i64) -> Self {
        let mut terms = BTreeMap::new();
        if c != 0 {
            terms.insert(Vec::new(), c);
        }
        Self { terms }
    }
}

/// The type of a bare literal: `Expr::from(1)`.
impl From<i32> for Expr {
    fn from(c: i32) -> Self {
        Self::from(i64::from(c))
    }
}

impl From<usize> for Expr {
    fn from(c: usize) -> Self {
        Self::from(c as i64)
    }
}

impl From<SymbolId> for Expr {
    fn from(s: SymbolId) -> Self {
        Self::atom(Atom::Sym(s))
    }
}

impl Expr {
    /// The `i`-th symbol.
    pub fn sym(i: u32) -> Self {
        SymbolId(i).into()
    }

    fn atom(a: Atom) -> Self {
        Self { terms: BTreeMap::from([(vec![a], 1)]) }
    }

    /// The value, if it is a number.
    pub fn as_const(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// The symbol, if it is nothing else.
    pub fn as_sym(&self) -> Option<SymbolId> {
        match self.terms.iter().next() {
            Some((atoms, 1)) if self.terms.len() == 1 && atoms.len() == 1 => match atoms[0] {
                Atom::Sym(s) => Some(s),
                _ => None,
            },
            _ => None,
        }
    }

    /// The terms: (product of atoms, coefficient). The empty product is the constant.
    pub fn terms(&self) -> impl Iterator<Item = (&[Atom], i64)> {
        self.terms.iter().map(|(a, &c)| (a.as_slice(), c))
    }

    /// Every symbol that occurs, in order, once.
    pub fn symbols(&self) -> Vec<SymbolId> {
        let mut out = Vec::new();
        self.visit(&mut |s| out.push(s));
        out.sort_unstable();
        out.dedup();
        out
    }

    fn visit(&self, f: &mut impl FnMut(SymbolId)) {
        for atom in self.terms.keys().flatten() {
            match atom {
                Atom::Sym(s) => f(*s),
                Atom::FloorDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                    a.visit(f);
                    b.visit(f);
                }
            }
        }
    }

    /// `floor(self / b)`. Exact divisions by a number are carried out.
    pub fn floor_div(&self, b: &Expr) -> Expr {
        if *b == Expr::from(1) {
            return self.clone();
        }
        if self == b {
            return Expr::from(1);
        }
        if let (Some(x), Some(y)) = (self.as_const(), b.as_const())
            && y > 0
        {
            return x.div_euclid(y).into();
        }
        if let Some(y) = b.as_const().filter(|&y| y > 0) {
            // Multiples of the divisor come out, as they do in MLIR's affine expressions: one form for equal sizes.
            let (whole, rest) = (self.map(|c| c.div_euclid(y)), self.map(|c| c.rem_euclid(y)));
            // A number that is left is smaller than the divisor.
            return if rest.as_const().is_some() {
                whole
            } else {
                whole + rest.nested_floor(y).unwrap_or_else(|| Self::atom(Atom::FloorDiv(rest, b.clone())))
            };
        }
        // a*b / b where b is a single product of symbols
        if let Some(q) = self.divided_by_monomial(b) {
            return q;
        }
        Self::atom(Atom::FloorDiv(self.clone(), b.clone()))
    }

    /// Every coefficient through a function.
    fn map(&self, f: impl Fn(i64) -> i64) -> Expr {
        let terms = self.terms.iter().map(|(a, &c)| (a.clone(), f(c))).filter(|(_, c)| *c != 0);
        Self { terms: terms.collect() }
    }

    /// `(floor(a / m) + c) / n` is `(a + c * m) / (m * n)`: sizes after several strides come out as one division.
    fn nested_floor(&self, n: i64) -> Option<Expr> {
        let constant = self.terms.get(&Vec::new()).copied().unwrap_or(0);
        let mut rest = self.terms.iter().filter(|(atoms, _)| !atoms.is_empty());
        let (Some((atoms, 1)), None) = (rest.next(), rest.next()) else { return None };
        let [Atom::FloorDiv(a, m)] = atoms.as_slice() else { return None };
        let m = m.as_const().filter(|&m| m > 0)?;
        let divisor = m.checked_mul(n)?;
        Some((a.clone() + Expr::from(constant.checked_mul(m)?)).floor_div(&divisor.into()))
    }

    fn divided_by_monomial(&self, b: &Expr) -> Option<Expr> {
        let (divisor, &coefficient) = b.terms.iter().next().filter(|_| b.terms.len() == 1)?;
        let mut terms = BTreeMap::new();
        for (atoms, &c) in &self.terms {
            if c.checked_rem(coefficient) != Some(0) {
                return None;
            }
            let mut rest = atoms.clone();
            for d in divisor {
                rest.remove(rest.iter().position(|a| a == d)?);
            }
            terms.insert(rest, c.checked_div(coefficient)?);
        }
        Some(Self { terms })
    }

    /// `ceil(self / b)`.
    pub fn ceil_div(&self, b: &Expr) -> Expr {
        let q = self.floor_div(b);
        if !matches!(q.terms.keys().next().map(Vec::as_slice), Some([Atom::FloorDiv(..)]))
            && q.clone() * b.clone() == *self
        {
            return q;
        }
        (self.clone() + b.clone() - Expr::from(1)).floor_div(b)
    }

    /// `self` rounded up to a multiple of `b`.
    pub fn align_to(&self, b: i64) -> Expr {
        self.ceil_div(&b.into()) * Expr::from(b)
    }

    /// The remainder in `[0, b)`.
    pub fn modulo(&self, b: &Expr) -> Expr {
        if let (Some(x), Some(y)) = (self.as_const(), b.as_const())
            && y > 0
        {
            return x.rem_euclid(y).into();
        }
        if let Some(y) = b.as_const().filter(|&y| y > 0) {
            let rest = self.map(|c| c.rem_euclid(y));
            return if rest.as_const().is_some() { rest } else { Self::atom(Atom::Mod(rest, b.clone())) };
        }
        if self.divided_by_monomial(b).is_some() {
            return Expr::from(0);
        }
        Self::atom(Atom::Mod(self.clone(), b.clone()))
    }

    /// The smaller of the two. Write `Expr::minimum(&a, &b)`: on an owned `a`, `a.min(…)` is `Ord::min`.
    pub fn minimum(&self, b: &Expr) -> Expr {
        self.min_max(b, i64::min, Atom::Min)
    }

    /// The larger of the two.
    pub fn maximum(&self, b: &Expr) -> Expr {
        self.min_max(b, i64::max, Atom::Max)
    }

    fn min_max(&self, b: &Expr, f: fn(i64, i64) -> i64, atom: fn(Expr, Expr) -> Atom) -> Expr {
        match (self.as_const(), b.as_const()) {
            (Some(x), Some(y)) => f(x, y).into(),
            _ if self == b => self.clone(),
            _ => {
                let (a, b) = if self <= b { (self, b) } else { (b, self) };
                Self::atom(atom(a.clone(), b.clone()))
            }
        }
    }

    /// The value under `bindings[symbol]`. `None` where a symbol has no value, a divisor is not positive, or the
    /// arithmetic leaves 64 bits.
    pub fn eval(&self, bindings: &[i64]) -> Option<i64> {
        let mut sum = 0i64;
        for (atoms, &c) in &self.terms {
            let mut product = c;
            for a in atoms {
                product = product.checked_mul(a.eval(bindings)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// `self` with every symbol `s` replaced by `f(s)`.
    pub fn substitute(&self, f: &impl Fn(SymbolId) -> Expr) -> Expr {
        let mut sum = Expr::default();
        for (atoms, &c) in &self.terms {
            let product = atoms.iter().fold(Expr::from(c), |p, a| {
                p * match a {
                    Atom::Sym(s) => f(*s),
                    Atom::FloorDiv(a, b) => a.substitute(f).floor_div(&b.substitute(f)),
                    Atom::Mod(a, b) => a.substitute(f).modulo(&b.substitute(f)),
                    Atom::Min(a, b) => Expr::minimum(&a.substitute(f), &b.substitute(f)),
                    Atom::Max(a, b) => Expr::maximum(&a.substitute(f), &b.substitute(f)),
                }
            });
            sum = sum + product;
        }
        sum
    }

    /// The largest number known to divide the value, given the symbols' facts; 0 for the value 0.
    pub fn known_divisor(&self, symbols: &[Symbol]) -> i64 {
        self.terms.iter().fold(0, |g, (atoms, &c)| {
            let d = atoms.iter().fold(c.unsigned_abs() as i64, |d, a| match a {
                Atom::Sym(s) => d.saturating_mul(symbols.get(s.0 as usize).map_or(1, |s| s.divisor.max(1))),
                _ => d,
            });
            gcd(g, d)
        })
    }
}

/// The greatest common divisor of two non-negative numbers.
pub const fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Atom {
    fn eval(&self, bindings: &[i64]) -> Option<i64> {
        match self {
            Self::Sym(s) => bindings.get(s.0 as usize).copied(),
            Self::FloorDiv(a, b) => {
                let b = b.eval(bindings).filter(|&b| b > 0)?;
                Some(a.eval(bindings)?.div_euclid(b))
            }
            Self::Mod(a, b) => {
                let b = b.eval(bindings).filter(|&b| b > 0)?;
                Some(a.eval(bindings)?.rem_euclid(b))
            }
            Self::Min(a, b) => Some(a.eval(bindings)?.min(b.eval(bindings)?)),
            Self::Max(a, b) => Some(a.eval(bindings)?.max(b.eval(bindings)?)),
        }
    }
}

impl std::ops::Add for Expr {
    type Output = Expr;
    fn add(mut self, rhs: Expr) -> Expr {
        for (atoms, c) in rhs.terms {
            let entry = self.terms.entry(atoms).or_insert(0);
            *entry = entry.wrapping_add(c);
        }
        self.terms.retain(|_, c| *c != 0);
        self
    }
}

impl std::ops::Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self * Expr::from(-1)
    }
}

impl std::ops::Sub for Expr {
    type Output = Expr;
    fn sub(self, rhs: Expr) -> Expr {
        self + -rhs
    }
}

impl std::ops::Mul for Expr {
    type Output = Expr;
    fn mul(self, rhs: Expr) -> Expr {
        let mut terms = BTreeMap::new();
        for (a, c) in &self.terms {
            for (b, d) in &rhs.terms {
                let mut atoms = [a.as_slice(), b.as_slice()].concat();
                atoms.sort();
                let entry = terms.entry(atoms).or_insert(0i64);
                *entry = entry.wrapping_add(c.wrapping_mul(*d));
            }
        }
        terms.retain(|_, c| *c != 0);
        Self { terms }
    }
}

impl std::iter::Sum for Expr {
    fn sum<I: Iterator<Item = Expr>>(it: I) -> Expr {
        it.fold(Expr::default(), |a, b| a + b)
    }
}

impl std::iter::Product for Expr {
    fn product<I: Iterator<Item = Expr>>(it: I) -> Expr {
        it.fold(Expr::from(1), |a, b| a * b)
    }
}

/// `s0 * 2 + 1`, `(s0 + 3) floordiv 4`, as MLIR prints affine expressions; `min(a, b)` and `max(a, b)` beside them.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // Symbols first, the constant last, as people write it.
        let constant = self.terms.get(&Vec::new());
        let mut first = true;
        for (atoms, &c) in self.terms.iter().filter(|(a, _)| !a.is_empty()) {
            match (first, c < 0) {
                (true, true) => f.write_str("-")?,
                (false, true) => f.write_str(" - ")?,
                (false, false) => f.write_str(" + ")?,
                _ => {}
            }
            first = false;
            for (i, a) in atoms.iter().enumerate() {
                if i > 0 {
                    f.write_str(" * ")?;
                }
                // Division binds like multiplication: keep it apart inside products.
                let bare = matches!(a, Atom::Sym(_) | Atom::Min(..) | Atom::Max(..));
                if bare || (atoms.len() == 1 && c == 1) { write!(f, "{a}")? } else { write!(f, "({a})")? }
            }
            if c.unsigned_abs() != 1 {
                write!(f, " * {}", c.unsigned_abs())?;
            }
        }
        match constant {
            Some(&c) if first => write!(f, "{c}"),
            Some(&c) if c < 0 => write!(f, " - {}", c.unsigned_abs()),
            Some(&c) => write!(f, " + {c}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |e: &Expr| match e.terms.len() {
            0 | 1 if e.as_const().is_some() || e.as_sym().is_some() => e.to_string(),
            _ => format!("({e})"),
        };
        match self {
            Self::Sym(s) => write!(f, "s{}", s.0),
            Self::FloorDiv(a, b) => write!(f, "{} floordiv {}", side(a), side(b)),
            Self::Mod(a, b) => write!(f, "{} mod {}", side(a), side(b)),
            Self::Min(a, b) => write!(f, "min({a}, {b})"),
            Self::Max(a, b) => write!(f, "max({a}, {b})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sizes_are_equal_however_they_are_written() {
        let (a, b) = (Expr::sym(0), Expr::sym(1));
        assert_eq!(a.clone() * b.clone() + Expr::from(2), Expr::from(2) + b.clone() * a.clone());
        assert_eq!((a.clone() * b.clone()).floor_div(&b), a);
        assert_eq!((a.clone() * Expr::from(6)).floor_div(&Expr::from(3)), a.clone() * Expr::from(2));
        assert_eq!((a.clone() * Expr::from(8)).ceil_div(&Expr::from(4)), a.clone() * Expr::from(2));
        let two = Expr::from(2);
        assert_eq!((a.clone() + two.clone()).floor_div(&two), a.floor_div(&two) + Expr::from(1));
        assert_eq!(
            (a.clone() - Expr::from(1)).floor_div(&two),
            (a.clone() + Expr::from(1)).floor_div(&two) - Expr::from(1)
        );
        assert_eq!((a.clone() * Expr::from(4) + Expr::from(5)).modulo(&Expr::from(4)), Expr::from(1));
        assert_eq!(
            (a.clone() * Expr::from(5) + Expr::from(5)).modulo(&Expr::from(4)),
            (a + Expr::from(1)).modulo(&Expr::from(4))
        );
    }

    #[test]
    fn text_reads_like_mlir() {
        let s = Expr::sym(0);
        assert_eq!((s.clone() * Expr::from(2) - Expr::from(1)).to_string(), "s0 * 2 - 1");
        assert_eq!(s.align_to(256).to_string(), "((s0 + 255) floordiv 256) * 256");
        assert_eq!((Expr::from(3) * Expr::sym(1) * Expr::sym(0)).to_string(), "s0 * s1 * 3");
    }

    #[test]
    fn nested_divisions_are_one() {
        let half = |e: Expr| (e + Expr::from(1)).floor_div(&Expr::from(2));
        let nested = half(half(half(Expr::sym(0)))) + Expr::from(5);
        assert_eq!(nested, (Expr::sym(0) + Expr::from(7)).floor_div(&Expr::from(8)) + Expr::from(5));
        for x in -20..20 {
            let halved = |x: i64| (x + 1).div_euclid(2);
            assert_eq!(nested.eval(&[x]), Some(halved(halved(halved(x))) + 5));
        }
    }

    #[test]
    fn evaluation_matches_the_definition() {
        let e = Expr::sym(0).align_to(256) + Expr::sym(1).modulo(&Expr::from(7)) * Expr::sym(0);
        for (x, y) in [(0, 0), (1, 13), (255, 3), (256, -1), (1000, 70)] {
            assert_eq!(e.eval(&[x, y]), Some((x + 255).div_euclid(256) * 256 + y.rem_euclid(7) * x));
        }
        assert_eq!(Expr::sym(0).floor_div(&Expr::sym(1)).eval(&[4, 0]), None);
        assert_eq!((Expr::sym(0) * Expr::sym(0)).eval(&[i64::MAX]), None);
    }
}
