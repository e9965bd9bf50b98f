//! Building ops at a place, with the few constants and index sums that lowering writes again and again.

use melior::Context;
use melior::ir::attribute::{FloatAttribute, IntegerAttribute};
use melior::ir::operation::{OperationBuilder, OperationLike, OperationRef};
use melior::ir::{
    Attribute, AttributeLike, Identifier, Location, Operation, Region, Type, TypeLike, Value, ValueLike,
};
use mlir_sys::{MlirBlock, MlirOperation};

/// A value in the module that is being built. Handles are only valid while the op that made them lives.
pub type Val<'c> = Value<'c, 'c>;

#[derive(Clone, Copy)]
enum At {
    End(MlirBlock),
    Before(MlirOperation),
}

/// Builds ops at one place: the end of a block, or before an op.
#[derive(Clone, Copy)]
pub struct Builder<'c> {
    /// The module's context.
    pub context: &'c Context,
    /// The location given to new ops.
    pub location: Location<'c>,
    at: At,
}

impl<'c> Builder<'c> {
    /// Appends to `block`.
    pub fn at_end(context: &'c Context, block: MlirBlock, location: Location<'c>) -> Self {
        Self { context, location, at: At::End(block) }
    }

    /// Inserts before `op`, with its location.
    pub fn before(context: &'c Context, op: &OperationRef<'c, '_>) -> Self {
        Self { context, location: op.location(), at: At::Before(op.to_raw()) }
    }

    /// The same place with another location.
    #[must_use]
    pub fn located(mut self, location: Location<'c>) -> Self {
        self.location = location;
        self
    }

    /// Puts a detached op there.
    pub fn insert(&self, op: Operation<'c>) -> OperationRef<'c, 'c> {
        let raw = op.into_raw();
        // SAFETY: the block or op is alive while the builder is used, and owns `raw` from here on.
        unsafe {
            match self.at {
                At::End(block) => mlir_sys::mlirBlockAppendOwnedOperation(block, raw),
                At::Before(next) => {
                    mlir_sys::mlirBlockInsertOwnedOperationBefore(
                        mlir_sys::mlirOperationGetBlock(next),
                        next,
                        raw,
                    );
                }
            }
            OperationRef::from_raw(raw)
        }
    }

    /// A new op with regions.
    pub fn op_with(
        &self,
        name: &str,
        operands: &[Val<'c>],
        attributes: &[(&str, Attribute<'c>)],
        results: &[Type<'c>],
        regions: Vec<Region<'c>>,
    ) -> OperationRef<'c, 'c> {
        let attributes: Vec<_> =
            attributes.iter().map(|(k, v)| (Identifier::new(self.context, k), *v)).collect();
        let op = OperationBuilder::new(name, self.location)
            .add_operands(operands)
            .add_attributes(&attributes)
            .add_results(results)
            .add_regions_vec(regions)
            .build()
            .unwrap_or_else(|_| panic!("building {name}: operands, results or attributes do not fit"));
        self.insert(op)
    }

    /// A new op.
    pub fn op(
        &self,
        name: &str,
        operands: &[Val<'c>],
        attributes: &[(&str, Attribute<'c>)],
        results: &[Type<'c>],
    ) -> OperationRef<'c, 'c> {
        self.op_with(name, operands, attributes, results, Vec::new())
    }

    /// The value of a new op with one result.
    pub fn value(
        &self,
        name: &str,
        operands: &[Val<'c>],
        attributes: &[(&str, Attribute<'c>)],
        result: Type<'c>,
    ) -> Val<'c> {
        result_of(self.op(name, operands, attributes, &[result]), 0)
    }

    /// A type from its text. Panics where the text is wrong: it is always a literal of the compiler.
    pub fn ty(&self, text: &str) -> Type<'c> {
        Type::parse(self.context, text).unwrap_or_else(|| panic!("type {text}"))
    }

    /// An attribute from its text. Panics where the text is wrong: it is always a literal of the compiler.
    pub fn attr(&self, text: &str) -> Attribute<'c> {
        Attribute::parse(self.context, text).unwrap_or_else(|| panic!("attribute {text}"))
    }

    /// `i64` as an attribute.
    pub fn i64_attr(&self, value: i64) -> Attribute<'c> {
        IntegerAttribute::new(self.ty("i64"), value).into()
    }

    /// `i32` as an attribute.
    pub fn i32_attr(&self, value: i64) -> Attribute<'c> {
        IntegerAttribute::new(self.ty("i32"), value).into()
    }

    /// The unit attribute.
    pub fn unit(&self) -> Attribute<'c> {
        Attribute::unit(self.context)
    }

    /// An integer constant of an integer or index type, or of vectors of them (all elements equal).
    pub fn int(&self, value: i64, ty: Type<'c>) -> Val<'c> {
        self.constant(IntegerAttribute::new(element_type(ty), value).into(), ty)
    }

    /// A float constant of a float type, or of vectors of it (all elements equal).
    pub fn float(&self, value: f64, ty: Type<'c>) -> Val<'c> {
        self.constant(FloatAttribute::new(self.context, element_type(ty), value).into(), ty)
    }

    fn constant(&self, element: Attribute<'c>, ty: Type<'c>) -> Val<'c> {
        let value = if is_vector(ty) {
            // SAFETY: a static vector type and an element of its element type.
            unsafe {
                Attribute::from_raw(mlir_sys::mlirDenseElementsAttrSplatGet(ty.to_raw(), element.to_raw()))
            }
        } else {
            element
        };
        self.value("arith.constant", &[], &[("value", value)], ty)
    }

    /// An `index` constant.
    pub fn index(&self, value: i64) -> Val<'c> {
        self.int(value, Type::index(self.context))
    }

    /// Sum of two indices. Index arithmetic never wraps: sizes and offsets fit by the rules of the loop level.
    pub fn add(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        match (const_of(a), const_of(b)) {
            (Some(a), Some(b)) => self.index(a + b),
            (Some(0), _) => b,
            (_, Some(0)) => a,
            _ => self.value(
                "arith.addi",
                &[a, b],
                &[("overflowFlags", self.attr("#arith.overflow<nsw>"))],
                a.r#type(),
            ),
        }
    }

    /// Product of two indices.
    pub fn mul(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        match (const_of(a), const_of(b)) {
            (Some(a), Some(b)) => self.index(a * b),
            (Some(0), _) | (_, Some(1)) => a,
            (_, Some(0)) | (Some(1), _) => b,
            _ => self.value(
                "arith.muli",
                &[a, b],
                &[("overflowFlags", self.attr("#arith.overflow<nsw>"))],
                a.r#type(),
            ),
        }
    }

    /// `arith.cmpi` with a predicate of MLIR's numbering (0 eq, 1 ne, 2 slt, 3 sle, 4 sgt, 5 sge, 6 ult, …).
    pub fn cmpi(&self, predicate: i64, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.value(
            "arith.cmpi",
            &[a, b],
            &[("predicate", self.i64_attr(predicate))],
            self.bool_like(a.r#type()),
        )
    }

    /// `i1`, or the vector of `i1` with as many elements as `ty` has.
    pub fn bool_like(&self, ty: Type<'c>) -> Type<'c> {
        with_element(ty, self.ty("i1"))
    }

    /// `arith.select`.
    pub fn select(&self, condition: Val<'c>, yes: Val<'c>, no: Val<'c>) -> Val<'c> {
        self.value("arith.select", &[condition, yes, no], &[], yes.r#type())
    }
}

/// The `i`-th result of an op.
pub fn result_of<'c>(op: OperationRef<'c, 'c>, i: usize) -> Val<'c> {
    op.result(i).expect("an op with that many results").into()
}

/// The op that made a value; `None` for block arguments.
pub fn defining<'c>(value: Val<'c>) -> Option<OperationRef<'c, 'c>> {
    // SAFETY: a query on a live value.
    unsafe {
        mlir_sys::mlirValueIsAOpResult(value.to_raw())
            .then(|| OperationRef::from_raw(mlir_sys::mlirOpResultGetOwner(value.to_raw())))
    }
}

/// The number behind an `arith.constant` of an integer or index.
pub fn const_of(value: Val<'_>) -> Option<i64> {
    let op = defining(value)?;
    if crate::ir::name(&op) != "arith.constant" {
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

/// `ty` with another element type.
pub fn with_element<'c>(ty: Type<'c>, element: Type<'c>) -> Type<'c> {
    if is_vector(ty) { vector_of(lanes(ty), element) } else { element }
}

/// The one-dimensional vector type.
pub fn vector_of<'c>(lanes: i64, element: Type<'c>) -> Type<'c> {
    // SAFETY: one positive size and a valid element type.
    unsafe { Type::from_raw(mlir_sys::mlirVectorTypeGet(1, &lanes, element.to_raw())) }
}
