//! Moves on symbolic sizes.

use super::Places;
use crate::driver::reduce::edit::{
    Function, free_functions, inner_ops, remove_attribute, results, set_attribute,
};
use crate::graph::symbols::{ATTRIBUTE, FunctionSymbol, attribute, read};
use melior::Context;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Module, TypeLike, Value, ValueLike};
use strata_dialects::TensorType;
use strata_dialects::affine::{dims_attribute, dims_of};
use strata_runtime::sym::Expr;

/// Small sizes, with room for a difference first.
const VALUES: [i64; 4] = [2, 1, 4, 8];

/// Only in programs of one function: symbols of kernel functions are bound by their callers.
pub(super) fn bind<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    let [function] = free_functions(module)[..] else { return };
    let Ok(symbols) = read(&function.op) else { return };
    let mut chosen = None;
    for i in 0..symbols.len() {
        for value in VALUES {
            if places.next() {
                chosen = Some((i, value));
            }
        }
    }
    if let Some((symbol, value)) = chosen {
        set_symbol(context, module, function, symbols, symbol, value);
    }
}

fn set_symbol<'c>(
    context: &'c Context,
    module: &Module<'c>,
    function: Function<'c, '_>,
    mut symbols: Vec<FunctionSymbol>,
    symbol: usize,
    value: i64,
) {
    let bound = |e: &Expr| {
        e.substitute(&|s| match (s.0 as usize).cmp(&symbol) {
            std::cmp::Ordering::Less => s.into(),
            std::cmp::Ordering::Equal => value.into(),
            std::cmp::Ordering::Greater => Expr::sym(s.0 - 1),
        })
    };
    symbols.remove(symbol);
    for s in &mut symbols {
        s.definition = s.definition.as_ref().map(bound);
    }
    if symbols.is_empty() {
        remove_attribute(function.op, ATTRIBUTE);
    } else {
        set_attribute(function.op, ATTRIBUTE, attribute(context, &symbols));
    }
    let retype = |v: Value<'c, '_>| {
        let Ok(ty) = TensorType::from_mlir(v.r#type()) else { return };
        let ty = TensorType { dtype: ty.dtype, shape: ty.shape.iter().map(bound).collect() };
        if let Ok(ty) = ty.to_mlir(context) {
            // SAFETY: a live value; the verifier refuses what does not fit.
            unsafe { mlir_sys::mlirValueSetType(v.to_raw(), ty.to_raw()) };
        }
    };
    function.arguments().into_iter().for_each(retype);
    for op in inner_ops(module) {
        results(op).into_iter().for_each(retype);
        for name in dims_attributes(op) {
            let dims = op.attribute(&name).ok().and_then(dims_of).unwrap_or_default();
            let dims: Vec<Expr> = dims.iter().map(bound).collect();
            if let Some(attribute) = dims_attribute(context, &dims) {
                set_attribute(op, &name, attribute);
            }
        }
    }
}

fn dims_attributes(op: OperationRef<'_, '_>) -> Vec<String> {
    let name = |(id, a): (melior::ir::Identifier<'_>, melior::ir::Attribute<'_>)| {
        dims_of(a)?;
        Some(id.as_string_ref().as_str().ok()?.to_owned())
    };
    op.attributes().filter_map(name).collect()
}
