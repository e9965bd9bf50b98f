//! Building IR: one builder for every level, and one for the bodies of pointwise ops.

use crate::attr::Attr;
use crate::spec::Violation;
use crate::types::{TensorType, dtype_of, dtype_to_mlir};
use crate::view::OpView;
use melior::Context;
use melior::ir::attribute::{FloatAttribute, IntegerAttribute};
use melior::ir::operation::{OperationBuilder, OperationLike, OperationRef};
use melior::ir::r#type::IntegerType;
use melior::ir::{
    Attribute, BlockLike, BlockRef, Identifier, Location, Region, Type, TypeLike, Value, ValueLike,
};
use strata_runtime::DType;

/// Appends ops to a block, or inserts them before an op.
#[derive(Clone, Copy)]
pub struct Builder<'c, 'a> {
    /// The context of everything built.
    pub context: &'c Context,
    /// Where ops go.
    pub block: BlockRef<'c, 'a>,
    /// Ops are inserted before this one; at the end of the block where it is `None`.
    pub before: Option<OperationRef<'c, 'a>>,
    /// The location that new ops get.
    pub location: Location<'c>,
}

impl<'c, 'a> Builder<'c, 'a> {
    /// A builder that appends to `block`.
    pub fn at_end(context: &'c Context, block: BlockRef<'c, 'a>, location: Location<'c>) -> Self {
        Self { context, block, before: None, location }
    }

    /// A builder that inserts before `op`, with its location.
    pub fn before(context: &'c Context, op: OperationRef<'c, 'a>) -> Self {
        let block = op.block().expect("an op to insert before is in a block");
        Self { context, block, before: Some(op), location: op.location() }
    }

    /// The same builder with another location.
    pub fn at(self, location: Location<'c>) -> Self {
        Self { location, ..self }
    }

    /// Builds an op of any dialect with stated result types. Panics where MLIR refuses to build it, which only a bug of the
    /// caller can cause.
    pub fn op(
        &self,
        name: &str,
        operands: &[Value<'c, 'a>],
        results: &[Type<'c>],
        attributes: &[(&str, Attribute<'c>)],
        regions: Vec<Region<'c>>,
    ) -> OperationRef<'c, 'a> {
        let attributes: Vec<_> =
            attributes.iter().map(|(n, a)| (Identifier::new(self.context, n), *a)).collect();
        let op = OperationBuilder::new(name, self.location)
            .add_operands(operands)
            .add_results(results)
            .add_attributes(&attributes)
            .add_regions_vec(regions)
            .build()
            .unwrap_or_else(|e| panic!("cannot build '{name}': {e}"));
        match self.before {
            None => self.block.append_operation(op),
            Some(before) => self.block.insert_operation_before(before, op),
        }
    }

    /// Builds an op with one result and no region.
    pub fn value(
        &self,
        name: &str,
        operands: &[Value<'c, 'a>],
        result: Type<'c>,
        attributes: &[(&str, Attribute<'c>)],
    ) -> Value<'c, 'a> {
        result0(self.op(name, operands, &[result], attributes, vec![]))
    }

    /// Builds a graph op (name without the dialect) whose result types follow from its operands.
    pub fn graph(
        &self,
        mnemonic: &str,
        operands: &[Value<'c, 'a>],
        attrs: &[(&str, Attr)],
    ) -> Result<Vec<Value<'c, 'a>>, Violation> {
        self.graph_as(mnemonic, operands, attrs, &[])
    }

    /// Builds a graph op with one result.
    pub fn graph1(
        &self,
        mnemonic: &str,
        operands: &[Value<'c, 'a>],
        attrs: &[(&str, Attr)],
    ) -> Result<Value<'c, 'a>, Violation> {
        Ok(self.graph(mnemonic, operands, attrs)?[0])
    }

    /// Builds a graph op that states its result types (`cast`, `broadcast`, `reshape`, `iota`, `call`, …). Every constraint is checked
    /// before anything is built.
    pub fn graph_as(
        &self,
        mnemonic: &str,
        operands: &[Value<'c, 'a>],
        attrs: &[(&str, Attr)],
        results: &[TensorType],
    ) -> Result<Vec<Value<'c, 'a>>, Violation> {
        let name = format!("graph.{mnemonic}");
        let spec = crate::ops::lookup(&name).unwrap_or_else(|| panic!("'{name}' is not in the op table"));
        let bad = |m: String| Violation { constraint: "type", message: m };
        let mut sorted: Vec<_> = attrs.iter().map(|(n, a)| ((*n).to_owned(), a.clone())).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        let view = OpView {
            spec,
            operands: operands
                .iter()
                .map(|v| TensorType::from_mlir(v.r#type()))
                .collect::<Result<_, _>>()
                .map_err(bad)?,
            results: results.to_vec(),
            attrs: sorted,
        };
        let inferred = (spec.infer)(&view)?;
        let types =
            inferred.iter().map(|t| t.to_mlir(self.context)).collect::<Result<Vec<_>, _>>().map_err(bad)?;
        let attributes = attrs
            .iter()
            .map(|(n, a)| Some((*n, a.to_mlir(self.context)?)))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| bad(format!("{name}: an attribute's expression is not affine")))?;
        let op = self.op(&name, operands, &types, &attributes, vec![]);
        Ok(op.results().map(Into::into).collect())
    }

    /// The type of a value as plain data; panics on anything but a graph tensor.
    pub fn ty(&self, v: Value<'c, 'a>) -> TensorType {
        TensorType::from_mlir(v.r#type()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// `arith.constant` of an index.
    pub fn index(&self, value: i64) -> Value<'c, 'a> {
        let ty = Type::index(self.context);
        self.value("arith.constant", &[], ty, &[("value", IntegerAttribute::new(ty, value).into())])
    }
}

/// The only (or first) result of an op.
pub fn result0<'c, 'a>(op: OperationRef<'c, 'a>) -> Value<'c, 'a> {
    op.result(0).expect("the op has a result").into()
}

/// Emits the body of a pointwise op: `arith` and `math` on scalars, or on vectors of them (all values then have one length).
///
/// Floats narrower than 32 bits are extended to f32 for arithmetic and truncated at the end, so that each op rounds once in its
/// own type. `fast` marks the conversions `fastmath<contract>`, which lets later folding keep f32 between fused ops.
#[derive(Clone, Copy)]
pub struct BodyBuilder<'c, 'a> {
    /// Where ops go.
    pub b: Builder<'c, 'a>,
    /// Whether conversions may be folded away between fused ops (default numerics), or not (`strict`).
    pub fast: bool,
}

impl<'c, 'a> BodyBuilder<'c, 'a> {
    /// The element type of a scalar or vector value.
    pub fn dtype(&self, v: Value<'c, 'a>) -> DType {
        dtype_of(element(v.r#type())).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The type with the same vector length as `like` and element type `dtype`.
    pub fn like(&self, like: Value<'c, 'a>, dtype: DType) -> Type<'c> {
        with_element(like.r#type(), dtype_to_mlir(self.b.context, dtype))
    }

    fn fastmath(&self) -> Vec<(&'static str, Attribute<'c>)> {
        if self.fast {
            vec![(
                "fastmath",
                Attribute::parse(self.b.context, "#arith.fastmath<contract>").expect("valid attribute"),
            )]
        } else {
            vec![]
        }
    }

    /// An op with one operand of the same type as its result.
    pub fn unary(&self, name: &str, x: Value<'c, 'a>) -> Value<'c, 'a> {
        self.b.value(name, &[x], x.r#type(), &self.flags(name))
    }

    /// An op with two operands of the same type as its result.
    pub fn binary(&self, name: &str, x: Value<'c, 'a>, y: Value<'c, 'a>) -> Value<'c, 'a> {
        self.b.value(name, &[x, y], x.r#type(), &self.flags(name))
    }

    /// Contraction into fused multiply-adds is allowed in the default numerics only; integer ops have no such flag.
    fn flags(&self, name: &str) -> Vec<(&'static str, Attribute<'c>)> {
        let float = name.starts_with("math.") && !name.ends_with('i') || name.ends_with('f');
        if float { self.fastmath() } else { vec![] }
    }

    /// A float constant of the type of `like`.
    pub fn float(&self, like: Value<'c, 'a>, x: f64) -> Value<'c, 'a> {
        self.splat(like.r#type(), FloatAttribute::new(self.b.context, element(like.r#type()), x).into())
    }

    /// An integer constant of the type of `like`.
    pub fn int(&self, like: Value<'c, 'a>, x: i64) -> Value<'c, 'a> {
        self.splat(like.r#type(), IntegerAttribute::new(element(like.r#type()), x).into())
    }

    fn splat(&self, ty: Type<'c>, element: Attribute<'c>) -> Value<'c, 'a> {
        let value = if ty.is_vector() {
            melior::ir::attribute::DenseElementsAttribute::splat(ty, element).into()
        } else {
            element
        };
        self.b.value("arith.constant", &[], ty, &[("value", value)])
    }

    /// `arith.cmpf` / `arith.cmpi` with MLIR's number of the predicate.
    pub fn compare(&self, name: &str, predicate: i64, x: Value<'c, 'a>, y: Value<'c, 'a>) -> Value<'c, 'a> {
        let p = IntegerAttribute::new(IntegerType::new(self.b.context, 64).into(), predicate).into();
        self.b.value(name, &[x, y], self.like(x, DType::I1), &[("predicate", p)])
    }

    /// `arith.select`.
    pub fn select(&self, c: Value<'c, 'a>, x: Value<'c, 'a>, y: Value<'c, 'a>) -> Value<'c, 'a> {
        self.b.value("arith.select", &[c, x, y], x.r#type(), &[])
    }

    /// Conversion between element types: floats round to nearest even, float to integer truncates towards zero and saturates,
    /// anything to `i1` compares with zero.
    pub fn cast(&self, x: Value<'c, 'a>, to: DType) -> Value<'c, 'a> {
        crate::scalar::emit_cast(self, x, to)
    }

    /// `x` in the type that arithmetic happens in: f32 for f16 and bf16, itself otherwise.
    pub fn wide(&self, x: Value<'c, 'a>) -> Value<'c, 'a> {
        match self.dtype(x) {
            DType::F16 | DType::BF16 => {
                self.b.value("arith.extf", &[x], self.like(x, DType::F32), &self.fastmath())
            }
            _ => x,
        }
    }

    /// `x` rounded to `dtype`, if it is wider.
    pub fn narrow(&self, x: Value<'c, 'a>, dtype: DType) -> Value<'c, 'a> {
        if self.dtype(x) == dtype {
            return x;
        }
        self.b.value("arith.truncf", &[x], self.like(x, dtype), &self.fastmath())
    }
}

/// The element type of a vector, or the scalar type itself.
pub fn element(ty: Type<'_>) -> Type<'_> {
    if ty.is_vector() {
        // SAFETY: vectors are shaped types.
        unsafe { Type::from_raw(mlir_sys::mlirShapedTypeGetElementType(ty.to_raw())) }
    } else {
        ty
    }
}

/// `ty` with another element type.
pub fn with_element<'c>(ty: Type<'c>, element: Type<'c>) -> Type<'c> {
    if !ty.is_vector() {
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
