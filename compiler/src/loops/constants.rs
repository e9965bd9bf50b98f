//! The elements of small constants, which kernels hold.

use melior::ir::{Attribute, AttributeLike, Type, TypeLike};

/// Constants with more different elements than this stay outside of kernels.
pub const MOST_ELEMENTS: i64 = 64;

/// The elements of a dense constant: one where all are equal; `None` where there are too many.
pub fn elements_of(a: Attribute<'_>) -> Option<Vec<Attribute<'_>>> {
    let raw = a.to_raw();
    // SAFETY: the kind is checked first; positions are in range.
    unsafe {
        if !mlir_sys::mlirAttributeIsADenseElements(raw) {
            return None;
        }
        let n = mlir_sys::mlirElementsAttrGetNumElements(raw);
        if n == 0 {
            return Some(vec![]);
        }
        if mlir_sys::mlirDenseElementsAttrIsSplat(raw) {
            return Some(vec![Attribute::from_raw(mlir_sys::mlirDenseElementsAttrGetSplatValue(raw))]);
        }
        if n > MOST_ELEMENTS {
            return None;
        }
        let ty = Type::from_raw(mlir_sys::mlirAttributeGetType(raw));
        let rank = mlir_sys::mlirShapedTypeGetRank(ty.to_raw());
        let sizes: Vec<i64> =
            (0..rank).map(|d| mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), d as isize)).collect();
        Some(
            (0..n)
                .map(|i| {
                    let mut rest = i;
                    let mut at: Vec<u64> = sizes
                        .iter()
                        .rev()
                        .map(|s| {
                            let k = rest % s;
                            rest /= s;
                            k as u64
                        })
                        .collect();
                    at.reverse();
                    Attribute::from_raw(mlir_sys::mlirElementsAttrGetValue(
                        raw,
                        rank as isize,
                        at.as_mut_ptr(),
                    ))
                })
                .collect(),
        )
    }
}
