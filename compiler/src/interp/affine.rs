//! Affine maps as plain data.

use super::scalar::Cell;
use mlir_sys::{MlirAffineExpr, MlirAffineMap};

/// An affine expression over a list of operands: dimensions first, then symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affine {
    /// A number.
    Constant(i64),
    /// An operand.
    Operand(usize),
    /// A sum.
    Add(Box<Affine>, Box<Affine>),
    /// A product.
    Mul(Box<Affine>, Box<Affine>),
    /// The quotient rounded towards minus infinity.
    FloorDiv(Box<Affine>, Box<Affine>),
    /// The quotient rounded towards infinity.
    CeilDiv(Box<Affine>, Box<Affine>),
    /// The remainder in `[0, divisor)`.
    Mod(Box<Affine>, Box<Affine>),
}

impl Affine {
    /// The results of a map.
    pub(super) fn of_map(map: MlirAffineMap) -> Vec<Self> {
        // SAFETY: a valid map; indices below the number of results.
        unsafe {
            let dims = mlir_sys::mlirAffineMapGetNumDims(map) as usize;
            (0..mlir_sys::mlirAffineMapGetNumResults(map))
                .map(|i| Self::of(mlir_sys::mlirAffineMapGetResult(map, i), dims))
                .collect()
        }
    }

    fn of(e: MlirAffineExpr, dims: usize) -> Self {
        // SAFETY: a valid expression; its kind is asked before its parts.
        unsafe {
            if mlir_sys::mlirAffineExprIsAConstant(e) {
                return Self::Constant(mlir_sys::mlirAffineConstantExprGetValue(e));
            }
            if mlir_sys::mlirAffineExprIsADim(e) {
                return Self::Operand(mlir_sys::mlirAffineDimExprGetPosition(e) as usize);
            }
            if mlir_sys::mlirAffineExprIsASymbol(e) {
                return Self::Operand(dims + mlir_sys::mlirAffineSymbolExprGetPosition(e) as usize);
            }
            let a = Box::new(Self::of(mlir_sys::mlirAffineBinaryOpExprGetLHS(e), dims));
            let b = Box::new(Self::of(mlir_sys::mlirAffineBinaryOpExprGetRHS(e), dims));
            if mlir_sys::mlirAffineExprIsAAdd(e) {
                Self::Add(a, b)
            } else if mlir_sys::mlirAffineExprIsAMul(e) {
                Self::Mul(a, b)
            } else if mlir_sys::mlirAffineExprIsAFloorDiv(e) {
                Self::FloorDiv(a, b)
            } else if mlir_sys::mlirAffineExprIsACeilDiv(e) {
                Self::CeilDiv(a, b)
            } else {
                Self::Mod(a, b)
            }
        }
    }

    /// The value; `None` where a divisor is not positive.
    pub(super) fn eval(&self, x: &[Cell]) -> Option<i64> {
        let both = |a: &Self, b: &Self| Some((a.eval(x)?, b.eval(x)?));
        let divide = |a: &Self, b: &Self| both(a, b).filter(|(_, b)| *b > 0);
        Some(match self {
            Self::Constant(c) => *c,
            Self::Operand(i) => x[*i].i(),
            Self::Add(a, b) => both(a, b).map(|(a, b)| a.wrapping_add(b))?,
            Self::Mul(a, b) => both(a, b).map(|(a, b)| a.wrapping_mul(b))?,
            Self::FloorDiv(a, b) => divide(a, b).map(|(a, b)| a.div_euclid(b))?,
            Self::CeilDiv(a, b) => divide(a, b).map(|(a, b)| -(-a).div_euclid(b))?,
            Self::Mod(a, b) => divide(a, b).map(|(a, b)| a.rem_euclid(b))?,
        })
    }
}
