//! From MLIR to loop code: values get registers, regions nest.

use super::super::decode::{constant, decode, element_of, lanes_of};
use super::super::scalar::{Cell, Function, ScalarOp};
use super::code::{Code, Instr, Number, Place, Program, What};
use crate::ir::{name, ops};
use melior::ir::attribute::DenseI64ArrayAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, BlockLike, BlockRef, RegionLike, TypeLike, Value, ValueLike};
use std::collections::BTreeMap;
use strata_dialects::reference::Rounding;
use strata_dialects::types::DYNAMIC;

/// Where a value is.
#[derive(Clone, Copy, Debug)]
enum Loc {
    Registers(Place),
    Memref(usize),
}

/// A program under construction.
pub(super) struct Decoder {
    pub rounding: Rounding,
    places: BTreeMap<usize, Loc>,
    pub program: Program,
}

/// Messages; the location of the op is added by the caller.
pub(super) type Step<T> = Result<T, String>;

fn key(v: Value<'_, '_>) -> usize {
    v.to_raw().ptr as usize
}

impl Decoder {
    pub fn new(rounding: Rounding) -> Self {
        let program = Program { registers: vec![], memrefs: 0, sites: 0, locations: vec![] };
        Self { rounding, places: BTreeMap::new(), program }
    }

    /// New registers for a value.
    pub fn define(&mut self, v: Value<'_, '_>) -> Step<Place> {
        let lanes = lanes_of(v.r#type())?;
        element_of(v.r#type())?;
        let place = self.registers(lanes);
        self.places.insert(key(v), Loc::Registers(place));
        Ok(place)
    }

    /// Fresh registers.
    pub fn registers(&mut self, lanes: usize) -> Place {
        let place = Place { at: self.program.registers.len(), lanes };
        self.program.registers.resize(place.at + lanes, Cell::default());
        place
    }

    /// A register that holds a number.
    pub fn number_register(&mut self, value: i64) -> usize {
        let place = self.registers(1);
        self.program.registers[place.at] = Cell::of_i(value);
        place.at
    }

    /// A new memref for a value.
    pub fn define_memref(&mut self, v: Value<'_, '_>) -> usize {
        self.program.memrefs += 1;
        self.places.insert(key(v), Loc::Memref(self.program.memrefs - 1));
        self.program.memrefs - 1
    }

    /// The registers of a value.
    pub fn place(&self, v: Value<'_, '_>) -> Step<Place> {
        match self.places.get(&key(v)) {
            Some(Loc::Registers(p)) => Ok(*p),
            _ => {
                Err(format!("an operand of type '{}' is not a scalar or vector computed before", v.r#type()))
            }
        }
    }

    /// The register of a scalar.
    pub fn register(&self, v: Value<'_, '_>) -> Step<usize> {
        Ok(self.place(v)?.at)
    }

    /// The memref of a value.
    pub fn memref(&self, v: Value<'_, '_>) -> Step<usize> {
        match self.places.get(&key(v)) {
            Some(Loc::Memref(m)) => Ok(*m),
            _ => Err(format!("an operand of type '{}' is not a memref made before", v.r#type())),
        }
    }

    pub fn places(
        &self,
        values: impl Iterator<Item = impl Copy + Into<usize>>,
        of: &OperationRef<'_, '_>,
    ) -> Step<Vec<Place>> {
        values.map(|i| self.place(operand(of, i.into())?)).collect()
    }

    fn results(&mut self, op: &OperationRef<'_, '_>) -> Step<Vec<Place>> {
        (0..op.result_count()).map(|i| self.define(op.result(i).map_err(|e| e.to_string())?.into())).collect()
    }

    /// Numbers of an attribute, its dynamic entries from the operands after position `*next`.
    pub fn mixed(&self, op: &OperationRef<'_, '_>, attribute: &str, next: &mut usize) -> Step<Vec<Number>> {
        integers(op, attribute)?
            .into_iter()
            .map(|v| {
                if v != DYNAMIC as i64 {
                    return Ok(Number::Static(v));
                }
                *next += 1;
                Ok(Number::Register(self.register(operand(op, *next - 1)?)?))
            })
            .collect()
    }

    /// Decodes a block; gives its code and what its terminator yields.
    pub fn block(&mut self, block: BlockRef<'_, '_>) -> Result<(Code, Vec<Place>), (String, String)> {
        let mut code = Vec::new();
        let mut yields = Vec::new();
        for op in ops(block) {
            let here = |m: String| (crate::ir::location_text(op.location()), m);
            match name(&op) {
                "scf.yield" => {
                    yields = op.operands().map(|v| self.place(v)).collect::<Step<_>>().map_err(here)?;
                }
                "func.return" if op.operand_count() == 0 => {}
                "scf.forall.in_parallel" => {}
                "scf.for" | "scf.if" | "scf.forall" => {
                    let location = self.location(&op);
                    let what = self.nest(&op)?;
                    code.push(Instr { what, location });
                }
                _ => {
                    let location = self.location(&op);
                    if let Some(what) = self.simple(&op).map_err(here)? {
                        code.push(Instr { what, location });
                    }
                }
            }
        }
        Ok((code, yields))
    }

    fn location(&mut self, op: &OperationRef<'_, '_>) -> usize {
        let text = crate::ir::location_text(op.location());
        if self.program.locations.last() != Some(&text) {
            self.program.locations.push(text);
        }
        self.program.locations.len() - 1
    }

    /// An op with regions.
    fn nest(&mut self, op: &OperationRef<'_, '_>) -> Result<What, (String, String)> {
        let here = |m: String| (crate::ir::location_text(op.location()), m);
        let first = |i: usize| op.region(i).ok().and_then(|r| r.first_block());
        match name(op) {
            "scf.for" => {
                let block = first(0).ok_or_else(|| here("a loop without a body".into()))?;
                let bound = |d: &Self, i: usize| d.register(operand(op, i)?);
                let (lower, upper, step) = (
                    bound(self, 0).map_err(here)?,
                    bound(self, 1).map_err(here)?,
                    bound(self, 2).map_err(here)?,
                );
                let init = self.places(3..op.operand_count(), op).map_err(here)?;
                let mut arguments = Vec::new();
                for i in 0..block.argument_count() {
                    arguments.push(self.define(block.argument(i).expect("in range").into()).map_err(here)?);
                }
                let (body, yields) = self.block(block)?;
                let results = self.results(op).map_err(here)?;
                let (induction, carried) = (arguments[0].at, arguments[1..].to_vec());
                Ok(What::For { lower, upper, step, induction, init, carried, body, yields, results })
            }
            "scf.if" => {
                let condition = operand(op, 0).and_then(|v| self.register(v)).map_err(here)?;
                let (then, then_yields) = first(0).map_or(Ok((vec![], vec![])), |b| self.block(b))?;
                let (otherwise, otherwise_yields) =
                    first(1).map_or(Ok((vec![], vec![])), |b| self.block(b))?;
                let results = self.results(op).map_err(here)?;
                Ok(What::If { condition, then, then_yields, otherwise, otherwise_yields, results })
            }
            _ => {
                if op.result_count() > 0 {
                    return Err(here("a forall with results; loops write to memrefs here".into()));
                }
                let block = first(0).ok_or_else(|| here("a forall without a body".into()))?;
                let next = &mut 0;
                let mut bounds = |a: &str| self.mixed(op, a, next);
                let lower = bounds("staticLowerBound").map_err(here)?;
                let upper = bounds("staticUpperBound").map_err(here)?;
                let step = bounds("staticStep").map_err(here)?;
                let mut inductions = Vec::new();
                for i in 0..block.argument_count() {
                    inductions
                        .push(self.define(block.argument(i).expect("in range").into()).map_err(here)?.at);
                }
                let (body, _) = self.block(block)?;
                Ok(What::Forall { lower, upper, step, inductions, body })
            }
        }
    }

    /// An op without regions; `None` where nothing is to be done at run time.
    fn simple(&mut self, op: &OperationRef<'_, '_>) -> Step<Option<What>> {
        let full = name(op);
        if matches!(full, "arith.constant" | "index.constant" | "index.bool.constant") {
            let value = attribute(op, "value")?;
            let to = self.define(result(op)?)?;
            let cells = constant(value)?;
            if cells.len() != to.lanes {
                return Err(format!("a constant of {} elements for {} lanes", cells.len(), to.lanes));
            }
            self.program.registers[to.at..to.at + to.lanes].copy_from_slice(&cells);
            return Ok(None);
        }
        if let Some(f) = decode(op, self.rounding)? {
            let args = self.places(0..op.operand_count(), op)?;
            let to = self.define(result(op)?)?;
            return Ok(Some(What::Scalar { op: f, args, to }));
        }
        match full.split_once('.') {
            Some(("memref" | "loop", _)) => self.memory_op(op),
            Some(("vector", "fma")) => {
                let args = self.places(0..3usize, op)?;
                let v = result(op)?;
                let dtype = element_of(v.r#type())?;
                let round = self.rounding == Rounding::Exact;
                let f = ScalarOp { function: Function::Fma, from: dtype, to: dtype, round };
                let to = self.define(v)?;
                Ok(Some(What::Scalar { op: f, args, to }))
            }
            Some(("vector", _)) => self.vector_op(op).map(Some),
            _ => Err(format!("'{full}' is not an op of the loop level that the interpreter knows")),
        }
    }
}

/// An operand.
pub(super) fn operand<'c, 'a>(op: &OperationRef<'c, 'a>, i: usize) -> Step<Value<'c, 'a>> {
    op.operand(i).map_err(|e| e.to_string())
}

/// The first result.
pub(super) fn result<'c, 'a>(op: &OperationRef<'c, 'a>) -> Step<Value<'c, 'a>> {
    op.result(0).map(Into::into).map_err(|e| e.to_string())
}

/// An attribute.
pub(super) fn attribute<'c>(op: &OperationRef<'c, '_>, key: &str) -> Step<Attribute<'c>> {
    op.attribute(key).map_err(|_| format!("'{}' without its attribute '{key}'", name(op)))
}

/// A list of integers.
pub(super) fn integers(op: &OperationRef<'_, '_>, key: &str) -> Step<Vec<i64>> {
    let a = DenseI64ArrayAttribute::try_from(attribute(op, key)?).map_err(|e| e.to_string())?;
    (0..a.len()).map(|i| a.element(i).map_err(|e| e.to_string())).collect()
}

/// Lanes of the vectors that a memref holds; `None` where it holds scalars.
pub(super) fn vector_elements(ty: melior::ir::Type<'_>) -> Option<usize> {
    // SAFETY: a memref type has an element type.
    let element = unsafe { melior::ir::Type::from_raw(mlir_sys::mlirShapedTypeGetElementType(ty.to_raw())) };
    element.is_vector().then(|| lanes_of(element).unwrap_or(0))
}

/// Sizes of a shaped type; `None` for a dynamic one.
pub(super) fn sizes_of(ty: melior::ir::Type<'_>) -> Vec<Option<i64>> {
    // SAFETY: a ranked shaped type; its rank bounds the indices.
    unsafe {
        (0..mlir_sys::mlirShapedTypeGetRank(ty.to_raw()) as isize)
            .map(|d| {
                (!mlir_sys::mlirShapedTypeIsDynamicDim(ty.to_raw(), d))
                    .then(|| mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), d))
            })
            .collect()
    }
}
