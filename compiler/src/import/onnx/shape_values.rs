//! Arithmetic on integer tensors whose elements are known expressions: what exporters compute shapes with.
//!
//! Every function answers `None` where it cannot decide; the caller then writes the op for run time.

use super::facts;
use super::importer::{Importer, MAX_KNOWN, Operand};
use super::node::Node;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

impl Importer<'_> {
    /// An elementwise integer op of known operands.
    pub fn fold(&self, op: &str, operands: &[&Operand]) -> Option<Operand> {
        let dtype = operands.last()?.ty.dtype;
        if dtype.is_float() || operands.iter().any(|x| x.known.is_none()) {
            return None;
        }
        let shapes = operands.iter().map(|x| sizes(x)).collect::<Option<Vec<_>>>()?;
        let shape = common_shape(&shapes)?;
        let count: usize = shape.iter().product();
        if count > MAX_KNOWN {
            return None;
        }
        let mut out = Vec::with_capacity(count);
        for i in 0..count {
            let elements: Vec<&Expr> = operands
                .iter()
                .zip(&shapes)
                .map(|(x, s)| x.known.as_ref().and_then(|k| k.get(spread_index(i, &shape, s))))
                .collect::<Option<_>>()?;
            let e = self.fold_element(op, &elements)?;
            if e.terms().count() > facts::MAX_TERMS {
                return None;
            }
            // Numbers wrap to their type; symbolic values are sizes and fit.
            out.push(e.as_const().map_or(e, |n| dtype.wrap(n).into()));
        }
        let truth = matches!(op, "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual");
        Some(Operand::known(if truth { DType::I1 } else { dtype }, &shape, out))
    }

    fn fold_element(&self, op: &str, x: &[&Expr]) -> Option<Expr> {
        let symbols = &self.symbols;
        let truth = |b: bool| Expr::from(i64::from(b));
        Some(match (op, x) {
            ("Add", [a, b]) => (*a).clone() + (*b).clone(),
            ("Sub", [a, b]) => (*a).clone() - (*b).clone(),
            ("Mul", [a, b]) => facts::product([*a, *b])?,
            ("Div", [a, b]) => match (a.as_const(), b.as_const()) {
                (Some(a), Some(b)) => a.checked_div(b)?.into(),
                // Division truncates; it is a floor division where nothing is negative.
                _ if facts::le(&0.into(), a, symbols)? && facts::le(&1.into(), b, symbols)? => a.floor_div(b),
                _ => return None,
            },
            ("Mod", [a, b]) if facts::le(&1.into(), b, symbols)? => a.modulo(b),
            ("Min", [a, b]) => facts::min(a, b, symbols),
            ("Max", [a, b]) => facts::max(a, b, symbols),
            ("Neg", [a]) => -(*a).clone(),
            ("Abs", [a]) if facts::le(&0.into(), a, symbols)? => (*a).clone(),
            ("Equal", [a, b]) => truth(facts::eq(a, b, symbols)?),
            ("Less", [a, b]) => truth(!facts::le(b, a, symbols)?),
            ("LessOrEqual", [a, b]) => truth(facts::le(a, b, symbols)?),
            ("Greater", [a, b]) => truth(!facts::le(a, b, symbols)?),
            ("GreaterOrEqual", [a, b]) => truth(facts::le(b, a, symbols)?),
            ("Not", [a]) => truth(a.as_const()? == 0),
            ("And", [a, b]) => truth(a.as_const()? != 0 && b.as_const()? != 0),
            ("Or", [a, b]) => truth(a.as_const()? != 0 || b.as_const()? != 0),
            ("Xor", [a, b]) => truth((a.as_const()? != 0) != (b.as_const()? != 0)),
            ("Where", [c, a, b]) => (if c.as_const()? != 0 { *a } else { *b }).clone(),
            _ => return None,
        })
    }

    /// A sum, product, minimum or maximum of a known vector.
    pub fn fold_reduce(&self, node: &Node<'_>, x: &Operand, axes: &[usize], keep: bool) -> Option<Operand> {
        let known = x.known.as_ref().filter(|_| axes.len() == x.rank() && x.rank() <= 1)?;
        let total = match node.op() {
            "ReduceSum" => known.iter().cloned().sum(),
            "ReduceProd" => facts::product(known.iter())?,
            "ReduceMax" => known.iter().cloned().reduce(|a, b| facts::max(&a, &b, &self.symbols))?,
            "ReduceMin" => known.iter().cloned().reduce(|a, b| facts::min(&a, &b, &self.symbols))?,
            _ => return None,
        };
        let shape: &[usize] = if keep && x.rank() == 1 { &[1] } else { &[] };
        Some(Operand::known(x.ty.dtype, shape, vec![total]))
    }

    /// Known parts joined along `axis`.
    pub fn fold_concat(&self, parts: &[Operand], axis: usize) -> Option<Operand> {
        if axis != 0 || parts.iter().any(|p| p.known.is_none() || p.rank() != 1) {
            return None;
        }
        let all: Vec<Expr> =
            parts.iter().flat_map(|p| p.known.iter().flat_map(|k| k.iter().cloned())).collect();
        (all.len() <= MAX_KNOWN).then(|| Operand::known(parts[0].ty.dtype, &[all.len()], all))
    }

    /// Known elements picked from a known vector.
    pub fn fold_gather(&self, x: &Operand, indices: &Operand, axis: usize) -> Option<Operand> {
        let known = x.known.as_ref().filter(|_| x.rank() == 1 && axis == 0)?;
        let n = known.len() as i64;
        let picked = indices
            .numbers()?
            .into_iter()
            .map(|i| known.get(usize::try_from(if i < 0 { i.checked_add(n)? } else { i }).ok()?).cloned())
            .collect::<Option<Vec<_>>>()?;
        Some(Operand::known(x.ty.dtype, &sizes(indices)?, picked))
    }

    /// A known vector's elements `start, start + step, …`, `count` of them.
    pub fn fold_slice(&self, x: &Operand, start: i64, step: i64, count: i64) -> Option<Operand> {
        let known = x.known.as_ref().filter(|_| x.rank() == 1)?;
        let picked = (0..count)
            .map(|i| known.get(usize::try_from(start + i * step).ok()?).cloned())
            .collect::<Option<Vec<_>>>()?;
        Some(Operand::known(x.ty.dtype, &[picked.len()], picked))
    }
}

/// The sizes of a known operand: always numbers.
fn sizes(x: &Operand) -> Option<Vec<usize>> {
    x.shape().iter().map(|d| d.as_const().and_then(|n| usize::try_from(n).ok())).collect()
}

fn common_shape(shapes: &[Vec<usize>]) -> Option<Vec<usize>> {
    let rank = shapes.iter().map(Vec::len).max()?;
    let mut out = vec![1; rank];
    for s in shapes {
        for (have, &add) in out[rank - s.len()..].iter_mut().zip(s) {
            match (*have, add) {
                (1, _) => *have = add,
                (_, 1) => {}
                (a, b) if a == b => {}
                _ => return None,
            }
        }
    }
    Some(out)
}

/// Where in an operand of shape `from` the `i`-th element of a result of shape `shape` comes from.
fn spread_index(mut i: usize, shape: &[usize], from: &[usize]) -> usize {
    let (mut index, mut stride) = (0, 1);
    for d in (0..shape.len()).rev() {
        let at = i % shape[d];
        i /= shape[d];
        if let Some(&size) = (d + from.len()).checked_sub(shape.len()).and_then(|k| from.get(k)) {
            if size != 1 {
                index += at * stride;
            }
            stride *= size;
        }
    }
    index
}
