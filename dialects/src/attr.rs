//! Attributes of graph ops as plain data.

use crate::affine::{dims_attribute, dims_of};
use crate::reference::RefTensor;
use melior::Context;
use melior::ir::attribute::{
    BoolAttribute, DenseI64ArrayAttribute, FlatSymbolRefAttribute, FloatAttribute, IntegerAttribute,
    StringAttribute,
};
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, AttributeLike, Type, TypeLike};
use mlir_sys::MlirAttribute;
use strata_runtime::sym::Expr;

unsafe extern "C" {
    fn strataElementsData(
        attribute: MlirAttribute,
        data: *mut *const u8,
        size: *mut usize,
        splat: *mut bool,
    ) -> bool;
}

/// An attribute of a graph op.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// `I64Attr`.
    Int(i64),
    /// An enum case by its number (`I32EnumAttr`).
    Enum(i32),
    /// `F64Attr`.
    Float(f64),
    /// `BoolAttr`.
    Bool(bool),
    /// `StrAttr`.
    Str(String),
    /// `FlatSymbolRefAttr`, without the `@`.
    Symbol(String),
    /// `DenseI64ArrayAttr`.
    Ints(Vec<i64>),
    /// `DenseF64ArrayAttr`.
    Floats(Vec<f64>),
    /// `#graph.dims<…>`.
    Dims(Vec<Expr>),
    /// Elements of a constant.
    Elements(Elements),
}

/// The elements of a constant, still in the context's memory: large weights are not copied to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Elements(MlirAttribute);

impl PartialEq for Elements {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: both attributes live as long as their context, which outlives every view.
        unsafe { mlir_sys::mlirAttributeEqual(self.0, other.0) }
    }
}

impl Elements {
    /// The attribute behind it.
    pub fn attribute<'c>(self) -> Attribute<'c> {
        // SAFETY: made from a valid attribute.
        unsafe { Attribute::from_raw(self.0) }
    }

    /// The raw bytes, little-endian, row-major, one byte an `i1`; and whether they hold one element that stands for all.
    pub fn bytes(&self) -> Option<(Vec<u8>, bool)> {
        // Dense i1 elements may be packed in bits: read them one by one.
        let ty = self.attribute().r#type();
        // SAFETY: queries on valid attributes, indices below the number of elements.
        unsafe {
            if mlir_sys::mlirAttributeIsADenseElements(self.0)
                && crate::types::dtype_of(Type::from_raw(mlir_sys::mlirShapedTypeGetElementType(ty.to_raw())))
                    == Ok(strata_runtime::DType::I1)
            {
                let n = mlir_sys::mlirElementsAttrGetNumElements(self.0);
                return Some((
                    (0..n)
                        .map(|i| mlir_sys::mlirDenseElementsAttrGetBoolValue(self.0, i as isize) as u8)
                        .collect(),
                    false,
                ));
            }
        }
        let (mut data, mut size, mut splat) = (std::ptr::null(), 0, false);
        // SAFETY: the callee fills in a slice that lives as long as the context.
        unsafe {
            if !strataElementsData(self.0, &mut data, &mut size, &mut splat) {
                return None;
            }
            let bytes = if size == 0 { Vec::new() } else { std::slice::from_raw_parts(data, size).to_vec() };
            Some((bytes, splat))
        }
    }

    /// The values as a reference tensor.
    pub fn tensor(&self) -> Result<RefTensor, String> {
        let ty = crate::types::TensorType::from_mlir(self.attribute().r#type())?;
        let shape = ty.static_shape().ok_or("a constant has a static shape")?;
        let (bytes, splat) = self
            .bytes()
            .ok_or("this kind of elements attribute cannot be read; use dense or dense_resource")?;
        RefTensor::from_bytes(ty.dtype, &shape, &bytes, splat)
    }
}

impl Attr {
    /// The plain form of an MLIR attribute; `None` for kinds that graph ops do not use.
    pub fn from_mlir(attribute: Attribute<'_>) -> Option<Self> {
        if let Some(dims) = dims_of(attribute) {
            return Some(Self::Dims(dims));
        }
        // Before what follows: a conversion of melior that fails prints the attribute into its error, all weights of it.
        // SAFETY: a query on a valid attribute.
        if unsafe { mlir_sys::mlirAttributeIsAElements(attribute.to_raw()) } {
            return Some(Self::Elements(Elements(attribute.to_raw())));
        }
        if let Ok(a) = BoolAttribute::try_from(attribute) {
            return Some(Self::Bool(a.value()));
        }
        if let Ok(a) = IntegerAttribute::try_from(attribute) {
            let width = IntegerType::try_from(attribute.r#type()).map_or(64, |t| t.width());
            return Some(if width == 32 { Self::Enum(a.value() as i32) } else { Self::Int(a.value()) });
        }
        if let Ok(a) = FloatAttribute::try_from(attribute) {
            return Some(Self::Float(a.value()));
        }
        if let Ok(a) = DenseI64ArrayAttribute::try_from(attribute) {
            return Some(Self::Ints((0..a.len()).map(|i| a.element(i).expect("in range")).collect()));
        }
        // SAFETY: the kind is checked first, indices are below the number of elements.
        unsafe {
            let raw = attribute.to_raw();
            if mlir_sys::mlirAttributeIsADenseF64Array(raw) {
                let n = mlir_sys::mlirDenseArrayGetNumElements(raw);
                return Some(Self::Floats(
                    (0..n).map(|i| mlir_sys::mlirDenseF64ArrayGetElement(raw, i)).collect(),
                ));
            }
        }
        if let Ok(a) = FlatSymbolRefAttribute::try_from(attribute) {
            return Some(Self::Symbol(a.value().to_owned()));
        }
        StringAttribute::try_from(attribute).ok().map(|a| Self::Str(text(a)))
    }

    /// The MLIR attribute. `None` where an expression is not affine.
    pub fn to_mlir<'c>(&self, context: &'c Context) -> Option<Attribute<'c>> {
        Some(match self {
            Self::Int(v) => IntegerAttribute::new(IntegerType::new(context, 64).into(), *v).into(),
            Self::Enum(v) => {
                IntegerAttribute::new(IntegerType::new(context, 32).into(), i64::from(*v)).into()
            }
            Self::Float(v) => FloatAttribute::new(context, Type::float64(context), *v).into(),
            Self::Bool(v) => BoolAttribute::new(context, *v).into(),
            Self::Str(s) => StringAttribute::new(context, s).into(),
            Self::Symbol(s) => FlatSymbolRefAttribute::new(context, s).into(),
            Self::Ints(v) => DenseI64ArrayAttribute::new(context, v).into(),
            // SAFETY: as many numbers as is said; MLIR copies them.
            Self::Floats(v) => unsafe {
                Attribute::from_raw(mlir_sys::mlirDenseF64ArrayGet(
                    context.to_raw(),
                    v.len() as isize,
                    v.as_ptr(),
                ))
            },
            Self::Dims(exprs) => dims_attribute(context, exprs)?,
            Self::Elements(e) => e.attribute(),
        })
    }
}

/// The text of a string attribute. (An empty one has no data pointer, which melior's `value` does not allow for.)
pub fn text(a: StringAttribute<'_>) -> String {
    // SAFETY: a string attribute; the bytes live as long as the context, and are UTF-8 as those of every attribute here.
    unsafe {
        let s = mlir_sys::mlirStringAttrGetValue(a.to_raw());
        if s.length == 0 {
            return String::new();
        }
        String::from_utf8_lossy(std::slice::from_raw_parts(s.data.cast(), s.length)).into_owned()
    }
}

/// A dense elements attribute of type `ty` with the values of a reference tensor.
pub fn dense<'c>(context: &'c Context, ty: Type<'c>, value: &RefTensor) -> Attribute<'c> {
    let bytes = value.to_bytes();
    dense_from_bytes(context, ty, value.dtype, &bytes)
}

/// A dense elements attribute from little-endian bytes, one byte an `i1`.
pub fn dense_from_bytes<'c>(
    _: &'c Context,
    ty: Type<'c>,
    dtype: strata_runtime::DType,
    bytes: &[u8],
) -> Attribute<'c> {
    // SAFETY: the buffer holds as many elements as the type says; MLIR copies it.
    unsafe {
        Attribute::from_raw(if dtype == strata_runtime::DType::I1 {
            let values: Vec<i32> = bytes.iter().map(|&b| i32::from(b != 0)).collect();
            mlir_sys::mlirDenseElementsAttrBoolGet(ty.to_raw(), values.len() as isize, values.as_ptr())
        } else {
            mlir_sys::mlirDenseElementsAttrRawBufferGet(ty.to_raw(), bytes.len(), bytes.as_ptr().cast())
        })
    }
}
