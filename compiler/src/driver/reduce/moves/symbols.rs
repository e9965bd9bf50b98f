//! Moves on symbolic sizes.

use super::Places;
use crate::driver::reduce::edit::{
    Function, free_functions, inner_ops, remove_attribute, replace_uses, results, set_attribute,
};
use crate::graph::symbols::{ATTRIBUTE, attribute, read};
use melior::Context;
use melior::ir::attribute::{ArrayAttribute, DictionaryAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, AttributeLike, Identifier, Module, TypeLike, Value, ValueLike};
use strata_dialects::affine::{dims_attribute, dims_of};
use strata_dialects::{Builder, TensorType};
use strata_runtime::sym::Expr;

/// Small sizes, with room for a difference first.
const VALUES: [i64; 4] = [2, 1, 4, 8];

/// Only in programs of one function: symbols of kernel functions are bound by their callers.
pub(super) fn bind<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    let [function] = free_functions(module)[..] else { return };
    let sizes = size_arguments(function);
    let mut chosen = None;
    for symbol in 0..count(function) {
        for value in VALUES {
            if places.take() {
                chosen = Some((symbol, value));
            }
        }
    }
    let Some((symbol, value)) = chosen else { return };
    let bound = |e: &Expr| {
        e.substitute(&|s| match (s.0 as usize).cmp(&symbol) {
            std::cmp::Ordering::Less => s.into(),
            std::cmp::Ordering::Equal => value.into(),
            std::cmp::Ordering::Greater => Expr::sym(s.0 - 1),
        })
    };
    forget(context, function, symbol, &bound);
    substitute(context, function.op, &bound);
    function.arguments().into_iter().for_each(|v| retype(context, v, &bound));
    for op in inner_ops(module) {
        results(op).into_iter().for_each(|v| retype(context, v, &bound));
        substitute(context, op, &bound);
    }
    // Below the graph level a symbol is an argument too.
    if let (Some(&(i, size)), Some(first)) = (sizes.get(symbol), function.ops().first()) {
        replace_uses(size, Builder::before(context, *first).index(value));
        function.erase_argument(context, i);
    }
}

/// How many symbols a function has: stated in its list, or arguments.
pub(crate) fn count(function: Function<'_, '_>) -> usize {
    read(&function.op).map_or(0, |s| s.len()).max(size_arguments(function).len())
}

/// The arguments of type `index`: one a symbol, in order.
fn size_arguments<'c: 'm, 'm>(function: Function<'c, 'm>) -> Vec<(usize, Value<'c, 'm>)> {
    function.arguments().into_iter().enumerate().filter(|(_, v)| v.r#type().is_index()).collect()
}

/// Takes a symbol off the function's list.
fn forget<'c>(
    context: &'c Context,
    function: Function<'c, '_>,
    symbol: usize,
    bound: &impl Fn(&Expr) -> Expr,
) {
    let Ok(mut symbols) = read(&function.op) else { return };
    if symbol >= symbols.len() {
        return;
    }
    symbols.remove(symbol);
    for s in &mut symbols {
        s.definition = s.definition.as_ref().map(bound);
    }
    if symbols.is_empty() {
        remove_attribute(function.op, ATTRIBUTE);
    } else {
        set_attribute(function.op, ATTRIBUTE, attribute(context, &symbols));
    }
}

/// Rewrites the sizes of a graph tensor's type. Those of other levels state no expressions and stay dynamic.
fn retype<'c>(context: &'c Context, v: Value<'c, '_>, bound: &impl Fn(&Expr) -> Expr) {
    let Ok(ty) = TensorType::from_mlir(v.r#type()) else { return };
    let ty = TensorType { dtype: ty.dtype, shape: ty.shape.iter().map(bound).collect() };
    if let Ok(ty) = ty.to_mlir(context) {
        // SAFETY: a live value; the verifier refuses what does not fit.
        unsafe { mlir_sys::mlirValueSetType(v.to_raw(), ty.to_raw()) };
    }
}

/// Rewrites the size expressions in an op's attributes.
fn substitute<'c>(context: &'c Context, op: OperationRef<'c, '_>, bound: &impl Fn(&Expr) -> Expr) {
    let list: Vec<_> = op.attributes().collect();
    for (name, attribute) in list {
        if let (Ok(name), Some(new)) = (name.as_string_ref().as_str(), substituted(context, attribute, bound))
        {
            set_attribute(op, name, new);
        }
    }
}

/// An attribute with its size expressions rewritten, in lists and dictionaries too; nothing where it holds none.
fn substituted<'c>(
    context: &'c Context,
    attribute: Attribute<'c>,
    bound: &impl Fn(&Expr) -> Expr,
) -> Option<Attribute<'c>> {
    if let Some(dims) = dims_of(attribute) {
        return dims_attribute(context, &dims.iter().map(bound).collect::<Vec<_>>());
    }
    if let Ok(list) = ArrayAttribute::try_from(attribute) {
        let old: Vec<_> = (0..list.len()).map(|i| list.element(i).ok()).collect::<Option<_>>()?;
        let new: Vec<_> = old.iter().map(|a| substituted(context, *a, bound)).collect();
        let any = new.iter().any(Option::is_some);
        let list: Vec<_> = old.iter().zip(new).map(|(old, new)| new.unwrap_or(*old)).collect();
        return any.then(|| ArrayAttribute::new(context, &list).into());
    }
    let dictionary = DictionaryAttribute::try_from(attribute).ok()?;
    let mut any = false;
    let mut entries: Vec<(Identifier<'c>, Attribute<'c>)> = Vec::new();
    for i in 0..dictionary.len() {
        // SAFETY: an index below the length; names and attributes live as long as the context.
        let (name, value) = unsafe {
            let entry = mlir_sys::mlirDictionaryAttrGetElement(dictionary.to_raw(), i as isize);
            (Identifier::from_raw(entry.name), Attribute::from_raw(entry.attribute))
        };
        let new = substituted(context, value, bound);
        any |= new.is_some();
        entries.push((name, new.unwrap_or(value)));
    }
    any.then(|| DictionaryAttribute::new(context, &entries).into())
}
