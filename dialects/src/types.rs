//! Tensor types as plain data.

use crate::affine::{dims_attribute, dims_of};
use melior::Context;
use melior::ir::r#type::{IntegerType, RankedTensorType};
use melior::ir::{ShapedTypeLike, Type, TypeLike};
use std::fmt;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// Element type and shape of a tensor. Sizes are expressions over the symbols of the enclosing function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub shape: Vec<Expr>,
}

impl TensorType {
    /// A tensor type.
    pub fn new(dtype: DType, shape: impl IntoIterator<Item = impl Into<Expr>>) -> Self {
        Self { dtype, shape: shape.into_iter().map(Into::into).collect() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> Expr {
        self.shape.iter().cloned().product()
    }

    /// The same shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self { dtype, shape: self.shape.clone() }
    }

    /// The shape as numbers, where no symbol occurs.
    pub fn static_shape(&self) -> Option<Vec<usize>> {
        self.shape.iter().map(|e| e.as_const().map(|c| c as usize)).collect()
    }

    /// The plain form of an MLIR type; an error says what is not a graph tensor about it.
    pub fn from_mlir(ty: Type<'_>) -> Result<Self, String> {
        let tensor =
            RankedTensorType::try_from(ty).map_err(|_| format!("expected a ranked tensor, got '{ty}'"))?;
        let dtype = dtype_of(tensor.element())?;
        let dims = tensor.encoding().and_then(dims_of);
        let mut shape = Vec::with_capacity(tensor.rank());
        for i in 0..tensor.rank() {
            // SAFETY of the raw calls: `i` is below the rank.
            let (dynamic, size) = unsafe {
                (
                    mlir_sys::mlirShapedTypeIsDynamicDim(ty.to_raw(), i as isize),
                    mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), i as isize),
                )
            };
            shape.push(match (&dims, dynamic) {
                (Some(dims), _) if dims.len() != tensor.rank() => {
                    return Err(format!(
                        "'{ty}' has {} dimensions but {} expressions",
                        tensor.rank(),
                        dims.len()
                    ));
                }
                (Some(dims), true) => dims[i].clone(),
                (Some(dims), false) if dims[i] != Expr::from(size) => {
                    return Err(format!(
                        "dimension {i} of '{ty}' is {size}, but its expression says {}",
                        dims[i]
                    ));
                }
                (_, false) => Expr::from(size),
                (None, true) => {
                    return Err(format!(
                        "dimension {i} of '{ty}' is dynamic without an expression; write #graph.dims<…>"
                    ));
                }
            });
        }
        Ok(Self { dtype, shape })
    }

    /// The MLIR type. An error names the size that is not affine in the symbols (give it a symbol of its own).
    pub fn to_mlir<'c>(&self, context: &'c Context) -> Result<Type<'c>, String> {
        let sizes: Vec<u64> = self.shape.iter().map(|e| e.as_const().map_or(DYNAMIC, |c| c as u64)).collect();
        let encoding = if self.static_shape().is_some() {
            None
        } else {
            Some(
                dims_attribute(context, &self.shape)
                    .ok_or_else(|| format!("a size of {self} is not affine"))?,
            )
        };
        Ok(RankedTensorType::new(&sizes, dtype_to_mlir(context, self.dtype), encoding).into())
    }
}

/// MLIR's marker of a dynamic size.
pub const DYNAMIC: u64 = i64::MIN as u64;

/// The element type behind an MLIR scalar type.
pub fn dtype_of(ty: Type<'_>) -> Result<DType, String> {
    if ty.is_f32() {
        Ok(DType::F32)
    } else if ty.is_f64() {
        Ok(DType::F64)
    } else if ty.is_f16() {
        Ok(DType::F16)
    } else if unsafe { mlir_sys::mlirTypeIsABF16(ty.to_raw()) } {
        // SAFETY of the queries, here and below: the type is valid.
        Ok(DType::BF16)
    } else if unsafe { mlir_sys::mlirTypeIsAFloat8E4M3FN(ty.to_raw()) } {
        Ok(DType::F8E4M3)
    } else if unsafe { mlir_sys::mlirTypeIsAFloat8E5M2(ty.to_raw()) } {
        Ok(DType::F8E5M2)
    } else {
        let integer = IntegerType::try_from(ty).ok().map(|i| (i.width(), i.is_signless(), i.is_unsigned()));
        match integer {
            Some((64, true, _)) => Ok(DType::I64),
            Some((32, true, _)) => Ok(DType::I32),
            Some((16, true, _)) => Ok(DType::I16),
            Some((8, true, _)) => Ok(DType::I8),
            Some((8, _, true)) => Ok(DType::U8),
            Some((1, true, _)) => Ok(DType::I1),
            _ => Err(format!(
                "element type '{ty}' is not supported; known: {}",
                DType::ALL.map(DType::name).join(", ")
            )),
        }
    }
}

/// The MLIR scalar type of an element type.
pub fn dtype_to_mlir(context: &Context, dtype: DType) -> Type<'_> {
    match dtype {
        DType::F64 => Type::float64(context),
        DType::F32 => Type::float32(context),
        DType::F16 => Type::float16(context),
        DType::BF16 => Type::bfloat16(context),
        // SAFETY: types of a live context.
        DType::F8E4M3 => unsafe { Type::from_raw(mlir_sys::mlirFloat8E4M3FNTypeGet(context.to_raw())) },
        DType::F8E5M2 => unsafe { Type::from_raw(mlir_sys::mlirFloat8E5M2TypeGet(context.to_raw())) },
        DType::I64 => IntegerType::new(context, 64).into(),
        DType::I32 => IntegerType::new(context, 32).into(),
        DType::I16 => IntegerType::new(context, 16).into(),
        DType::I8 => IntegerType::new(context, 8).into(),
        DType::U8 => IntegerType::unsigned(context, 8).into(),
        DType::I1 => IntegerType::new(context, 1).into(),
    }
}

/// `f32[s0, 128]`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, e) in self.shape.iter().enumerate() {
            write!(f, "{}{e}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}
