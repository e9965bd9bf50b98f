//! Index arithmetic: expressions over a kernel's symbols and loop variables, simplified by what is known of their ranges.

use strata_runtime::sym::{Atom, Expr, Symbol, SymbolId, gcd};

/// What is known of a variable: a symbol of the kernel, a loop variable, a lane, an index read from memory.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Range and divisor.
    pub symbol: Symbol,
    /// An exclusive upper bound that may be symbolic.
    pub below: Option<Expr>,
}

/// The variables of a kernel, by symbol number: first the kernel's own symbols, then what emission adds.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    facts: Vec<Fact>,
}

impl Facts {
    /// Facts about a kernel's own symbols.
    pub fn new(symbols: &[Symbol]) -> Self {
        Self { facts: symbols.iter().map(|s| Fact { symbol: s.clone(), below: None }).collect() }
    }

    /// A new variable in `0..bound`.
    pub fn variable(&mut self, bound: &Expr) -> SymbolId {
        let max = self.interval(bound).1.map_or(i64::MAX, |b| (b - 1).max(0));
        let symbol = Symbol { min: 0, max, ..Symbol::named("") };
        self.facts.push(Fact { symbol, below: Some(bound.clone()) });
        SymbolId(self.facts.len() as u32 - 1)
    }

    /// A new variable of which nothing is known: an index read from memory.
    pub fn unknown(&mut self) -> SymbolId {
        self.facts.push(Fact { symbol: Symbol { min: i64::MIN, ..Symbol::named("") }, below: None });
        SymbolId(self.facts.len() as u32 - 1)
    }

    fn fact(&self, s: SymbolId) -> Option<&Fact> {
        self.facts.get(s.0 as usize)
    }

    /// Bounds of an expression, inclusive, where known.
    pub fn interval(&self, e: &Expr) -> (Option<i64>, Option<i64>) {
        let (mut low, mut high) = (Some(0i64), Some(0i64));
        for (atoms, c) in e.terms() {
            let mut term = (Some(1i64), Some(1i64));
            for a in atoms {
                let (l, h) = self.atom_interval(a);
                // Only products of non-negative factors are bounded; that is what sizes and positions are.
                term = match (term.0, l) {
                    (Some(x), Some(l)) if l >= 0 => {
                        (x.checked_mul(l), term.1.zip(h).and_then(|(x, h)| x.checked_mul(h)))
                    }
                    _ if atoms.len() == 1 => (l, h),
                    _ => (None, None),
                };
            }
            let (l, h) = if c >= 0 { term } else { (term.1, term.0) };
            low = low.zip(l.and_then(|l| l.checked_mul(c))).and_then(|(a, b)| a.checked_add(b));
            high = high.zip(h.and_then(|h| h.checked_mul(c))).and_then(|(a, b)| a.checked_add(b));
        }
        (low, high)
    }

    fn atom_interval(&self, a: &Atom) -> (Option<i64>, Option<i64>) {
        match a {
            Atom::Sym(s) => self.fact(*s).map_or((None, None), |f| {
                let known = |x: i64| (x != i64::MIN && x != i64::MAX).then_some(x);
                (known(f.symbol.min), known(f.symbol.max))
            }),
            Atom::FloorDiv(a, b) => {
                let ((al, ah), (bl, bh)) = (self.interval(a), self.interval(b));
                match (al, bl) {
                    (Some(al), Some(bl)) if al >= 0 && bl > 0 => {
                        (Some(bh.map_or(0, |bh| al / bh)), ah.map(|ah| ah / bl))
                    }
                    (_, Some(bl)) if b.as_const().is_some() && bl > 0 => {
                        (al.map(|x| x.div_euclid(bl)), ah.map(|x| x.div_euclid(bl)))
                    }
                    _ => (None, None),
                }
            }
            Atom::Mod(a, b) => {
                let high = self.interval(b).1.map(|h| h - 1);
                let from_a = if self.nonnegative(a) { self.interval(a).1 } else { None };
                (Some(0), high.into_iter().chain(from_a).min())
            }
            Atom::Min(a, b) => {
                let ((al, ah), (bl, bh)) = (self.interval(a), self.interval(b));
                (al.zip(bl).map(|(a, b)| a.min(b)), ah.into_iter().chain(bh).min())
            }
            Atom::Max(a, b) => {
                let ((al, ah), (bl, bh)) = (self.interval(a), self.interval(b));
                (al.into_iter().chain(bl).max(), ah.zip(bh).map(|(a, b)| a.max(b)))
            }
        }
    }

    /// Whether `e ≥ 0` is known.
    pub fn nonnegative(&self, e: &Expr) -> bool {
        self.interval(e).0.is_some_and(|l| l >= 0)
    }

    /// Whether `e < bound` is known.
    pub fn below(&self, e: &Expr, bound: &Expr) -> bool {
        if self.interval(e).1.zip(self.interval(bound).0).is_some_and(|(high, low)| high < low) {
            return true;
        }
        if self.interval(&(bound.clone() - e.clone())).0.is_some_and(|l| l > 0) {
            return true;
        }
        // A variable below its own symbolic bound, or the remainder by it.
        let mut terms = e.terms();
        match (terms.next(), terms.next()) {
            (Some(([Atom::Sym(s)], 1)), None) => {
                self.fact(*s).is_some_and(|f| f.below.as_ref() == Some(bound))
            }
            (Some(([Atom::Mod(_, b)], 1)), None) => b == bound,
            _ => false,
        }
    }

    /// A number that divides `e` whatever its variables are; 0 for the expression 0.
    pub fn divisor(&self, e: &Expr) -> i64 {
        e.terms().fold(0, |g, (atoms, c)| {
            let d = atoms
                .iter()
                .fold(c.unsigned_abs() as i64, |d, a| d.saturating_mul(self.atom_divisor(a).max(1)));
            gcd(g, d)
        })
    }

    fn atom_divisor(&self, a: &Atom) -> i64 {
        match a {
            Atom::Sym(s) => self.fact(*s).map_or(1, |f| f.symbol.divisor.max(1)),
            Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => gcd(self.divisor(a), self.divisor(b)),
            Atom::FloorDiv(..) => 1,
        }
    }

    /// `e` as `quotient * b + remainder` with `0 ≤ remainder < b` known, where the terms show it.
    fn split(&self, e: &Expr, b: &Expr) -> Option<(Expr, Expr)> {
        let (mut quotient, mut rest) = (Expr::default(), Expr::default());
        for (atoms, c) in e.terms() {
            let term = term(atoms, c);
            let q = term.floor_div(b);
            if q.clone() * b.clone() == term {
                quotient = quotient + q;
            } else {
                rest = rest + term;
            }
        }
        (self.nonnegative(&rest) && self.below(&rest, b)).then_some((quotient, rest))
    }

    /// Splits off what is below a common divisor of the rest and of `b`: `e = high + low`, `0 ≤ low < g`, `g | high`, `g | b`.
    fn low_part(&self, e: &Expr, b: i64) -> (Expr, Expr, i64) {
        let mut best = (e.clone(), Expr::default(), 1);
        for (atoms, c) in e.terms() {
            let candidate = gcd(gcd(self.divisor(&term(atoms, c)), b), b);
            if candidate <= best.2 {
                continue;
            }
            let (mut high, mut low) = (Expr::default(), Expr::default());
            for (atoms, c) in e.terms() {
                let t = term(atoms, c);
                if self.divisor(&t) % candidate == 0 { high = high + t } else { low = low + t }
            }
            if self.nonnegative(&low) && self.below(&low, &candidate.into()) {
                best = (high, low, candidate);
            }
        }
        best
    }

    /// `floor(e / b)`.
    pub fn floor_div(&self, e: &Expr, b: &Expr) -> Expr {
        if let Some((q, _)) = self.split(e, b) {
            return q;
        }
        let Some(c) = b.as_const().filter(|&c| c > 0) else { return e.floor_div(b) };
        let (high, _, g) = self.low_part(e, c);
        if g > 1 {
            return self.floor_div(&high.floor_div(&g.into()), &(c / g).into());
        }
        // floor((q*c + r) / c) = q + floor(r / c)
        let (mut quotient, mut rest) = (Expr::default(), Expr::default());
        for (atoms, k) in e.terms() {
            let t = term(atoms, k);
            if k % c == 0 { quotient = quotient + t.floor_div(b) } else { rest = rest + t }
        }
        quotient + rest.floor_div(b)
    }

    /// `e mod b`.
    pub fn modulo(&self, e: &Expr, b: &Expr) -> Expr {
        if let Some((_, r)) = self.split(e, b) {
            return r;
        }
        let Some(c) = b.as_const().filter(|&c| c > 0) else { return e.modulo(b) };
        let (high, low, g) = self.low_part(e, c);
        if g > 1 {
            return self.modulo(&high.floor_div(&g.into()), &(c / g).into()) * Expr::from(g) + low;
        }
        let rest = e.terms().filter(|(_, k)| k % c != 0).map(|(a, k)| term(a, k)).sum::<Expr>();
        rest.modulo(b)
    }

    /// Simplifies the divisions inside of an expression.
    pub fn simplify(&self, e: &Expr) -> Expr {
        let one = |a: &Atom| match a {
            Atom::Sym(s) => Expr::from(*s),
            Atom::FloorDiv(a, b) => self.floor_div(&self.simplify(a), &self.simplify(b)),
            Atom::Mod(a, b) => self.modulo(&self.simplify(a), &self.simplify(b)),
            Atom::Min(a, b) => self.simplify(a).minimum(&self.simplify(b)),
            Atom::Max(a, b) => self.simplify(a).maximum(&self.simplify(b)),
        };
        e.terms().map(|(atoms, c)| atoms.iter().map(one).product::<Expr>() * Expr::from(c)).sum()
    }

    /// The positions in `shape` of the element with row-major number `linear`.
    pub fn delinearize(&self, linear: &Expr, shape: &[Expr]) -> Vec<Expr> {
        let mut out = vec![Expr::default(); shape.len()];
        let mut rest = linear.clone();
        for d in (0..shape.len()).rev() {
            if d == 0 {
                out[0] = rest;
                break;
            }
            if shape[d].as_const() == Some(1) {
                continue;
            }
            // The outermost dimension larger than 1 takes what is left.
            if shape[..d].iter().all(|s| s.as_const() == Some(1)) {
                out[d] = rest;
                break;
            }
            out[d] = self.modulo(&rest, &shape[d]);
            rest = self.floor_div(&rest, &shape[d]);
        }
        out
    }
}

/// One term as an expression.
fn term(atoms: &[Atom], c: i64) -> Expr {
    atoms.iter().fold(Expr::from(c), |e, a| {
        e * match a {
            Atom::Sym(s) => Expr::from(*s),
            Atom::FloorDiv(a, b) => a.floor_div(b),
            Atom::Mod(a, b) => a.modulo(b),
            Atom::Min(a, b) => a.minimum(b),
            Atom::Max(a, b) => a.maximum(b),
        }
    })
}

/// The row-major number of a position.
pub fn linearize(index: &[Expr], shape: &[Expr]) -> Expr {
    index.iter().zip(shape).fold(Expr::default(), |sum, (i, n)| {
        if n.as_const() == Some(1) { sum } else { sum * n.clone() + i.clone() }
    })
}

/// Whether a variable occurs in an expression.
pub fn mentions(e: &Expr, s: SymbolId) -> bool {
    e.symbols().contains(&s)
}

/// How an expression depends on the lane of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stride {
    /// Not at all.
    Uniform,
    /// By a constant step from lane to lane.
    Step(i64),
    /// In another way.
    Other,
}

/// How `e` depends on `lane`.
pub fn stride(e: &Expr, lane: SymbolId) -> Stride {
    let mut step = 0;
    for (atoms, c) in e.terms() {
        if atoms == [Atom::Sym(lane)] {
            step = c;
        } else if mentions(&term(atoms, c), lane) {
            return Stride::Other;
        }
    }
    if step == 0 { Stride::Uniform } else { Stride::Step(step) }
}
