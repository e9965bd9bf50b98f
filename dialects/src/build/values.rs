//! Questions about values and types that builders of every level ask.

use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Type, TypeLike, Value, ValueLike};

/// The `i`-th result of an op.
pub fn result_of<'c, 'a>(op: OperationRef<'c, 'a>, i: usize) -> Value<'c, 'a> {
    op.result(i).expect("an op with that many results").into()
}

/// The op that made a value; `None` for block arguments.
pub fn definition<'c, 'a>(value: Value<'c, 'a>) -> Option<OperationRef<'c, 'a>> {
    // SAFETY: a query on a live value.
    unsafe {
        mlir_sys::mlirValueIsAOpResult(value.to_raw())
            .then(|| OperationRef::from_raw(mlir_sys::mlirOpResultGetOwner(value.to_raw())))
    }
}

/// The number behind an `arith.constant` of an integer or index.
pub fn const_of(value: Value<'_, '_>) -> Option<i64> {
    let op = definition(value)?;
    if op.name().as_string_ref().as_str() != Ok("arith.constant") {
        return None;
    }
    IntegerAttribute::try_from(op.attribute("value").ok()?).ok().map(|a| a.value())
}

/// Whether a type is a vector.
pub fn is_vector(ty: Type<'_>) -> bool {
    // SAFETY: a query on a valid type.
    unsafe { mlir_sys::mlirTypeIsAVector(ty.to_raw()) }
}

/// The elements of a one-dimensional vector, 1 for scalars.
pub fn lanes(ty: Type<'_>) -> i64 {
    // SAFETY: the kind is checked first.
    unsafe {
        if !is_vector(ty) {
            return 1;
        }
        let rank = mlir_sys::mlirShapedTypeGetRank(ty.to_raw());
        (0..rank).map(|i| mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), i as isize)).product()
    }
}

/// The element type of a vector or memref; the type itself otherwise.
pub fn element_type(ty: Type<'_>) -> Type<'_> {
    // SAFETY: the kind is checked first.
    unsafe {
        if mlir_sys::mlirTypeIsAShaped(ty.to_raw()) {
            Type::from_raw(mlir_sys::mlirShapedTypeGetElementType(ty.to_raw()))
        } else {
            ty
        }
    }
}

/// `ty`, a scalar or vector type, with another element type.
pub fn with_element<'c>(ty: Type<'c>, element: Type<'c>) -> Type<'c> {
    if !is_vector(ty) {
        return element;
    }
    // SAFETY: rank and sizes come from a vector type.
    unsafe {
        let rank = mlir_sys::mlirShapedTypeGetRank(ty.to_raw());
        let sizes: Vec<i64> =
            (0..rank).map(|i| mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), i as isize)).collect();
        Type::from_raw(mlir_sys::mlirVectorTypeGet(rank as isize, sizes.as_ptr(), element.to_raw()))
    }
}

/// The one-dimensional vector type.
pub fn vector_of<'c>(lanes: i64, element: Type<'c>) -> Type<'c> {
    // SAFETY: one positive size and a valid element type.
    unsafe { Type::from_raw(mlir_sys::mlirVectorTypeGet(1, &lanes, element.to_raw())) }
}
