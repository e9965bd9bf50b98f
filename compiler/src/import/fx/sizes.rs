//! Size expressions of FX graphs: SymPy's, as JSON, and a symbol of its own for what is not affine.

use crate::graph::symbols::FunctionSymbol;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use strata_runtime::sym::{Atom, Expr, Symbol};

/// The symbols of the function under construction.
#[derive(Default)]
pub struct Sizes {
    symbols: Vec<FunctionSymbol>,
    by_name: BTreeMap<String, u32>,
    defined: BTreeMap<Vec<Atom>, u32>,
}

impl Sizes {
    /// Adds a symbol that the caller binds.
    pub fn add(&mut self, info: Symbol) {
        self.by_name.insert(info.name.clone(), self.symbols.len() as u32);
        self.symbols.push(FunctionSymbol { info, definition: None });
    }

    /// Every symbol, those with a definition last.
    pub fn symbols(&self) -> &[FunctionSymbol] {
        &self.symbols
    }

    /// The symbol of that name.
    pub fn symbol(&self, name: &str) -> Result<Expr, String> {
        self.by_name
            .get(name)
            .map(|&i| Expr::sym(i))
            .ok_or_else(|| format!("symbol '{name}' is not declared"))
    }

    /// An expression: a number, a symbol's name, or a list of an operator and its operands.
    pub fn parse(&self, json: &Json) -> Result<Expr, String> {
        let bad = || format!("not a size expression: {json}");
        if let Some(i) = json.as_i64() {
            return Ok(i.into());
        }
        if let Some(name) = json.as_str() {
            return self.symbol(name);
        }
        let list = json.as_array().ok_or_else(bad)?;
        let op = list.first().and_then(Json::as_str).ok_or_else(bad)?;
        let args = list[1..].iter().map(|a| self.parse(a)).collect::<Result<Vec<_>, _>>()?;
        match (op, args.as_slice()) {
            ("add", args) => Ok(args.iter().cloned().sum()),
            ("mul", args) => Ok(args.iter().cloned().product()),
            ("floordiv", [a, b]) => Ok(a.floor_div(b)),
            ("mod", [a, b]) => Ok(a.modulo(b)),
            ("min", [first, rest @ ..]) => Ok(rest.iter().fold(first.clone(), |x, y| Expr::minimum(&x, y))),
            ("max", [first, rest @ ..]) => Ok(rest.iter().fold(first.clone(), |x, y| Expr::maximum(&x, y))),
            _ => Err(bad()),
        }
    }

    /// The same size as an affine expression: products of symbols, minima and maxima get a symbol that is defined by them.
    pub fn affine(&mut self, e: &Expr) -> Expr {
        let terms: Vec<_> = e.terms().map(|(atoms, c)| (atoms.to_vec(), c)).collect();
        terms.into_iter().map(|(atoms, c)| Expr::from(c) * self.affine_term(atoms)).sum()
    }

    fn affine_term(&mut self, atoms: Vec<Atom>) -> Expr {
        match atoms.as_slice() {
            [] => return 1.into(),
            [Atom::Sym(s)] => return (*s).into(),
            [Atom::FloorDiv(a, b)] if b.as_const().is_some() => return self.affine(a).floor_div(b),
            [Atom::Mod(a, b)] if b.as_const().is_some() => return self.affine(a).modulo(b),
            _ => {}
        }
        if let Some(&i) = self.defined.get(&atoms) {
            return Expr::sym(i);
        }
        let definition: Expr = atoms.iter().map(of_atom).product();
        let hints: Option<Vec<i64>> = self.symbols.iter().map(|s| s.info.hint).collect();
        let i = self.symbols.len() as u32;
        let mut info = Symbol::named(format!("s{i}"));
        info.hint = hints.and_then(|h| definition.eval(&h));
        self.symbols.push(FunctionSymbol { info, definition: Some(definition) });
        self.defined.insert(atoms, i);
        Expr::sym(i)
    }

    /// The size with every defined symbol replaced by what it stands for, for comparisons. A definition may name others before it.
    pub fn expand(&self, e: &Expr) -> Expr {
        e.substitute(&|s| match &self.symbols[s.0 as usize].definition {
            Some(definition) => self.expand(definition),
            None => s.into(),
        })
    }

    /// Whether two sizes are equal, as far as can be told.
    pub fn equal(&self, a: &Expr, b: &Expr) -> bool {
        a == b || self.expand(a) == self.expand(b)
    }
}

fn of_atom(atom: &Atom) -> Expr {
    match atom {
        Atom::Sym(s) => (*s).into(),
        Atom::FloorDiv(a, b) => a.floor_div(b),
        Atom::Mod(a, b) => a.modulo(b),
        Atom::Min(a, b) => Expr::minimum(a, b),
        Atom::Max(a, b) => Expr::maximum(a, b),
    }
}
