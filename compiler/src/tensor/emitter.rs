//! What every case of the lowering writes with: values of the new function, `linalg.generic`, fills, scalars.

use crate::driver::pass::Failure;
use crate::graph::ranges::Ranges;
use melior::Context;
use melior::ir::attribute::{ArrayAttribute, DenseI32ArrayAttribute, FloatAttribute, IntegerAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::RankedTensorType;
use melior::ir::{
    AffineExpr, AffineMap, Attribute, Block, BlockLike, BlockRef, Location, Region, RegionLike, Type, Value,
    ValueLike,
};
use std::collections::BTreeMap;
use strata_dialects::build::{BodyBuilder, Builder, definition, result_of};
use strata_dialects::reference::{RefTensor, Scalar};
use strata_dialects::types::{DYNAMIC, dtype_to_mlir};
use strata_dialects::{OpView, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// The result of lowering an op.
pub(super) type Lowered<'c, 'a> = Result<Value<'c, 'a>, Failure>;

/// An input or output of a `linalg.generic` with its indexing map.
pub(super) type Mapped<'c, 'a> = (Value<'c, 'a>, AffineMap<'c>);

/// A dimension of an iteration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Iterator {
    Parallel,
    Reduction,
}

/// Writes one function at the tensor level.
pub(super) struct Emitter<'c, 'a> {
    pub context: &'c Context,
    /// The end of the new function's body.
    pub block: BlockRef<'c, 'a>,
    /// The `index` arguments, one a symbol.
    pub symbols: Vec<Value<'c, 'a>>,
    /// Default numerics, or `strict`.
    pub fast: bool,
    /// The location of the op being lowered.
    pub location: Location<'c>,
    /// What is known of the old function's integers.
    pub ranges: Ranges<'c, 'a>,
    /// New values by the old ones.
    pub values: BTreeMap<usize, Value<'c, 'a>>,
    /// Sizes that were computed before: equal extents are the same value.
    pub sizes: BTreeMap<Expr, Value<'c, 'a>>,
}

/// A key for a value of the old function.
pub(super) fn key(value: Value<'_, '_>) -> usize {
    value.to_raw().ptr as usize
}

impl<'c, 'a> Emitter<'c, 'a> {
    /// A builder at the end of the function.
    pub fn b(&self) -> Builder<'c, 'a> {
        Builder::at_end(self.context, self.block, self.location)
    }

    /// A failure at the op being lowered.
    pub fn fail<T>(&self, message: impl Into<String>) -> Result<T, Failure> {
        Err(Failure::new(self.location, message))
    }

    /// The new value of an operand of the old function.
    pub fn operand(&mut self, op: OperationRef<'c, 'a>, i: usize) -> Lowered<'c, 'a> {
        self.value(op.operand(i).expect("verified op"))
    }

    /// The new value of a value of the old function. Broadcasts and constants are written on demand: most are folded into indexing
    /// maps and bodies.
    pub fn value(&mut self, old: Value<'c, 'a>) -> Lowered<'c, 'a> {
        if let Some(v) = self.values.get(&key(old)) {
            return Ok(*v);
        }
        let Some(owner) = definition(old) else {
            return self.fail("an operand is defined outside of the function");
        };
        let view = OpView::new(&owner).or_else(|m| self.fail(m))?;
        let v = match view.spec.name {
            "graph.constant" => super::pointwise::lower_constant(self, &view)?,
            _ => super::pointwise::lower_broadcast(self, owner, &view)?,
        };
        self.values.insert(key(old), v);
        Ok(v)
    }

    /// The builtin type of a tensor of this level: no encoding.
    pub fn ty(&self, t: &TensorType) -> Type<'c> {
        self.tensor(t.dtype, &t.shape)
    }

    /// The builtin type of a tensor of this level, of elements as they are stored.
    pub fn tensor(&self, dtype: DType, shape: &[Expr]) -> Type<'c> {
        let sizes: Vec<u64> = shape.iter().map(|e| e.as_const().map_or(DYNAMIC, |c| c as u64)).collect();
        RankedTensorType::new(&sizes, dtype_to_mlir(self.context, dtype.storage()), None).into()
    }

    /// `d0`, `d1`, ….
    pub fn d(&self, i: usize) -> AffineExpr<'c> {
        AffineExpr::dim(self.context, i)
    }

    /// A number in an indexing map.
    pub fn c(&self, value: i64) -> AffineExpr<'c> {
        AffineExpr::constant(self.context, value)
    }

    /// An indexing map over `dims` dimensions.
    pub fn map(&self, dims: usize, exprs: &[AffineExpr<'c>]) -> AffineMap<'c> {
        AffineMap::new(self.context, dims, 0, exprs)
    }

    /// The indexing map that picks dimensions.
    pub fn pick(&self, dims: usize, picked: &[usize]) -> AffineMap<'c> {
        self.map(dims, &picked.iter().map(|&d| self.d(d)).collect::<Vec<_>>())
    }

    /// `tensor.empty`.
    pub fn empty(&mut self, dtype: DType, shape: &[Expr]) -> Value<'c, 'a> {
        let sizes = self.dynamic_sizes(shape);
        let ty = self.tensor(dtype, shape);
        self.b().value("tensor.empty", &sizes, ty, &[])
    }

    /// A tensor of one repeated scalar.
    pub fn filled(&mut self, scalar: Value<'c, 'a>, dtype: DType, shape: &[Expr]) -> Value<'c, 'a> {
        let init = self.empty(dtype, shape);
        let op = self.b().op(
            "linalg.fill",
            &[scalar, init],
            &[init.r#type()],
            &[("operandSegmentSizes", self.segments(&[1, 1]))],
            vec![Region::new()],
        );
        // SAFETY: a live fill op with an empty region.
        unsafe {
            mlir_sys::mlirLinalgFillBuiltinNamedOpRegion(op.to_raw());
        }
        result_of(op, 0)
    }

    /// A scalar constant, by `b`: inside of a body, or before.
    pub fn scalar(&self, b: Builder<'c, 'a>, dtype: DType, value: Scalar) -> Value<'c, 'a> {
        let ty = dtype_to_mlir(self.context, dtype.storage());
        let attribute: Attribute<'c> = match RefTensor::scalar(dtype, value).stored().get(0) {
            Scalar::F(x) => FloatAttribute::new(self.context, ty, x).into(),
            Scalar::I(i) => IntegerAttribute::new(ty, i).into(),
        };
        b.value("arith.constant", &[], ty, &[("value", attribute)])
    }

    /// `operandSegmentSizes`.
    pub fn segments(&self, sizes: &[usize]) -> Attribute<'c> {
        DenseI32ArrayAttribute::new(self.context, &sizes.iter().map(|&n| n as i32).collect::<Vec<_>>()).into()
    }

    /// `linalg.generic`. `body` is given one element of every input and every initial value, and returns the new elements.
    pub fn generic(
        &self,
        inputs: &[Mapped<'c, 'a>],
        inits: &[Mapped<'c, 'a>],
        iterators: &[Iterator],
        body: impl FnOnce(&BodyBuilder<'c, 'a>, &[Value<'c, 'a>]) -> Vec<Value<'c, 'a>>,
    ) -> Vec<Value<'c, 'a>> {
        let all: Vec<_> = inputs.iter().chain(inits).copied().collect();
        let arguments: Vec<_> = all
            .iter()
            // SAFETY: operands of a generic are tensors.
            .map(|(v, _)| unsafe {
                let ty = mlir_sys::mlirShapedTypeGetElementType(mlir_sys::mlirValueGetType(v.to_raw()));
                (Type::from_raw(ty), self.location)
            })
            .collect();
        let region = Region::new();
        let block = region.append_block(Block::new(&arguments));
        // SAFETY: the block moves with its region into the op, which outlives the builder.
        let block: BlockRef<'c, 'a> = unsafe { BlockRef::from_raw(block.to_raw()) };
        let b = BodyBuilder { b: Builder::at_end(self.context, block, self.location), fast: self.fast };
        let elements: Vec<Value<'c, 'a>> =
            (0..all.len()).map(|i| block.argument(i).expect("as many as operands").into()).collect();
        let yielded = body(&b, &elements);
        b.b.op("linalg.yield", &yielded, &[], &[], vec![]);
        let maps: Vec<Attribute<'c>> = all
            .iter()
            // SAFETY: a valid map of this context.
            .map(|(_, m)| unsafe { Attribute::from_raw(mlir_sys::mlirAffineMapAttrGet(m.to_raw())) })
            .collect();
        let kinds: Vec<Attribute<'c>> = iterators
            .iter()
            .map(|i| {
                let text = match i {
                    Iterator::Parallel => "#linalg.iterator_type<parallel>",
                    Iterator::Reduction => "#linalg.iterator_type<reduction>",
                };
                Attribute::parse(self.context, text).expect("valid attribute")
            })
            .collect();
        let operands: Vec<_> = all.iter().map(|(v, _)| *v).collect();
        let results: Vec<_> = inits.iter().map(|(v, _)| v.r#type()).collect();
        let op = self.b().op(
            "linalg.generic",
            &operands,
            &results,
            &[
                ("indexing_maps", ArrayAttribute::new(self.context, &maps).into()),
                ("iterator_types", ArrayAttribute::new(self.context, &kinds).into()),
                ("operandSegmentSizes", self.segments(&[inputs.len(), inits.len()])),
            ],
            vec![region],
        );
        op.results().map(Into::into).collect()
    }

    /// A generic whose result has one element an iteration: `inputs` through their maps, all dimensions parallel.
    pub fn elementwise(
        &mut self,
        inputs: &[Mapped<'c, 'a>],
        result: &TensorType,
        body: impl FnOnce(&BodyBuilder<'c, 'a>, &[Value<'c, 'a>]) -> Value<'c, 'a>,
    ) -> Value<'c, 'a> {
        let rank = result.rank();
        let init = self.empty(result.dtype, &result.shape);
        let identity = AffineMap::multi_dim_identity(self.context, rank);
        self.generic(inputs, &[(init, identity)], &vec![Iterator::Parallel; rank], |b, x| vec![body(b, x)])[0]
    }

    /// `x`, kept in a wider type, rounded to the result's type.
    pub fn narrowed(&mut self, x: Value<'c, 'a>, result: &TensorType) -> Value<'c, 'a> {
        if result.dtype.accumulator() == result.dtype {
            return x;
        }
        let identity = AffineMap::multi_dim_identity(self.context, result.rank());
        self.elementwise(&[(x, identity)], result, |b, x| b.narrow(x[0], result.dtype))
    }
}
