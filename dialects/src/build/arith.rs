//! Types, attributes, constants and index arithmetic, which lowering writes again and again.

use super::{Builder, const_of, element_type, is_vector, with_element};
use melior::ir::attribute::{FloatAttribute, IntegerAttribute};
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, AttributeLike, Type, TypeLike, Value, ValueLike};

impl<'c, 'a> Builder<'c, 'a> {
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
        IntegerAttribute::new(IntegerType::new(self.context, 64).into(), value).into()
    }

    /// `i32` as an attribute.
    pub fn i32_attr(&self, value: i64) -> Attribute<'c> {
        IntegerAttribute::new(IntegerType::new(self.context, 32).into(), value).into()
    }

    /// The unit attribute.
    pub fn unit(&self) -> Attribute<'c> {
        Attribute::unit(self.context)
    }

    /// An integer constant of an integer or index type, or of vectors of them (all elements equal).
    pub fn int(&self, value: i64, ty: Type<'c>) -> Value<'c, 'a> {
        self.splat(IntegerAttribute::new(element_type(ty), value).into(), ty)
    }

    /// A float constant of a float type, or of vectors of it (all elements equal).
    pub fn float(&self, value: f64, ty: Type<'c>) -> Value<'c, 'a> {
        self.splat(FloatAttribute::new(self.context, element_type(ty), value).into(), ty)
    }

    fn splat(&self, element: Attribute<'c>, ty: Type<'c>) -> Value<'c, 'a> {
        let value = if is_vector(ty) {
            // SAFETY: a static vector type and an element of its element type.
            unsafe {
                Attribute::from_raw(mlir_sys::mlirDenseElementsAttrSplatGet(ty.to_raw(), element.to_raw()))
            }
        } else {
            element
        };
        self.value("arith.constant", &[], ty, &[("value", value)])
    }

    /// An `index` constant.
    pub fn index(&self, value: i64) -> Value<'c, 'a> {
        self.int(value, Type::index(self.context))
    }

    /// Sum of two indices. Index arithmetic never wraps: sizes and offsets fit by the rules of the loop level.
    pub fn add(&self, a: Value<'c, 'a>, b: Value<'c, 'a>) -> Value<'c, 'a> {
        match (const_of(a), const_of(b)) {
            (Some(a), Some(b)) => self.index(a + b),
            (Some(0), _) => b,
            (_, Some(0)) => a,
            _ => self.no_wrap("arith.addi", a, b),
        }
    }

    /// Product of two indices.
    pub fn mul(&self, a: Value<'c, 'a>, b: Value<'c, 'a>) -> Value<'c, 'a> {
        match (const_of(a), const_of(b)) {
            (Some(a), Some(b)) => self.index(a * b),
            (Some(0), _) | (_, Some(1)) => a,
            (_, Some(0)) | (Some(1), _) => b,
            _ => self.no_wrap("arith.muli", a, b),
        }
    }

    fn no_wrap(&self, name: &str, a: Value<'c, 'a>, b: Value<'c, 'a>) -> Value<'c, 'a> {
        self.value(name, &[a, b], a.r#type(), &[("overflowFlags", self.attr("#arith.overflow<nsw>"))])
    }

    /// `arith.cmpi` with a predicate of MLIR's numbering (0 eq, 1 ne, 2 slt, 3 sle, 4 sgt, 5 sge, 6 ult, …).
    pub fn cmpi(&self, predicate: i64, a: Value<'c, 'a>, b: Value<'c, 'a>) -> Value<'c, 'a> {
        self.compare("arith.cmpi", predicate, a, b)
    }

    /// A comparison (`arith.cmpi`, `arith.cmpf`) with MLIR's number of the predicate.
    pub fn compare(&self, name: &str, predicate: i64, a: Value<'c, 'a>, b: Value<'c, 'a>) -> Value<'c, 'a> {
        let ty = self.bool_like(a.r#type());
        self.value(name, &[a, b], ty, &[("predicate", self.i64_attr(predicate))])
    }

    /// `i1`, or the vector of `i1` with as many elements as `ty` has.
    pub fn bool_like(&self, ty: Type<'c>) -> Type<'c> {
        with_element(ty, IntegerType::new(self.context, 1).into())
    }

    /// `arith.select`.
    pub fn select(&self, condition: Value<'c, 'a>, yes: Value<'c, 'a>, no: Value<'c, 'a>) -> Value<'c, 'a> {
        self.value("arith.select", &[condition, yes, no], yes.r#type(), &[])
    }
}
