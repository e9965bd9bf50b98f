//! Narrow floats that kernels only move become integers of 16 bits: LLVM passes single ones through f32, by library calls.

use crate::driver::pass::Failure;
use crate::ir::{erase, name, ops};
use melior::Context;
use melior::ir::attribute::{DenseElementsAttribute, FloatAttribute, IntegerAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationMutLike, OperationRef, OperationRefMut};
use melior::ir::r#type::IntegerType;
use melior::ir::{
    Attribute, AttributeLike, BlockLike, BlockRef, RegionLike, Type, TypeLike, Value, ValueLike,
};
use strata_dialects::build::{element_type, with_element};

/// Ops that move values without looking at them.
const MOVES: &[&str] = &[
    "arith.select",
    "arith.constant",
    "arith.bitcast",
    "llvm.load",
    "llvm.store",
    "llvm.getelementptr",
    "llvm.alloca",
    "llvm.mlir.undef",
    "llvm.mlir.poison",
    "llvm.mlir.zero",
    "scf.for",
    "scf.if",
    "scf.while",
    "scf.yield",
    "ub.poison",
];

/// Rewrites every value of type bf16 inside `function`, after arithmetic on it was expanded. A diagnostic where an op is left that
/// computes with it.
pub fn erase_bf16<'c>(context: &'c Context, function: OperationRef<'c, 'c>) -> Result<(), Failure> {
    Types { bf16: Type::bfloat16(context), i16: IntegerType::new(context, 16).into() }.walk(function)
}

struct Types<'c> {
    bf16: Type<'c>,
    i16: Type<'c>,
}

impl<'c> Types<'c> {
    fn narrow(&self, ty: Type<'c>) -> bool {
        element_type(ty) == self.bf16
    }

    fn set(&self, value: Value<'c, '_>) {
        let ty = value.r#type();
        if self.narrow(ty) {
            // SAFETY: a live value; its producer and users are rewritten in the same walk.
            unsafe { mlir_sys::mlirValueSetType(value.to_raw(), with_element(ty, self.i16).to_raw()) };
        }
    }

    fn walk(&self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        for r in 0..op.region_count() {
            let mut block = op.region(r).expect("in range").first_block();
            while let Some(b) = block {
                // SAFETY: handles into the module, which outlives the pass.
                let here: BlockRef<'c, 'c> = unsafe { BlockRef::from_raw(b.to_raw()) };
                for i in 0..here.argument_count() {
                    self.set(here.argument(i).expect("in range").into());
                }
                for inner in ops(here) {
                    self.rewrite(inner)?;
                    self.walk(inner)?;
                    if name(&inner) == "arith.bitcast" {
                        self.drop_bitcast(inner);
                    }
                }
                block = here.next_in_region();
            }
        }
        Ok(())
    }

    fn rewrite(&self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        let which = name(&op);
        let results = op.results().any(|r| self.narrow(r.r#type()));
        let element =
            op.attribute("elem_type").ok().and_then(|a| TypeAttribute::try_from(a).ok()).map(|a| a.value());
        if !results && !element.is_some_and(|t| self.narrow(t)) {
            return Ok(());
        }
        if !MOVES.contains(&which) && !which.starts_with("vector.") {
            return Err(Failure::new(op.location(), format!("{which} computes in bf16"))
                .next("this is a bug of pass expand-math: bf16 arithmetic is done in f32"));
        }
        // SAFETY: no other handle changes the op meanwhile.
        let mut change = unsafe { OperationRefMut::from_raw(op.to_raw()) };
        if let Some(t) = element {
            change.set_attribute("elem_type", TypeAttribute::new(with_element(t, self.i16)).into());
        }
        if which == "arith.constant" {
            let value = op.attribute("value").map_err(|e| Failure::new(op.location(), e.to_string()))?;
            change.set_attribute(
                "value",
                self.bits(value).ok_or_else(|| {
                    Failure::new(op.location(), "a bf16 constant that is neither a number nor a splat")
                })?,
            );
        }
        for r in op.results() {
            self.set(r.into());
        }
        Ok(())
    }

    /// The bits of a number or of a splat.
    fn bits(&self, value: Attribute<'c>) -> Option<Attribute<'c>> {
        let scalar = |a: Attribute<'c>| -> Option<Attribute<'c>> {
            let x = FloatAttribute::try_from(a).ok()?.value();
            Some(IntegerAttribute::new(self.i16, i64::from(half::bf16::from_f64(x).to_bits() as i16)).into())
        };
        if let Ok(dense) = DenseElementsAttribute::try_from(value) {
            // SAFETY: a query on a splat of a valid attribute.
            let element = unsafe {
                if !mlir_sys::mlirDenseElementsAttrIsSplat(value.to_raw()) {
                    return None;
                }
                Attribute::from_raw(mlir_sys::mlirDenseElementsAttrGetSplatValue(value.to_raw()))
            };
            return Some(
                DenseElementsAttribute::splat(with_element(dense.r#type(), self.i16), scalar(element)?)
                    .into(),
            );
        }
        scalar(value)
    }

    /// A bitcast between what are now equal types.
    fn drop_bitcast(&self, op: OperationRef<'c, 'c>) {
        let (Ok(from), Ok(to)) = (op.operand(0), op.result(0)) else { return };
        if from.r#type() == to.r#type() {
            // SAFETY: live values of one type; the op is not used afterwards.
            unsafe { mlir_sys::mlirValueReplaceAllUsesOfWith(to.to_raw(), from.to_raw()) };
            erase(op.to_raw());
        }
    }
}
