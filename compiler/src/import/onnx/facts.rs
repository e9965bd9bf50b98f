//! What is known of symbolic sizes without running anything: bounds and comparisons.

use strata_runtime::sym::{Atom, Expr, Symbol};

/// Sums longer than this are not worth carrying; whoever meets one gives up on knowing the value.
pub const MAX_TERMS: usize = 64;

/// Known smallest and largest value (inclusive; `None`: no bound), for symbols that are sizes.
pub fn bounds(e: &Expr, symbols: &[Symbol]) -> (Option<i64>, Option<i64>) {
    let (mut low, mut high) = (Some(0i64), Some(0i64));
    for (atoms, c) in e.terms() {
        let (mut lo, mut hi) = (Some(1i64), Some(1i64));
        for a in atoms {
            let (l, h) = atom_bounds(a, symbols);
            // Only products of non-negative factors keep simple bounds.
            match l {
                Some(l) if l >= 0 => {
                    lo = lo.and_then(|x| x.checked_mul(l));
                    hi = hi.zip(h).and_then(|(x, h)| x.checked_mul(h));
                }
                _ => return (None, None),
            }
        }
        let (lo, hi) = (lo.and_then(|x| x.checked_mul(c)), hi.and_then(|x| x.checked_mul(c)));
        let (lo, hi) = if c < 0 { (hi, lo) } else { (lo, hi) };
        low = low.zip(lo).and_then(|(a, b)| a.checked_add(b));
        high = high.zip(hi).and_then(|(a, b)| a.checked_add(b));
    }
    (low, high)
}

fn atom_bounds(a: &Atom, symbols: &[Symbol]) -> (Option<i64>, Option<i64>) {
    match a {
        Atom::Sym(s) => {
            let s = symbols.get(s.0 as usize);
            (s.map(|s| s.min), s.map(|s| s.max).filter(|&m| m != i64::MAX))
        }
        Atom::FloorDiv(a, b) => match (bounds(a, symbols), b.as_const()) {
            ((lo, hi), Some(b)) if b > 0 => (lo.map(|x| x.div_euclid(b)), hi.map(|x| x.div_euclid(b))),
            // A positive divisor at most shrinks a non-negative dividend.
            ((Some(lo), hi), None) if lo >= 0 => (Some(0), hi),
            _ => (None, None),
        },
        Atom::Mod(_, b) => (Some(0), bounds(b, symbols).1.and_then(|x| x.checked_sub(1))),
        Atom::Min(a, b) => {
            let ((al, ah), (bl, bh)) = (bounds(a, symbols), bounds(b, symbols));
            (al.zip(bl).map(|(x, y)| x.min(y)), ah.into_iter().chain(bh).min())
        }
        Atom::Max(a, b) => {
            let ((al, ah), (bl, bh)) = (bounds(a, symbols), bounds(b, symbols));
            (al.into_iter().chain(bl).max(), ah.zip(bh).map(|(x, y)| x.max(y)))
        }
    }
}

/// Whether `a <= b` is known to hold or known to fail.
pub fn le(a: &Expr, b: &Expr, symbols: &[Symbol]) -> Option<bool> {
    let (low, high) = bounds(&(b.clone() - a.clone()), symbols);
    if low.is_some_and(|x| x >= 0) {
        Some(true)
    } else if high.is_some_and(|x| x < 0) {
        Some(false)
    } else {
        None
    }
}

/// Whether `a == b` is known to hold or known to fail.
pub fn eq(a: &Expr, b: &Expr, symbols: &[Symbol]) -> Option<bool> {
    if a == b {
        return Some(true);
    }
    let (low, high) = bounds(&(b.clone() - a.clone()), symbols);
    if low.is_some_and(|x| x > 0) || high.is_some_and(|x| x < 0) { Some(false) } else { None }
}

/// The smaller, simplified where the order is known.
pub fn min(a: &Expr, b: &Expr, symbols: &[Symbol]) -> Expr {
    match (le(a, b, symbols), le(b, a, symbols)) {
        (Some(true), _) => a.clone(),
        (_, Some(true)) => b.clone(),
        _ => Expr::minimum(a, b),
    }
}

/// The larger, simplified where the order is known.
pub fn max(a: &Expr, b: &Expr, symbols: &[Symbol]) -> Expr {
    match (le(a, b, symbols), le(b, a, symbols)) {
        (Some(true), _) => b.clone(),
        (_, Some(true)) => a.clone(),
        _ => Expr::maximum(a, b),
    }
}

/// The product, unless it has too many terms.
pub fn product<'a>(factors: impl IntoIterator<Item = &'a Expr>) -> Option<Expr> {
    let mut out = Expr::from(1);
    for f in factors {
        if out.terms().count() * f.terms().count() > MAX_TERMS {
            return None;
        }
        out = out * f.clone();
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_sizes() {
        let symbols = [Symbol::named("batch"), Symbol { min: 1, max: 64, ..Symbol::named("seq") }];
        let (b, s) = (Expr::sym(0), Expr::sym(1));
        assert_eq!(le(&Expr::from(-1), &b, &symbols), Some(true));
        assert_eq!(eq(&b, &Expr::from(-1), &symbols), Some(false));
        assert_eq!(eq(&b, &Expr::from(1), &symbols), None);
        assert_eq!(le(&s, &Expr::from(64), &symbols), Some(true));
        assert_eq!(le(&Expr::from(65), &s, &symbols), Some(false));
        assert_eq!(min(&(s.clone() - Expr::from(1)), &s, &symbols), s.clone() - Expr::from(1));
        assert_eq!(max(&(b.clone() + s.clone()), &b, &symbols), b + s);
    }

    #[test]
    fn bounds_never_overflow() {
        let symbols = [Symbol { max: i64::MAX - 1, ..Symbol::named("n") }];
        let e = Expr::sym(0) * Expr::sym(0) * Expr::from(i64::MAX);
        assert_eq!(bounds(&e, &symbols), (Some(0), None));
    }

    #[test]
    fn long_products_are_given_up() {
        let two_terms = Expr::sym(0) + Expr::sym(1);
        assert_eq!(product(std::iter::repeat_n(&two_terms, 40)), None);
    }
}
