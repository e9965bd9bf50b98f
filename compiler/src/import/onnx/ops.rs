//! One function per graph op that the translations write: it states the op's result type.

use super::diagnostic::{Diagnostic, Result, fail};
use super::emit::{Attr, ShapeText, Value};
use super::facts;
use super::importer::{Importer, Operand};
use super::tensor::{MAX_ELEMENTS, Tensor};
use strata_dialects::TensorType;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

impl Importer<'_> {
    /// The operand's value in the function, written on first use.
    pub fn value(&mut self, x: &Operand) -> Result<Value> {
        if let Some(value) = x.value.get() {
            return Ok(value);
        }
        let value = if let Some(data) = &x.data {
            self.emit.constant(data, &self.at)?
        } else if let Some(numbers) = x.numbers() {
            let shape = x.ty.static_shape().unwrap_or_default().into_iter().map(|d| d as i64).collect();
            self.emit.constant(&Tensor::from_i64(x.ty.dtype, shape, &numbers), &self.at)?
        } else {
            let known = x.known.clone().unwrap_or_default();
            let parts = known.iter().map(|e| self.size(e, x.ty.dtype)).collect::<Result<Vec<_>>>()?;
            if let [only] = &parts[..] {
                let value = self.reshape(only, x.ty.shape.clone())?;
                let value = self.value(&value)?;
                x.value.set(Some(value));
                return Ok(value);
            }
            let rows = parts.iter().map(|p| self.reshape(p, vec![1.into()])).collect::<Result<Vec<_>>>()?;
            let joined = self.concat(&rows, 0)?;
            let joined = self.reshape(&joined, x.ty.shape.clone())?;
            self.value(&joined)?
        };
        x.value.set(Some(value));
        Ok(value)
    }

    /// Writes an op.
    pub fn op(
        &mut self,
        name: &'static str,
        operands: &[&Operand],
        attributes: &[(&'static str, Attr)],
        ty: TensorType,
    ) -> Result<Operand> {
        self.check_size(&ty)?;
        let values = operands.iter().map(|x| self.value(x)).collect::<Result<Vec<_>>>()?;
        let value = self.emit.op(name, &values, attributes, &ty, &self.at)?;
        Ok(Operand::computed(value, ty))
    }

    /// Fails for sizes that no tensor has.
    pub fn check_size(&self, ty: &TensorType) -> Result<()> {
        let mut product = 1i64;
        for d in &ty.shape {
            if d.terms().count() > facts::MAX_TERMS {
                fail!("a size grew into a sum of more than {} terms", facts::MAX_TERMS);
            }
            let Some(n) = d.as_const() else { continue };
            if n < 0 {
                fail!("the result would have a negative size: {ty}");
            }
            product = product.saturating_mul(n.max(1));
        }
        if product > MAX_ELEMENTS {
            fail!("the result would have more than 2^48 elements: {ty}");
        }
        Ok(())
    }

    /// A constant scalar.
    pub fn scalar(&mut self, dtype: DType, x: f64) -> Operand {
        Operand::stored(Tensor::from_f64(dtype, Vec::new(), &[x]))
    }

    /// A constant with the shape of another operand.
    pub fn splat_like(&mut self, like: &Operand, x: f64) -> Result<Operand> {
        self.splat(like.ty.dtype, like.shape().to_vec(), x)
    }

    /// A constant of one value everywhere.
    pub fn splat(&mut self, dtype: DType, shape: Vec<Expr>, x: f64) -> Result<Operand> {
        let scalar = self.scalar(dtype, x);
        self.broadcast(&scalar, &[], shape)
    }

    /// A size as an integer scalar.
    pub fn size(&mut self, e: &Expr, dtype: DType) -> Result<Operand> {
        if let Some(n) = e.as_const() {
            return Ok(Operand::stored(Tensor::from_i64(dtype, Vec::new(), &[n])));
        }
        if !matches!(dtype, DType::I64 | DType::I32) {
            let wide = self.size(e, DType::I64)?;
            return self.cast(&wide, dtype);
        }
        let no_sizes: [Expr; 0] = [];
        self.op("dim", &[], &[("expr", Attr::Dims(vec![e.clone()]))], TensorType::new(dtype, no_sizes))
    }

    /// An elementwise op of one operand.
    pub fn unary(&mut self, name: &'static str, x: &Operand) -> Result<Operand> {
        self.op(name, &[x], &[], x.ty.clone())
    }

    /// An elementwise op of two operands of one type.
    pub fn binary(&mut self, name: &'static str, a: &Operand, b: &Operand) -> Result<Operand> {
        self.same_dtype(a, b)?;
        self.op(name, &[a, b], &[], a.ty.clone())
    }

    /// Fails unless both have one element type.
    pub fn same_dtype(&self, a: &Operand, b: &Operand) -> Result<()> {
        if a.ty.dtype != b.ty.dtype {
            fail!("the operands' element types differ: {} and {}", a.ty, b.ty);
        }
        Ok(())
    }

    /// A comparison (`eq`, `ne`, `lt`, `le`, `gt`, `ge`) of two operands of one type.
    pub fn compare(&mut self, direction: &'static str, a: &Operand, b: &Operand) -> Result<Operand> {
        self.same_dtype(a, b)?;
        let ty = TensorType::new(DType::I1, a.shape().to_vec());
        self.op("compare", &[a, b], &[("direction", Attr::Keyword(direction))], ty)
    }

    /// `condition ? a : b`, all of one shape.
    pub fn select(&mut self, condition: &Operand, a: &Operand, b: &Operand) -> Result<Operand> {
        self.same_dtype(a, b)?;
        self.op("select", &[condition, a, b], &[], a.ty.clone())
    }

    /// Conversion of the element type.
    pub fn cast(&mut self, x: &Operand, dtype: DType) -> Result<Operand> {
        if x.ty.dtype == dtype {
            return Ok(x.clone());
        }
        if dtype == DType::I1 {
            let zero = self.splat_like(x, 0.0)?;
            return self.compare("ne", x, &zero);
        }
        self.op("cast", &[x], &[], TensorType::new(dtype, x.shape().to_vec()))
    }

    /// 0, 1, 2, … along `axis`.
    pub fn iota(&mut self, dtype: DType, shape: Vec<Expr>, axis: usize) -> Result<Operand> {
        self.op("iota", &[], &[("dim", Attr::Int(axis as i64))], TensorType::new(dtype, shape))
    }

    /// `x`'s dimension `i` becomes dimension `dims[i]` of the result; sizes of 1 are repeated.
    pub fn broadcast(&mut self, x: &Operand, dims: &[i64], shape: Vec<Expr>) -> Result<Operand> {
        if x.shape() == shape && dims.iter().copied().eq(0..x.rank() as i64) {
            return Ok(x.clone());
        }
        self.op("broadcast", &[x], &[("dims", Attr::Ints(dims.to_vec()))], TensorType::new(x.ty.dtype, shape))
    }

    /// `x` spread to `shape` by numpy's rule: aligned at the last dimension, sizes of 1 repeated.
    pub fn broadcast_to(&mut self, x: &Operand, shape: &[Expr]) -> Result<Operand> {
        let first = shape.len().checked_sub(x.rank()).ok_or_else(|| {
            Diagnostic::new(format!("{} has more dimensions than {}", x.ty, ShapeText(shape)))
        })?;
        for (have, want) in x.shape().iter().zip(&shape[first..]) {
            if have != want && have.as_const() != Some(1) {
                fail!("{} does not spread to {}", x.ty, ShapeText(shape));
            }
        }
        let dims: Vec<i64> = (first as i64..shape.len() as i64).collect();
        self.broadcast(x, &dims, shape.to_vec())
    }

    /// The shape that numpy's rule gives for operands of these shapes.
    pub fn broadcast_shape(&self, shapes: &[&[Expr]]) -> Result<Vec<Expr>> {
        let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
        let mut out = vec![Expr::from(1); rank];
        for shape in shapes {
            for (have, add) in out[rank - shape.len()..].iter_mut().zip(*shape) {
                if have.as_const() == Some(1) {
                    have.clone_from(add);
                } else if add.as_const() != Some(1) && have != add {
                    let known = facts::eq(have, add, &self.symbols) == Some(false);
                    let all: Vec<String> = shapes.iter().map(|s| ShapeText(s).to_string()).collect();
                    let all = all.join(" and ");
                    if known {
                        fail!("the shapes {all} do not fit together");
                    }
                    return Err(Diagnostic::new(format!(
                        "the shapes {all} fit together only if {have} equals {add}, which is not known"
                    ))
                    .help("give both dimensions one name (dim_param) when exporting, or fix one of them"));
                }
            }
        }
        Ok(out)
    }

    /// All operands spread to their common shape.
    pub fn spread(&mut self, operands: &[Operand]) -> Result<Vec<Operand>> {
        let shapes: Vec<&[Expr]> = operands.iter().map(Operand::shape).collect();
        let shape = self.broadcast_shape(&shapes)?;
        operands.iter().map(|x| self.broadcast_to(x, &shape)).collect()
    }

    /// A binary op with numpy's broadcasting.
    pub fn spread_binary(&mut self, name: &'static str, a: &Operand, b: &Operand) -> Result<Operand> {
        let both = self.spread(&[a.clone(), b.clone()])?;
        self.binary(name, &both[0], &both[1])
    }

    /// A binary op with a constant.
    pub fn binary_scalar(&mut self, name: &'static str, x: &Operand, c: f64) -> Result<Operand> {
        let c = self.splat_like(x, c)?;
        self.binary(name, x, &c)
    }

    /// The same elements in another shape.
    pub fn reshape(&mut self, x: &Operand, shape: Vec<Expr>) -> Result<Operand> {
        if x.shape() == shape {
            return Ok(x.clone());
        }
        if let (Some(have), Some(want)) = (facts::product(x.shape()), facts::product(&shape)) {
            if facts::eq(&have, &want, &self.symbols) == Some(false) {
                fail!("{} cannot become {}: the number of elements differs", x.ty, ShapeText(&shape));
            }
            if have != want {
                return Err(Diagnostic::new(format!(
                    "{} becomes {} only if {have} equals {want}, which is not known",
                    x.ty,
                    ShapeText(&shape)
                ))
                .help("fix the sizes when exporting, or compute the shape from `Shape` of the operand"));
            }
        }
        let ty = TensorType::new(x.ty.dtype, shape);
        self.check_size(&ty)?;
        // A reshaped shape tensor still describes a shape.
        if let (Some(known), Some(sizes)) = (&x.known, ty.static_shape())
            && sizes.iter().product::<usize>() == known.len()
        {
            return Ok(Operand::known(x.ty.dtype, &sizes, known.to_vec()));
        }
        self.op("reshape", &[x], &[], ty)
    }

    /// Dimension `i` of the result is dimension `permutation[i]` of `x`.
    pub fn transpose(&mut self, x: &Operand, permutation: &[i64]) -> Result<Operand> {
        if permutation.iter().copied().eq(0..x.rank() as i64) {
            return Ok(x.clone());
        }
        let shape = permutation.iter().map(|&p| x.shape()[p as usize].clone());
        let attribute = ("permutation", Attr::Ints(permutation.to_vec()));
        self.op("transpose", &[x], &[attribute], TensorType::new(x.ty.dtype, shape))
    }

    /// Elements `start, start + stride, …` before `limit` of each dimension.
    pub fn slice(
        &mut self,
        x: &Operand,
        starts: &[Expr],
        limits: &[Expr],
        strides: &[i64],
    ) -> Result<Operand> {
        let shape: Vec<Expr> = (0..x.rank())
            .map(|d| (limits[d].clone() - starts[d].clone()).ceil_div(&strides[d].into()))
            .collect();
        if shape == x.shape() && strides.iter().all(|&s| s == 1) {
            return Ok(x.clone());
        }
        let attributes = [
            ("starts", Attr::Dims(starts.to_vec())),
            ("limits", Attr::Dims(limits.to_vec())),
            ("strides", Attr::Ints(strides.to_vec())),
        ];
        self.op("slice", &[x], &attributes, TensorType::new(x.ty.dtype, shape))
    }

    /// A part of one dimension.
    pub fn slice_axis(&mut self, x: &Operand, axis: usize, start: Expr, limit: Expr) -> Result<Operand> {
        let mut starts = vec![Expr::from(0); x.rank()];
        let mut limits = x.shape().to_vec();
        starts[axis] = start;
        limits[axis] = limit;
        self.slice(x, &starts, &limits, &vec![1; x.rank()])
    }

    /// The operands one after another along `axis`.
    pub fn concat(&mut self, parts: &[Operand], axis: usize) -> Result<Operand> {
        let [first, rest @ ..] = parts else { fail!("nothing to concatenate") };
        if rest.is_empty() {
            return Ok(first.clone());
        }
        for part in rest {
            self.same_dtype(first, part)?;
            let fits = part.rank() == first.rank()
                && (0..part.rank()).all(|d| d == axis || part.shape()[d] == first.shape()[d]);
            if !fits {
                fail!("{} and {} cannot be joined along dimension {axis}", first.ty, part.ty);
            }
        }
        let mut ty = first.ty.clone();
        ty.shape[axis] = parts.iter().map(|p| p.shape()[axis].clone()).sum();
        let operands: Vec<&Operand> = parts.iter().collect();
        self.op("concat", &operands, &[("dim", Attr::Int(axis as i64))], ty)
    }

    /// Combines the elements along `dims` (`sum`, `max`, `min`, `prod`), which the result does not have.
    pub fn reduce(&mut self, kind: &'static str, x: &Operand, dims: &[usize]) -> Result<Operand> {
        if dims.is_empty() {
            return Ok(x.clone());
        }
        let kind = match (kind, x.ty.dtype) {
            ("max", DType::I1) => "any",
            ("min", DType::I1) => "all",
            _ => kind,
        };
        let shape = (0..x.rank()).filter(|d| !dims.contains(d)).map(|d| x.shape()[d].clone());
        let dims = dims.iter().map(|&d| d as i64).collect();
        let attributes = [("kind", Attr::Keyword(kind)), ("dims", Attr::Ints(dims))];
        self.op("reduce", &[x], &attributes, TensorType::new(x.ty.dtype, shape))
    }
}
