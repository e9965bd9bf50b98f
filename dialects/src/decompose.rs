//! Composites in terms of simpler graph ops.

use crate::attr::Attr;
use crate::build::Builder;
use crate::ops::lookup;
use crate::spec::Violation;
use crate::types::TensorType;
use crate::view::OpView;
use melior::ir::Value;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

type Built<'c, 'a> = Result<Value<'c, 'a>, Violation>;

/// Small ops on the builder, for decompositions and importers.
impl<'c, 'a> Builder<'c, 'a> {
    /// `x` in another element type.
    pub fn cast(&self, x: Value<'c, 'a>, dtype: DType) -> Built<'c, 'a> {
        let ty = self.tensor_type(x);
        if ty.dtype == dtype {
            return Ok(x);
        }
        Ok(self.graph_as("cast", &[x], &[], &[ty.with_dtype(dtype)])?[0])
    }

    /// `x` repeated to `shape`: its dimension i is dimension `dims[i]` of the result.
    pub fn broadcast(&self, x: Value<'c, 'a>, dims: &[usize], shape: &[Expr]) -> Built<'c, 'a> {
        let ty = TensorType { dtype: self.tensor_type(x).dtype, shape: shape.to_vec() };
        if self.tensor_type(x) == ty {
            return Ok(x);
        }
        let dims = dims.iter().map(|&d| d as i64).collect();
        Ok(self.graph_as("broadcast", &[x], &[("dims", Attr::Ints(dims))], &[ty])?[0])
    }

    /// `x` under another shape.
    pub fn reshape(&self, x: Value<'c, 'a>, shape: &[Expr]) -> Built<'c, 'a> {
        let ty = TensorType { dtype: self.tensor_type(x).dtype, shape: shape.to_vec() };
        if self.tensor_type(x) == ty {
            return Ok(x);
        }
        Ok(self.graph_as("reshape", &[x], &[], &[ty])?[0])
    }

    /// A constant of rank 0 from a number.
    pub fn number(&self, dtype: DType, value: f64) -> Built<'c, 'a> {
        use crate::reference::{RefTensor, Scalar};
        let scalar = if dtype.is_float() { Scalar::F(value) } else { Scalar::I(value as i64) };
        self.constant(&RefTensor::scalar(dtype, scalar))
    }

    /// A number repeated to a shape.
    pub fn full(&self, dtype: DType, value: f64, shape: &[Expr]) -> Built<'c, 'a> {
        self.broadcast(self.number(dtype, value)?, &[], shape)
    }

    /// A constant.
    pub fn constant(&self, value: &crate::reference::RefTensor) -> Built<'c, 'a> {
        let ty = TensorType::new(value.dtype, value.shape.iter().copied());
        let mlir = ty.to_mlir(self.context).map_err(|message| Violation { constraint: "type", message })?;
        let attribute = crate::attr::dense(self.context, mlir, value);
        Ok(self.value("graph.constant", &[], mlir, &[("value", attribute)]))
    }

    /// A reduction over `dims`, with the reduced dimensions kept as a broadcast back to the operand's shape.
    fn reduced(&self, kind: i32, x: Value<'c, 'a>, dims: &[usize]) -> Built<'c, 'a> {
        let ty = self.tensor_type(x);
        let list = dims.iter().map(|&d| d as i64).collect();
        let r = self.graph1("reduce", &[x], &[("kind", Attr::Enum(kind)), ("dims", Attr::Ints(list))])?;
        let kept: Vec<usize> = (0..ty.rank()).filter(|d| !dims.contains(d)).collect();
        self.broadcast(r, &kept, &ty.shape)
    }
}

const SUM: i32 = 0;
const MAX: i32 = 1;

/// The type in which norms and softmax compute.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

fn single<'c, 'a>(x: Value<'c, 'a>) -> Result<Vec<Value<'c, 'a>>, Violation> {
    Ok(vec![x])
}

pub(crate) fn softmax<'c, 'a>(
    b: &Builder<'c, 'a>,
    view: &OpView,
    x: &[Value<'c, 'a>],
) -> Result<Vec<Value<'c, 'a>>, Violation> {
    let dtype = view.operands[0].dtype;
    let dims = [view.int("dim") as usize];
    let x = b.cast(x[0], wide(dtype))?;
    let shifted = b.graph1("sub", &[x, b.reduced(MAX, x, &dims)?], &[])?;
    let e = b.graph1("exp", &[shifted], &[])?;
    let y = b.graph1("div", &[e, b.reduced(SUM, e, &dims)?], &[])?;
    single(b.cast(y, dtype)?)
}

pub(crate) fn layer_norm<'c, 'a>(
    b: &Builder<'c, 'a>,
    view: &OpView,
    x: &[Value<'c, 'a>],
) -> Result<Vec<Value<'c, 'a>>, Violation> {
    let ty = &view.operands[0];
    let w = wide(ty.dtype);
    let n = view.int("dims") as usize;
    let dims: Vec<usize> = (ty.rank() - n..ty.rank()).collect();
    let shape = &ty.shape;
    let count: Expr = dims.iter().map(|&d| shape[d].clone()).product();
    let count = match count.as_const() {
        Some(c) => b.full(w, c as f64, shape)?,
        None => {
            let dim = b.graph_as(
                "dim",
                &[],
                &[("expr", Attr::Dims(vec![count]))],
                &[TensorType::new(DType::I64, [] as [i64; 0])],
            )?[0];
            b.broadcast(b.cast(dim, w)?, &[], shape)?
        }
    };
    let v = b.cast(x[0], w)?;
    let mean = b.graph1("div", &[b.reduced(SUM, v, &dims)?, count], &[])?;
    let centred = b.graph1("sub", &[v, mean], &[])?;
    let square = b.graph1("mul", &[centred, centred], &[])?;
    let variance = b.graph1("div", &[b.reduced(SUM, square, &dims)?, count], &[])?;
    let shifted = b.graph1("add", &[variance, b.full(w, view.float("epsilon"), shape)?], &[])?;
    let mut y = b.graph1("mul", &[centred, b.graph1("rsqrt", &[shifted], &[])?], &[])?;
    for (affine, op) in x[1..].iter().zip(["mul", "add"]) {
        let a = b.broadcast(b.cast(*affine, w)?, &dims, shape)?;
        y = b.graph1(op, &[y, a], &[])?;
    }
    single(b.cast(y, ty.dtype)?)
}

pub(crate) fn attention<'c, 'a>(
    b: &Builder<'c, 'a>,
    view: &OpView,
    x: &[Value<'c, 'a>],
) -> Result<Vec<Value<'c, 'a>>, Violation> {
    let q = &view.operands[0];
    let r = q.rank();
    let batch: Vec<i64> = (0..r as i64 - 2).collect();
    let product = |l, h, lc: usize, rc: usize| {
        let dims = [("lhs_contracting", vec![lc as i64]), ("rhs_contracting", vec![rc as i64])];
        let mut attrs =
            vec![("lhs_batch", Attr::Ints(batch.clone())), ("rhs_batch", Attr::Ints(batch.clone()))];
        attrs.extend(dims.map(|(n, d)| (n, Attr::Ints(d))));
        b.graph1("dot_general", &[l, h], &attrs)
    };
    let w = wide(q.dtype);
    let scores = b.cast(product(x[0], x[1], r - 1, r - 1)?, w)?;
    let shape = b.tensor_type(scores).shape;
    let mut scores = b.graph1("mul", &[scores, b.full(w, view.float("scale"), &shape)?], &[])?;
    if let Some(&bias) = x.get(3) {
        scores = b.graph1("add", &[scores, b.cast(bias, w)?], &[])?;
    }
    if view.bool("causal") {
        let position = |dim: usize| {
            let ty = TensorType { dtype: DType::I64, shape: shape.clone() };
            Ok::<_, Violation>(b.graph_as("iota", &[], &[("dim", Attr::Int(dim as i64))], &[ty])?[0])
        };
        let visible =
            b.graph1("compare", &[position(r - 1)?, position(r - 2)?], &[("direction", Attr::Enum(3))])?;
        scores = b.graph1("select", &[visible, scores, b.full(w, f64::NEG_INFINITY, &shape)?], &[])?;
    }
    let p = masked_softmax(b, scores, r - 1)?;
    single(product(b.cast(p, q.dtype)?, x[2], r - 1, r - 2)?)
}

/// Softmax along a dimension, where a row without anything above -∞ gives zeros, as in PyTorch's attention: the largest exponential is 1, so a
/// sum below 1 is that of no element.
fn masked_softmax<'c, 'a>(
    b: &Builder<'c, 'a>,
    x: Value<'c, 'a>,
    dim: usize,
) -> Result<Value<'c, 'a>, Violation> {
    let ty = b.tensor_type(x);
    let lowest = if ty.dtype == DType::F64 { f64::MIN } else { f64::from(f32::MIN) };
    let most = b.graph1("max", &[b.reduced(MAX, x, &[dim])?, b.full(ty.dtype, lowest, &ty.shape)?], &[])?;
    let e = b.graph1("exp", &[b.graph1("sub", &[x, most], &[])?], &[])?;
    let sum = b.graph1("max", &[b.reduced(SUM, e, &[dim])?, b.full(ty.dtype, 1.0, &ty.shape)?], &[])?;
    b.graph1("div", &[e, sum], &[])
}

pub(crate) fn linear<'c, 'a>(
    b: &Builder<'c, 'a>,
    view: &OpView,
    x: &[Value<'c, 'a>],
) -> Result<Vec<Value<'c, 'a>>, Violation> {
    let dtype = view.operands[0].dtype;
    let w = wide(dtype);
    let dims = ["lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting"];
    let attrs = dims.map(|n| (n, Attr::Ints(view.ints(n).to_vec())));
    let y = b.graph1("dot_general", &[b.cast(x[0], w)?, b.cast(x[1], w)?], &attrs)?;
    let shape = b.tensor_type(y).shape;
    let bias = b.broadcast(b.cast(x[2], w)?, &[shape.len() - 1], &shape)?;
    single(b.cast(b.graph1("add", &[y, bias], &[])?, dtype)?)
}

/// Whether an op is a composite.
pub fn is_composite(name: &str) -> bool {
    lookup(name).is_some_and(|s| matches!(s.lowering, crate::spec::Lowering::Composite(_)))
}
