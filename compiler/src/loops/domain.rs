//! Index spaces spread over launch dimensions and tasks: what has to be affine in the symbols, and what is looped over.

use super::emitter::Emitter;
use strata_dialects::affine::to_affine;
use strata_runtime::sym::Expr;

/// Neighbouring dimensions whose product is affine, outermost group first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Sizes of the dimensions.
    pub sizes: Vec<Expr>,
    /// Their product.
    pub size: Expr,
}

/// Whether an expression can stand in `#graph.dims`.
pub fn is_affine(e: &Expr) -> bool {
    // Affinity does not depend on the context.
    thread_local! {
        static CONTEXT: melior::Context = melior::Context::new();
    }
    CONTEXT.with(|c| to_affine(c, e).is_some())
}

/// Splits sizes in as few parts as have affine products; at least one part.
pub fn parts(sizes: &[Expr]) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::new();
    for s in sizes.iter().rev() {
        match out.last_mut() {
            Some(p) if is_affine(&(s.clone() * p.size.clone())) => {
                p.sizes.insert(0, s.clone());
                p.size = s.clone() * p.size.clone();
            }
            _ => out.push(Part { sizes: vec![s.clone()], size: s.clone() }),
        }
    }
    out.reverse();
    if out.is_empty() {
        out.push(Part { sizes: vec![], size: 1.into() });
    }
    out
}

/// The positions in all dimensions, from the positions in the parts.
pub fn positions(e: &Emitter<'_, '_>, parts: &[Part], at: &[Expr]) -> Vec<Expr> {
    parts.iter().zip(at).flat_map(|(p, i)| e.facts.delinearize(i, &p.sizes)).collect()
}

/// The row-major number of a position over parts.
pub fn number(parts: &[Part], at: &[Expr]) -> Expr {
    parts.iter().zip(at).fold(Expr::default(), |n, (p, i)| n * p.size.clone() + i.clone())
}

/// The mapping attributes of a grid of `n` dimensions; the innermost is x.
pub fn block_mapping(n: usize) -> String {
    let names = ["#gpu.block<x>", "#gpu.block<y>", "#gpu.block<z>"];
    names[..n].iter().rev().copied().collect::<Vec<_>>().join(", ")
}
