//! Size expressions to and from MLIR's affine expressions, and the attribute `#graph.dims<…>` that lists them.

use melior::Context;
use melior::ir::{AffineExpr, Attribute, AttributeLike};
use mlir_sys::{MlirAffineExpr, MlirAttribute, MlirContext};
use strata_runtime::sym::{Atom, Expr};

unsafe extern "C" {
    fn strataDimsAttrGet(context: MlirContext, n: isize, exprs: *const MlirAffineExpr) -> MlirAttribute;
    fn strataAttributeIsDims(attribute: MlirAttribute) -> bool;
    fn strataDimsAttrSize(attribute: MlirAttribute) -> isize;
    fn strataDimsAttrExpr(attribute: MlirAttribute, i: isize) -> MlirAffineExpr;
}

/// `e` as an affine expression over MLIR symbols. `None` where it is not affine: a product of symbols, a minimum, a maximum.
pub fn to_affine<'c>(context: &'c Context, e: &Expr) -> Option<AffineExpr<'c>> {
    let mut sum: Option<AffineExpr<'c>> = None;
    let mut constant = 0;
    for (atoms, c) in e.terms() {
        let term = match atoms {
            [] => {
                constant = c;
                continue;
            }
            [atom] => {
                let a = match atom {
                    Atom::Sym(s) => AffineExpr::symbol(context, s.0 as usize),
                    Atom::FloorDiv(a, b) => {
                        AffineExpr::floor_div(to_affine(context, a)?, to_affine(context, b)?)
                    }
                    Atom::Mod(a, b) => AffineExpr::modulo(to_affine(context, a)?, to_affine(context, b)?),
                    Atom::Min(..) | Atom::Max(..) => return None,
                };
                if c == 1 { a } else { a * AffineExpr::constant(context, c) }
            }
            _ => return None,
        };
        sum = Some(sum.map_or(term, |s| s + term));
    }
    let constant_expr = AffineExpr::constant(context, constant);
    Some(match sum {
        None => constant_expr,
        Some(s) if constant == 0 => s,
        Some(s) => s + constant_expr,
    })
}

/// The expression behind an affine expression over symbols. `None` where it holds a dimension.
pub fn from_affine(e: AffineExpr<'_>) -> Option<Expr> {
    if e.is_constant() {
        return Some(e.constant_value().into());
    }
    if e.is_symbol() {
        return Some(Expr::sym(e.symbol_position() as u32));
    }
    if e.is_dim() {
        return None;
    }
    let (a, b) = (from_affine(e.lhs())?, from_affine(e.rhs())?);
    Some(match () {
        _ if e.is_add() => a + b,
        _ if e.is_mul() => a * b,
        _ if e.is_floor_div() => a.floor_div(&b),
        _ if e.is_ceil_div() => a.ceil_div(&b),
        _ => a.modulo(&b),
    })
}

/// `#graph.dims<…>`. `None` where an expression is not affine.
pub fn dims_attribute<'c>(context: &'c Context, exprs: &[Expr]) -> Option<Attribute<'c>> {
    let raw: Vec<_> = exprs.iter().map(|e| Some(to_affine(context, e)?.to_raw())).collect::<Option<_>>()?;
    // SAFETY: the expressions belong to `context`, and the attribute lives in it.
    Some(unsafe {
        Attribute::from_raw(strataDimsAttrGet(context.to_raw(), raw.len() as isize, raw.as_ptr()))
    })
}

/// The expressions of a `#graph.dims<…>`; `None` for any other attribute.
pub fn dims_of(attribute: Attribute<'_>) -> Option<Vec<Expr>> {
    let raw = attribute.to_raw();
    // SAFETY: the kind is checked first, and indices stay below the size.
    unsafe {
        if !strataAttributeIsDims(raw) {
            return None;
        }
        (0..strataDimsAttrSize(raw))
            .map(|i| from_affine(AffineExpr::from_raw(strataDimsAttrExpr(raw, i))))
            .collect()
    }
}
