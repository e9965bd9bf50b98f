//! Moves on attributes and constants.

use super::Places;
use crate::driver::reduce::edit::{inner_ops, remove_attribute, set_attribute};
use crate::ir;
use melior::Context;
use melior::ir::attribute::{BoolAttribute, FloatAttribute, IntegerAttribute, StringAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, AttributeLike, Module, TypeLike};

/// The ops that carry attributes, functions among them.
fn carriers<'c, 'm>(module: &'m Module<'c>) -> Vec<OperationRef<'c, 'm>> {
    ir::functions(module).into_iter().chain(inner_ops(module)).collect()
}

/// Names and attributes, but for what is the op itself: a function's name and type.
fn attributes<'c>(op: OperationRef<'c, '_>) -> Vec<(String, Attribute<'c>)> {
    let owned = |id: melior::ir::Identifier<'c>| Some(id.as_string_ref().as_str().ok()?.to_owned());
    let mut list: Vec<_> = op.attributes().filter_map(|(id, a)| Some((owned(id)?, a))).collect();
    list.retain(|(name, _)| !matches!(name.as_str(), "sym_name" | "function_type" | "operandSegmentSizes"));
    list.sort_by(|a, b| a.0.cmp(&b.0));
    list
}

/// Inherent attributes that ops may lack. Others must not be removed: not every op looks at them before it is verified.
const OPTIONAL: [&str; 4] = ["arg_attrs", "res_attrs", "alignment", "mapping"];

pub(super) fn drop<'c>(_: &'c Context, module: &Module<'c>, places: &mut Places) {
    for op in carriers(module) {
        for (name, _) in attributes(op) {
            let may = OPTIONAL.contains(&name.as_str()) || is_discardable(op, &name);
            if may && places.take() {
                remove_attribute(op, &name);
            }
        }
    }
}

fn is_discardable(op: OperationRef<'_, '_>, name: &str) -> bool {
    // SAFETY: a query on a live op.
    unsafe {
        let name = melior::StringRef::new(name).to_raw();
        !mlir_sys::mlirOperationGetDiscardableAttributeByName(op.to_raw(), name).ptr.is_null()
    }
}

pub(super) fn simplify<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    for op in carriers(module) {
        for (name, attribute) in attributes(op) {
            for simple in simpler(context, attribute) {
                if places.take() {
                    set_attribute(op, &name, simple);
                }
            }
        }
    }
}

/// What is simpler than an attribute, the simplest first; ends before the attribute itself, so that this ends.
fn simpler<'c>(context: &'c Context, attribute: Attribute<'c>) -> Vec<Attribute<'c>> {
    let list: Vec<Attribute<'c>> = if let Ok(text) = StringAttribute::try_from(attribute) {
        if text.value().is_empty() { vec![] } else { vec![StringAttribute::new(context, "").into()] }
    } else if BoolAttribute::try_from(attribute).is_ok() {
        vec![BoolAttribute::new(context, false).into()]
    } else if let Ok(float) = FloatAttribute::try_from(attribute) {
        [0.0, 1.0].map(|x| FloatAttribute::new(context, float.r#type(), x).into()).to_vec()
    } else if let Ok(int) = IntegerAttribute::try_from(attribute) {
        [0, 1].map(|x| IntegerAttribute::new(int.r#type(), x).into()).to_vec()
    } else {
        vec![]
    };
    list.into_iter().take_while(|a| *a != attribute).collect()
}

pub(super) fn flatten_constants<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    for op in inner_ops(module) {
        let Ok(value) = op.attribute("value") else { continue };
        // SAFETY: queries on a valid attribute; the kind is checked first.
        let flat = unsafe {
            let raw = value.to_raw();
            let many = mlir_sys::mlirAttributeIsADenseElements(raw)
                && !mlir_sys::mlirDenseElementsAttrIsSplat(raw)
                || mlir_sys::mlirAttributeIsADenseResourceElements(raw);
            if !many {
                continue;
            }
            let ty = value.r#type();
            let element = mlir_sys::mlirShapedTypeGetElementType(ty.to_raw());
            let one = if mlir_sys::mlirTypeIsAFloat(element) { "1.0" } else { "1" };
            Attribute::parse(context, &format!("dense<{one}> : {ty}"))
        };
        if let Some(flat) = flat
            && places.take()
        {
            set_attribute(op, "value", flat);
        }
    }
}
