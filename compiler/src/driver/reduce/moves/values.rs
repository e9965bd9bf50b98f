//! Moves on what ops read.

use super::Places;
use crate::driver::reduce::edit::{
    free_functions, inner_ops, is_unused, operands, replace_uses, results, set_attribute, set_operand,
    set_operands,
};
use crate::ir;
use melior::Context;
use melior::ir::attribute::{DenseI32ArrayAttribute, DenseI64ArrayAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, Module, Type, TypeLike, Value, ValueLike};
use strata_dialects::Builder;

pub(super) fn zero<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    let mut chosen = Vec::new();
    for op in inner_ops(module) {
        let [result] = results(op)[..] else { continue };
        if ir::name(&op) == "arith.constant" || is_unused(result) {
            continue;
        }
        if let Some(number) = zero_of(context, result.r#type())
            && places.take()
        {
            chosen.push((op, result, number));
        }
    }
    for (op, result, number) in chosen {
        let constant =
            Builder::before(context, op).value("arith.constant", &[], result.r#type(), &[("value", number)]);
        replace_uses(result, constant);
        if op.region_count() == 0 {
            ir::erase(op.to_raw());
        }
    }
}

/// Zero of a number's or a vector's type.
fn zero_of<'c>(context: &'c Context, ty: Type<'c>) -> Option<Attribute<'c>> {
    let text = ty.to_string();
    // SAFETY: queries on a valid type.
    let (vector, float, whole) = unsafe {
        let raw = ty.to_raw();
        (
            mlir_sys::mlirTypeIsAVector(raw),
            mlir_sys::mlirTypeIsAFloat(raw),
            ty.is_index() || IntegerType::try_from(ty).is_ok(),
        )
    };
    let number = match (vector, float, whole) {
        (true, ..) if text.ends_with("index>") || text.contains("xi") => "dense<0>",
        (true, ..) => "dense<0.0>",
        (_, true, _) => "0.0",
        (_, _, true) => "0",
        _ => return None,
    };
    Attribute::parse(context, &format!("{number} : {text}"))
}

/// Of the same type: a former operand of the op, the first argument, the first op's result in the function's own block.
pub(super) fn merge<'c>(_: &'c Context, module: &Module<'c>, places: &mut Places) {
    let mut chosen = None;
    for function in free_functions(module) {
        let mut known = function.arguments();
        known.extend(function.ops().into_iter().flat_map(results));
        for op in inner_ops(module) {
            let list = operands(op);
            for (i, value) in list.iter().enumerate() {
                let same = |v: &&Value<'c, '_>| v.r#type() == value.r#type();
                let earlier = list[..i].iter().find(same).or_else(|| known.iter().find(same));
                if let Some(earlier) = earlier.filter(|e| e.to_raw().ptr != value.to_raw().ptr)
                    && places.take()
                {
                    chosen = Some((op, i, *earlier));
                }
            }
        }
    }
    if let Some((op, i, value)) = chosen {
        set_operand(op, i, value);
    }
}

pub(super) fn drop_operands<'c>(context: &'c Context, module: &Module<'c>, places: &mut Places) {
    let mut chosen = None;
    for op in inner_ops(module) {
        for i in 0..op.operand_count() {
            if places.take() {
                chosen = Some((op, i));
            }
        }
    }
    if let Some((op, i)) = chosen {
        let mut list = operands(op);
        list.remove(i);
        set_operands(op, &list);
        shrink_segment(context, op, i);
    }
}

/// Where operands are in groups, takes one off the group that holds the operand.
fn shrink_segment<'c>(context: &'c Context, op: OperationRef<'c, '_>, operand: usize) {
    const NAME: &str = "operandSegmentSizes";
    let Ok(attribute) = op.attribute(NAME) else { return };
    let mut sizes: Vec<i64> = if let Ok(list) = DenseI32ArrayAttribute::try_from(attribute) {
        (0..list.len()).filter_map(|i| list.element(i).ok()).map(i64::from).collect()
    } else if let Ok(list) = DenseI64ArrayAttribute::try_from(attribute) {
        (0..list.len()).filter_map(|i| list.element(i).ok()).collect()
    } else {
        return;
    };
    let mut before = 0;
    for size in &mut sizes {
        before += *size;
        if (operand as i64) < before {
            *size -= 1;
            break;
        }
    }
    let sizes: Vec<i32> = sizes.iter().map(|n| *n as i32).collect();
    set_attribute(op, NAME, DenseI32ArrayAttribute::new(context, &sizes).into());
}
