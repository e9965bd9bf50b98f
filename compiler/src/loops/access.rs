//! Reads and writes of memory, and what vectors are made of.

use super::emitter::{Emitter, Val, vector_of};
use super::group::V;
use super::index::linearize;
use melior::ir::attribute::{DenseI32ArrayAttribute, DenseI64ArrayAttribute};
use melior::ir::r#type::MemRefType;
use melior::ir::{Type, TypeLike, ValueLike};
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

impl<'c> Emitter<'c, '_> {
    /// A private or shared array. `space` is `private` or `workgroup`.
    pub fn array(&mut self, shape: &[i64], element: Type<'c>, space: &str) -> V<'c> {
        let memory = self.attribute(&format!("#gpu.address_space<{space}>"));
        let ty: Type<'c> = MemRefType::new(element, shape, None, Some(memory)).into();
        let segments = DenseI32ArrayAttribute::new(self.context(), &[0, 0]).into();
        self.b().value("memref.alloca", &[], ty, &[("operandSegmentSizes", segments)])
    }

    /// `memref.load`.
    pub fn load(&mut self, memref: V<'c>, index: &[Expr]) -> V<'c> {
        let mut operands = vec![memref];
        operands.extend(index.iter().map(|e| self.index(e)).collect::<Vec<_>>());
        // SAFETY: memrefs are shaped types.
        let ty = unsafe { Type::from_raw(mlir_sys::mlirShapedTypeGetElementType(memref.r#type().to_raw())) };
        self.b().value("memref.load", &operands, ty, &[])
    }

    /// `memref.store`.
    pub fn store(&mut self, v: V<'c>, memref: V<'c>, index: &[Expr]) {
        let mut operands = vec![v, memref];
        operands.extend(index.iter().map(|e| self.index(e)).collect::<Vec<_>>());
        self.b().op("memref.store", &operands, &[], &[], vec![]);
    }

    /// A scalar of `dtype` in the type in which such are combined.
    pub fn wide(&self, v: V<'c>, dtype: DType) -> V<'c> {
        match dtype.accumulator() {
            wide if wide == dtype => v,
            wide => self.b().value("arith.extf", &[v], dtype_to_mlir(self.context(), wide), &[]),
        }
    }

    /// A combined scalar, rounded to `dtype`.
    pub fn narrow(&self, v: V<'c>, dtype: DType) -> V<'c> {
        if dtype.accumulator() == dtype {
            return v;
        }
        self.b().value("arith.truncf", &[v], dtype_to_mlir(self.context(), dtype), &[])
    }

    /// `index` for lane 0.
    pub fn lane_zero(&self, index: &[Expr]) -> Vec<Expr> {
        self.at_lane(index, 0)
    }

    /// `index` for one lane.
    pub fn at_lane(&self, index: &[Expr], l: i64) -> Vec<Expr> {
        let lane = self.lane;
        index.iter().map(|e| e.substitute(&|s| if s == lane { l.into() } else { s.into() })).collect()
    }

    /// The bytes to which the first lane of an access is aligned at least, as far as it matters: 16 on the GPU, where buffers start
    /// at multiples of 16 bytes; on the CPU nothing is gained by more than an element's own.
    pub fn alignment(&self, index: &[Expr], shape: &[Expr], dtype: DType) -> i64 {
        let size = dtype.size() as i64;
        if self.cpu {
            return size;
        }
        let linear = linearize(&self.lane_zero(index), shape);
        let elements = match self.facts.divisor(&linear) {
            0 => self.lanes,
            d => strata_runtime::sym::gcd(d, self.lanes),
        };
        (elements * size).min(16.max(size))
    }

    /// `vector.load` of a row of lanes.
    pub fn load_vector(&mut self, memref: V<'c>, index: &[Expr], shape: &[Expr], dtype: DType) -> V<'c> {
        let alignment = self.alignment(index, shape, dtype);
        let mut operands = vec![memref];
        operands.extend(self.lane_zero(index).iter().map(|e| self.index(e)).collect::<Vec<_>>());
        let ty = self.vector_type(dtype);
        let a = self.attribute(&format!("{alignment} : i64"));
        self.b().value("vector.load", &operands, ty, &[("alignment", a)])
    }

    /// `vector.store` of a row of lanes.
    pub fn store_vector(&mut self, v: V<'c>, memref: V<'c>, index: &[Expr], shape: &[Expr], dtype: DType) {
        let alignment = self.alignment(index, shape, dtype);
        let mut operands = vec![v, memref];
        operands.extend(self.lane_zero(index).iter().map(|e| self.index(e)).collect::<Vec<_>>());
        let a = self.attribute(&format!("{alignment} : i64"));
        self.b().op("vector.store", &operands, &[], &[("alignment", a)], vec![]);
    }

    /// Reads the lanes of a private array.
    pub fn load_private(&mut self, memref: V<'c>, index: &[Expr], dtype: DType) -> V<'c> {
        if self.lanes == 1 {
            return self.load(memref, index);
        }
        let mut operands = vec![memref];
        operands.extend(self.lane_zero(index).iter().map(|e| self.index(e)).collect::<Vec<_>>());
        self.b().value("vector.load", &operands, self.vector_type(dtype), &[])
    }

    /// Writes the lanes of a private array.
    pub fn store_private(&mut self, v: Val<'c>, memref: V<'c>, index: &[Expr]) {
        if self.lanes == 1 {
            return self.store(v.v, memref, index);
        }
        let mut operands = vec![self.widen(v), memref];
        operands.extend(self.lane_zero(index).iter().map(|e| self.index(e)).collect::<Vec<_>>());
        self.b().op("vector.store", &operands, &[], &[], vec![]);
    }

    /// The vector type with one element a lane.
    pub fn vector_type(&self, dtype: DType) -> Type<'c> {
        vector_of(dtype_to_mlir(self.context(), dtype), self.lanes)
    }

    /// A value as a vector.
    pub fn widen(&self, x: Val<'c>) -> V<'c> {
        if x.lanes {
            return x.v;
        }
        self.b().value("vector.broadcast", &[x.v], vector_of(x.v.r#type(), self.lanes), &[])
    }

    /// A vector of scalars, one a lane.
    pub fn gather(&self, scalars: &[V<'c>]) -> V<'c> {
        let ty = vector_of(scalars[0].r#type(), scalars.len() as i64);
        self.b().value("vector.from_elements", scalars, ty, &[])
    }

    /// One lane of a vector.
    pub fn extract(&self, v: V<'c>, l: i64) -> V<'c> {
        let ty = strata_dialects::build::element_type(v.r#type());
        let at = DenseI64ArrayAttribute::new(self.context(), &[l]).into();
        self.b().value("vector.extract", &[v], ty, &[("static_position", at)])
    }
}
