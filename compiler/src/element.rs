//! What is left of element types below the graph level that arithmetic there does not have. `ui8` and the 8-bit floats are `i8` in
//! kernels ([`DType::storage`]); an argument or result of theirs says so in an attribute, for whoever calls the function.

use melior::Context;
use melior::ir::attribute::{ArrayAttribute, DictionaryAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, Identifier, Type};
use strata_dialects::types::{dtype_of, dtype_to_mlir};
use strata_runtime::DType;

/// The attribute's name; its value is a type.
pub const ELEMENT: &str = "loop.element";

/// The attribute, where a type needs one.
pub fn attribute(context: &Context, dtype: DType) -> Option<(Identifier<'_>, Attribute<'_>)> {
    let ty = dtype_to_mlir(context, dtype);
    (dtype.storage() != dtype).then(|| (Identifier::new(context, ELEMENT), TypeAttribute::new(ty).into()))
}

/// The type that the attribute of argument (`arg_attrs`) or result (`res_attrs`) number `i` states.
pub fn stated(function: OperationRef<'_, '_>, list: &str, i: usize) -> Option<DType> {
    let list = ArrayAttribute::try_from(function.attribute(list).ok()?).ok()?;
    let entry = DictionaryAttribute::try_from(list.element(i).ok()?).ok()?;
    of(entry.element_by_name(ELEMENT)?)
}

/// The type that an attribute states.
fn of(attribute: Attribute<'_>) -> Option<DType> {
    // SAFETY: the kind is asked first.
    let ty = unsafe {
        if !mlir_sys::mlirAttributeIsAType(melior::ir::AttributeLike::to_raw(&attribute)) {
            return None;
        }
        Type::from_raw(mlir_sys::mlirTypeAttrGetValue(melior::ir::AttributeLike::to_raw(&attribute)))
    };
    dtype_of(ty).ok()
}
