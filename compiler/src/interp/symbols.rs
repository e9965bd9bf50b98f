//! The symbols of a function: what its attribute `graph.symbols` says, and their values once the sizes of arguments are known.

use melior::ir::attribute::{ArrayAttribute, DictionaryAttribute, IntegerAttribute, StringAttribute};
use melior::ir::operation::OperationLike;
use strata_dialects::TensorType;
use strata_runtime::sym::{Expr, Symbol};

/// A symbol of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolFact {
    /// Name, range, divisor, typical value.
    pub symbol: Symbol,
    /// The expression over other symbols that defines it, where there is one.
    pub def: Option<Expr>,
}

/// The entries of `graph.symbols`; none where a function has no such attribute.
pub fn symbols_of<'c: 'a, 'a>(function: &impl OperationLike<'c, 'a>) -> Result<Vec<SymbolFact>, String> {
    let Ok(attribute) = function.attribute("graph.symbols") else { return Ok(vec![]) };
    let list = ArrayAttribute::try_from(attribute).map_err(|_| "graph.symbols is not a list")?;
    (0..list.len())
        .map(|i| {
            let entry = list.element(i).map_err(|e| e.to_string())?;
            let entry = DictionaryAttribute::try_from(entry)
                .map_err(|_| format!("entry {i} of graph.symbols is not a dictionary"))?;
            let text = |key: &str| {
                entry
                    .element_by_name(key)
                    .and_then(|a| StringAttribute::try_from(a).ok())
                    .map(strata_dialects::attr::text)
            };
            let number = |key: &str| {
                entry.element_by_name(key).and_then(|a| IntegerAttribute::try_from(a).ok()).map(|n| n.value())
            };
            let mut symbol = Symbol::named(text("name").unwrap_or_else(|| format!("s{i}")));
            symbol.min = number("min").unwrap_or(symbol.min);
            symbol.max = number("max").unwrap_or(symbol.max);
            symbol.divisor = number("divisor").unwrap_or(1).max(1);
            symbol.hint = number("hint");
            let def = text("def").map(|t| parse(&t)).transpose()?;
            Ok(SymbolFact { symbol, def })
        })
        .collect()
}

/// The symbols that a function declares, and those that its types use beyond: hand-written kernels have no `graph.symbols`.
pub fn symbols_for<'c: 'a, 'a>(
    function: &impl OperationLike<'c, 'a>,
    types: &[TensorType],
) -> Result<Vec<SymbolFact>, String> {
    let mut facts = symbols_of(function)?;
    let used = types.iter().flat_map(|t| &t.shape).flat_map(Expr::symbols).map(|s| s.0 as usize + 1).max();
    for i in facts.len()..used.unwrap_or(0) {
        facts.push(SymbolFact { symbol: Symbol::named(format!("s{i}")), def: None });
    }
    Ok(facts)
}

/// Values of the symbols such that `types` have the sizes `shapes`. Errors say which size does not fit, and to what.
pub fn bind(facts: &[SymbolFact], types: &[TensorType], shapes: &[&[usize]]) -> Result<Vec<i64>, String> {
    let mut bound: Vec<Option<i64>> = vec![None; facts.len()];
    let sizes: Vec<(&Expr, i64)> = types
        .iter()
        .zip(shapes)
        .flat_map(|(t, s)| t.shape.iter().zip(*s))
        .map(|(e, &n)| (e, n as i64))
        .collect();
    // Every round binds what has one unknown left, until nothing new is found.
    loop {
        let before = bound.iter().flatten().count();
        for (e, n) in &sizes {
            if let Some((s, v)) = solve(e, *n, &bound) {
                bound[s] = Some(v);
            }
        }
        for (s, fact) in facts.iter().enumerate() {
            if let (None, Some(v)) = (bound[s], fact.def.as_ref().and_then(|d| known(d, &bound))) {
                bound[s] = Some(v);
            }
        }
        if bound.iter().flatten().count() == before {
            break;
        }
    }
    // A symbol that no argument uses may have any value of its range.
    let any =
        |s: &Symbol| s.hint.unwrap_or((s.min.max(1) + s.divisor - 1) / s.divisor * s.divisor).min(s.max);
    let values: Vec<i64> =
        bound.iter().zip(facts).map(|(v, f)| v.unwrap_or_else(|| any(&f.symbol))).collect();
    check(facts, types, shapes, &values)?;
    Ok(values)
}

/// Checks that under these values of the symbols `types` have the sizes `shapes`, and that the symbols keep their promises.
pub fn check(
    facts: &[SymbolFact],
    types: &[TensorType],
    shapes: &[&[usize]],
    values: &[i64],
) -> Result<(), String> {
    for (a, (t, s)) in types.iter().zip(shapes).enumerate() {
        if t.rank() != s.len() {
            return Err(format!("argument {a} is {t}, but the tensor given has {} dimensions", s.len()));
        }
        for (d, (e, &n)) in t.shape.iter().zip(*s).enumerate() {
            let got = e.eval(values);
            if got != Some(n as i64) {
                return Err(format!(
                    "argument {a}, dimension {d}: the size is {n}, but {e} is {}",
                    got.map_or("undefined".into(), |g| g.to_string())
                ));
            }
        }
    }
    for (f, &v) in facts.iter().zip(values) {
        let s = &f.symbol;
        if v < s.min || v > s.max || v % s.divisor != 0 {
            return Err(format!(
                "symbol '{}' is {v}, outside of what it promises: {} to {}, a multiple of {}",
                s.name, s.min, s.max, s.divisor
            ));
        }
    }
    Ok(())
}

fn known(e: &Expr, bound: &[Option<i64>]) -> Option<i64> {
    if e.symbols().iter().any(|s| bound.get(s.0 as usize).is_none_or(Option::is_none)) {
        return None;
    }
    e.eval(&bound.iter().map(|b| b.unwrap_or(0)).collect::<Vec<_>>())
}

/// The one unknown symbol of `e = n` and its value, where `e` is linear in it.
fn solve(e: &Expr, n: i64, bound: &[Option<i64>]) -> Option<(usize, i64)> {
    let mut unknown = e.symbols().into_iter().map(|s| s.0 as usize).filter(|&s| bound.get(s) == Some(&None));
    let s = unknown.next().filter(|_| unknown.next().is_none())?;
    let at = |v: i64| {
        let mut values: Vec<i64> = bound.iter().map(|b| b.unwrap_or(0)).collect();
        values[s] = v;
        e.eval(&values)
    };
    // Two points give the line; a third, the solution itself, tells whether it is one.
    let (zero, one) = (at(0)?, at(1)?);
    let slope = one - zero;
    let v = (slope != 0 && (n - zero) % slope == 0).then(|| (n - zero) / slope)?;
    (v >= 0 && at(v) == Some(n)).then_some((s, v))
}

/// Parses an expression as sizes print: `s0 * 2 + 1`, `(s0 + 3) floordiv 4`, `min(s0, s1)`.
pub fn parse(text: &str) -> Result<Expr, String> {
    let mut p = Parser { rest: text };
    let e = p.sum()?;
    match p.rest.trim_start() {
        "" => Ok(e),
        rest => Err(format!("unexpected '{rest}' in the expression '{text}'")),
    }
}

struct Parser<'t> {
    rest: &'t str,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(token) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut e = if self.eat("-") { -self.product()? } else { self.product()? };
        loop {
            if self.eat("+") {
                e = e + self.product()?;
            } else if self.eat("-") {
                e = e - self.product()?;
            } else {
                return Ok(e);
            }
        }
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut e = self.factor()?;
        loop {
            if self.eat("*") {
                e = e * self.factor()?;
            } else if self.eat("floordiv") {
                e = e.floor_div(&self.factor()?);
            } else if self.eat("ceildiv") {
                e = e.ceil_div(&self.factor()?);
            } else if self.eat("mod") {
                e = e.modulo(&self.factor()?);
            } else {
                return Ok(e);
            }
        }
    }

    fn number(&mut self) -> Option<i64> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let v = self.rest[..end].parse().ok()?;
        self.rest = &self.rest[end..];
        Some(v)
    }

    fn factor(&mut self) -> Result<Expr, String> {
        let expected = |p: &Self| format!("expected a size, found '{}'", p.rest);
        if self.eat("(") {
            let e = self.sum()?;
            return if self.eat(")") { Ok(e) } else { Err(format!("expected ')', found '{}'", self.rest)) };
        }
        for (token, f) in [("min(", Expr::minimum as fn(&Expr, &Expr) -> Expr), ("max(", Expr::maximum)] {
            if self.eat(token) {
                let a = self.sum()?;
                if !self.eat(",") {
                    return Err(format!("expected ',', found '{}'", self.rest));
                }
                let b = self.sum()?;
                return if self.eat(")") {
                    Ok(f(&a, &b))
                } else {
                    Err(format!("expected ')', found '{}'", self.rest))
                };
            }
        }
        if self.eat("s") {
            return self.number().map(|i| Expr::sym(i as u32)).ok_or_else(|| expected(self));
        }
        self.rest = self.rest.trim_start();
        self.number().map(Expr::from).ok_or_else(|| expected(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_runtime::DType;

    fn fact(def: Option<&str>) -> SymbolFact {
        SymbolFact { symbol: Symbol::named("s"), def: def.map(|d| parse(d).expect("parses")) }
    }

    #[test]
    fn text_round_trips() {
        for text in
            ["s0 * 2 - 1", "((s0 + 255) floordiv 256) * 256", "min(s0, s1) + 3", "s0 * s1", "(s0 + 1) mod 4"]
        {
            assert_eq!(parse(text).map(|e| e.to_string()), Ok(text.to_owned()));
        }
        assert!(parse("s0 +").is_err());
        assert!(parse("s0 s1").is_err());
    }

    #[test]
    fn symbols_are_solved_from_sizes_and_definitions() {
        let facts = [fact(None), fact(None), fact(Some("s0 * s1"))];
        let t = TensorType::new(
            DType::F32,
            [Expr::sym(0) * Expr::from(2) + Expr::from(1), Expr::sym(0) + Expr::sym(1)],
        );
        assert_eq!(bind(&facts, std::slice::from_ref(&t), &[&[7, 8]]), Ok(vec![3, 5, 15]));
        assert!(bind(&facts, &[t], &[&[6, 8]]).is_err());
    }

    #[test]
    fn ranges_are_checked() {
        let mut f = fact(None);
        f.symbol.max = 4;
        let t = TensorType::new(DType::F32, [Expr::sym(0)]);
        assert_eq!(bind(std::slice::from_ref(&f), std::slice::from_ref(&t), &[&[4]]), Ok(vec![4]));
        assert!(bind(&[f], &[t], &[&[5]]).expect_err("too large").contains("promises"));
    }
}
