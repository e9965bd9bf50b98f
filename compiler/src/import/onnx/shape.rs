//! Operators that make, move or describe shapes.

use super::diagnostic::{Diagnostic, Result, fail};
use super::emit::{Attr, ShapeText};
use super::facts;
use super::importer::{Importer, MAX_KNOWN, Operand};
use super::node::Node;
use super::norm::axis;
use super::table::not_known;
use super::tensor::{MAX_RANK, Tensor};
use strata_dialects::TensorType;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

impl Importer<'_> {
    /// A shape that an input gives.
    pub fn shape_input(&self, node: &Node<'_>, i: usize) -> Result<Vec<Expr>> {
        let x = self.input(node, i)?;
        match &x.known {
            Some(known) if x.rank() <= 1 && known.len() <= MAX_RANK => Ok(known.to_vec()),
            Some(_) => fail!("input {i} is {}, not a list of at most {MAX_RANK} sizes", x.ty),
            None => Err(not_known("the shape")),
        }
    }
}

/// Identity.
pub fn identity(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    Ok(vec![im.input(node, 0)?])
}

/// Constant, in its numeric forms.
pub fn constant(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let tensor = if let Some(t) = node.tensor("value")? {
        im.tensor(t)?
    } else if let Some(i) = node.int("value_int")? {
        Tensor::from_i64(DType::I64, vec![], &[i])
    } else if let Some(v) = node.ints("value_ints")? {
        Tensor::from_i64(DType::I64, vec![v.len() as i64], v)
    } else if let Some(x) = node.float("value_float")? {
        Tensor::from_f64(DType::F32, vec![], &[x])
    } else if let Some(v) = node.floats("value_floats")? {
        let values: Vec<f64> = v.iter().map(|&x| x.into()).collect();
        Tensor::from_f64(DType::F32, vec![v.len() as i64], &values)
    } else {
        fail!("the constant holds no numeric value");
    };
    Ok(vec![Operand::stored(tensor)])
}

/// ConstantOfShape.
pub fn constant_of_shape(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let shape = im.shape_input(node, 0)?;
    let value = match node.tensor("value")? {
        Some(t) => im.tensor(t)?,
        None => Tensor::from_f64(DType::F32, vec![1], &[0.0]),
    };
    if value.len() != 1 {
        fail!("the value has {} elements, not one", value.len());
    }
    let scalar = Operand::stored(Tensor { shape: vec![], ..value });
    let ty = TensorType::new(scalar.ty.dtype, shape.iter().cloned());
    im.check_size(&ty)?;
    if let (Some(known), Some(sizes)) = (&scalar.known, ty.static_shape())
        && sizes.iter().product::<usize>() <= MAX_KNOWN
    {
        let elements = vec![known[0].clone(); sizes.iter().product()];
        return Ok(vec![Operand::known(scalar.ty.dtype, &sizes, elements)]);
    }
    Ok(vec![im.broadcast(&scalar, &[], shape)?])
}

/// Range over integers; a float range must be constant.
pub fn range(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let inputs = [im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?];
    if inputs.iter().any(|x| x.rank() > 1 || x.ty.dtype != inputs[0].ty.dtype) {
        fail!("start, limit and delta must be scalars of one type");
    }
    let dtype = inputs[0].ty.dtype;
    if dtype.is_float() {
        let numbers: Option<Vec<f64>> =
            inputs.iter().map(|x| x.data.as_ref().and_then(|d| d.to_f64().first().copied())).collect();
        let Some([start, limit, delta]) = numbers.as_deref() else { return Err(not_known("the range")) };
        let count = ((limit - start) / delta).ceil();
        if !(count.is_finite() && count < 9e15) {
            fail!("the range from {start} to {limit} in steps of {delta} does not end");
        }
        let count = im.iota(dtype, vec![Expr::from(count.max(0.0) as i64)], 0)?;
        let scaled = im.binary_scalar("mul", &count, *delta)?;
        return Ok(vec![im.binary_scalar("add", &scaled, *start)?]);
    }
    let known: Option<Vec<Expr>> =
        inputs.iter().map(|x| x.known.as_ref().and_then(|k| k.first().cloned())).collect();
    let Some([start, limit, delta]) = known.as_deref() else { return Err(not_known("the range")) };
    let Some(step) = delta.as_const().filter(|&d| d != 0) else {
        fail!("the range's step must be a number but 0")
    };
    let length = if step > 0 { limit.clone() - start.clone() } else { start.clone() - limit.clone() };
    let Some(size) = step.checked_abs() else { fail!("the range's step {step} is out of bounds") };
    let count = facts::max(&length.ceil_div(&size.into()), &0.into(), &im.symbols);
    if let (Some(n), Some(first)) = (count.as_const().filter(|&n| n <= MAX_KNOWN as i64), start.as_const()) {
        let values = (0..n).map(|i| first.wrapping_add(i.wrapping_mul(step)).into()).collect();
        return Ok(vec![Operand::known(dtype, &[n as usize], values)]);
    }
    let mut out = im.iota(dtype, vec![count], 0)?;
    if step != 1 {
        out = im.binary_scalar("mul", &out, step as f64)?;
    }
    if start.as_const() != Some(0) {
        let start = im.size(start, dtype)?;
        out = im.spread_binary("add", &out, &start)?;
    }
    Ok(vec![out])
}

/// Shape, also of a part of the dimensions.
pub fn shape(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let rank = x.rank() as i64;
    let bound = |name: &str, default: i64| -> Result<usize> {
        let at = node.int_or(name, default)?;
        Ok((if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let part = x.shape().get(start..end).unwrap_or_default().to_vec();
    Ok(vec![Operand::known(DType::I64, &[part.len()], part)])
}

/// Size.
pub fn size(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let Some(count) = facts::product(x.shape()) else { fail!("the sizes of {} are too involved", x.ty) };
    Ok(vec![Operand::known(DType::I64, &[], vec![count])])
}

/// Reshape: 0 copies a size (unless `allowzero`), one -1 takes what is left.
pub fn reshape(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let mut shape = im.shape_input(node, 1)?;
    let allow_zero = node.flag("allowzero", false)?;
    let mut inferred = None;
    for (d, size) in shape.iter_mut().enumerate() {
        match size.as_const() {
            Some(0) if !allow_zero => match x.shape().get(d) {
                Some(n) => size.clone_from(n),
                None => fail!("size 0 at dimension {d} copies a size that {} does not have", x.ty),
            },
            Some(-1) if inferred.replace(d).is_some() => fail!("two sizes are -1"),
            Some(-1) => *size = 1.into(),
            Some(n) if n < 0 => fail!("dimension {d} has the size {n}"),
            _ => {}
        }
    }
    if let Some(d) = inferred {
        let (Some(all), Some(rest)) = (facts::product(x.shape()), facts::product(&shape)) else {
            fail!("the sizes of {} and {} are too involved", x.ty, ShapeText(&shape));
        };
        shape[d] = match (all.as_const(), rest.as_const()) {
            (_, Some(r)) if r <= 0 => fail!("a size is to be inferred beside {r} elements"),
            (Some(a), Some(r)) if a % r != 0 => {
                fail!("{} does not divide into {} with one size inferred", x.ty, ShapeText(&shape))
            }
            _ => all.floor_div(&rest),
        };
    }
    Ok(vec![im.reshape(&x, shape)?])
}

/// Flatten to a matrix.
pub fn flatten(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let at = node.int_or("axis", 1)?;
    let d = if at == x.rank() as i64 { x.rank() } else { axis(at, x.rank())? };
    let (Some(rows), Some(columns)) = (facts::product(&x.shape()[..d]), facts::product(&x.shape()[d..]))
    else {
        fail!("the sizes of {} are too involved", x.ty);
    };
    Ok(vec![im.reshape(&x, vec![rows, columns])?])
}

/// Transpose; without `perm` the dimensions are reversed.
pub fn transpose(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let permutation = match node.ints("perm")? {
        Some(p) => p.to_vec(),
        None => (0..x.rank() as i64).rev().collect(),
    };
    let mut sorted = permutation.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..x.rank() as i64) {
        fail!("perm {permutation:?} is not an order of the dimensions of {}", x.ty);
    }
    Ok(vec![im.transpose(&x, &permutation)?])
}

/// Squeeze; without axes every size of 1 goes.
pub fn squeeze(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let one = |d: usize| x.shape()[d].as_const() == Some(1);
    let axes = match im.axes(node, 1, x.rank())? {
        Some(axes) => axes,
        None => (0..x.rank()).filter(|&d| one(d)).collect(),
    };
    if let Some(d) = axes.iter().find(|&&d| !one(d)) {
        fail!("dimension {d} of {} is not known to be 1", x.ty);
    }
    let shape = (0..x.rank()).filter(|d| !axes.contains(d)).map(|d| x.shape()[d].clone()).collect();
    Ok(vec![im.reshape(&x, shape)?])
}

/// Unsqueeze.
pub fn unsqueeze(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let count = match node.ints("axes")? {
        Some(axes) => axes.len(),
        None => im.input(node, 1)?.numbers().ok_or_else(|| not_known("the list of axes"))?.len(),
    };
    let rank = x.rank() + count;
    if rank > MAX_RANK {
        fail!("the result would have rank {rank} (at most {MAX_RANK} is accepted)");
    }
    let axes = im.axes(node, 1, rank)?.unwrap_or_default();
    let mut sizes = x.shape().iter().cloned();
    let shape = (0..rank).map(|d| if axes.contains(&d) { Some(1.into()) } else { sizes.next() });
    let shape = shape.collect::<Option<Vec<Expr>>>().ok_or_else(|| Diagnostic::new("too few axes"))?;
    Ok(vec![im.reshape(&x, shape)?])
}

/// Concat.
pub fn concat(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let parts = (0..node.proto.input.len()).map(|i| im.input(node, i)).collect::<Result<Vec<_>>>()?;
    let at = node.int("axis")?.ok_or_else(|| Diagnostic::new("attribute 'axis' is missing"))?;
    let d = axis(at, parts[0].rank())?;
    if let Some(known) = im.fold_concat(&parts, d) {
        return Ok(vec![known]);
    }
    Ok(vec![im.concat(&parts, d)?])
}

/// Expand: both the operand and the shape may hold ones.
pub fn expand(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let shape = im.shape_input(node, 1)?;
    let shape = im.broadcast_shape(&[x.shape(), &shape])?;
    Ok(vec![im.broadcast_to(&x, &shape)?])
}

/// Tile: each dimension gets one before it that repeats, then the two are one.
pub fn tile(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let repeats = im.shape_input(node, 1)?;
    if repeats.len() != x.rank() {
        fail!("{} repeats for {}", repeats.len(), x.ty);
    }
    if repeats.iter().all(|r| r.as_const() == Some(1)) {
        return Ok(vec![x]);
    }
    let (mut wide, mut dims, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for (n, r) in x.shape().iter().zip(&repeats) {
        if r.as_const() != Some(1) {
            wide.push(r.clone());
        }
        dims.push(wide.len() as i64);
        wide.push(n.clone());
        out.push(facts::product([n, r]).ok_or_else(|| Diagnostic::new("the sizes are too involved"))?);
    }
    let wide = im.broadcast(&x, &dims, wide)?;
    Ok(vec![im.reshape(&wide, out)?])
}

/// Trilu: the upper or lower triangle of the last two dimensions, zeros elsewhere.
pub fn trilu(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    if x.rank() < 2 {
        fail!("the operand {} is not a matrix", x.ty);
    }
    let k = match im.optional_input(node, 1)? {
        Some(k) => k.numbers().and_then(|k| k.first().copied()).ok_or_else(|| not_known("the diagonal"))?,
        None => 0,
    };
    let matrix = x.shape()[x.rank() - 2..].to_vec();
    let row = im.iota(DType::I64, matrix.clone(), 0)?;
    let column = im.iota(DType::I64, matrix, 1)?;
    let distance = im.binary("sub", &column, &row)?;
    let diagonal = im.splat_like(&distance, 0.0)?;
    let diagonal = if k == 0 {
        diagonal
    } else {
        let k = Operand::stored(Tensor::from_i64(DType::I64, vec![], &[k]));
        im.broadcast_to(&k, distance.shape())?
    };
    let direction = if node.flag("upper", true)? { "ge" } else { "le" };
    let kept = im.compare(direction, &distance, &diagonal)?;
    let kept = im.broadcast_to(&kept, x.shape())?;
    let zero = im.splat_like(&x, 0.0)?;
    Ok(vec![im.select(&kept, &x, &zero)?])
}

/// Pad with a constant. Negative amounts cut off.
pub fn pad(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let mode = node.string_or("mode", "constant")?;
    if mode != "constant" {
        fail!("mode '{mode}' is not supported, only 'constant'");
    }
    let (amounts, value) = if node.opset < 11 {
        let amounts = node.ints("pads")?.ok_or_else(|| Diagnostic::new("attribute 'pads' is missing"))?;
        (amounts.to_vec(), im.scalar(x.ty.dtype, node.float_or("value", 0.0)?))
    } else {
        let amounts = im.input(node, 1)?.numbers().ok_or_else(|| not_known("the padding"))?;
        let value = im.optional_input(node, 2)?;
        (amounts, value.unwrap_or_else(|| im.scalar(x.ty.dtype, 0.0)))
    };
    let axes = match im.optional_input(node, 3)? {
        None => (0..x.rank()).collect(),
        Some(given) => {
            let given = given.numbers().ok_or_else(|| not_known("the list of axes"))?;
            given.iter().map(|&a| axis(a, x.rank())).collect::<Result<Vec<_>>>()?
        }
    };
    if amounts.len() != 2 * axes.len() || amounts.iter().any(|a| a.unsigned_abs() >= 1 << 32) {
        fail!("pads {amounts:?} for {} dimensions", axes.len());
    }
    let (mut low, mut high) = (vec![0; x.rank()], vec![0; x.rank()]);
    for (i, &d) in axes.iter().enumerate() {
        (low[d], high[d]) = (amounts[i], amounts[axes.len() + i]);
    }
    let starts: Vec<Expr> = low.iter().map(|&l| Expr::from(-l.min(0))).collect();
    let limits: Vec<Expr> = x.shape().iter().zip(&high).map(|(n, &h)| n.clone() + h.min(0).into()).collect();
    let cut = im.slice(&x, &starts, &limits, &vec![1; x.rank()])?;
    im.same_dtype(&cut, &value)?;
    let value = im.reshape(&value, vec![])?;
    let out = im.pad(
        &cut,
        &value,
        low.iter().map(|&l| l.max(0)).collect(),
        high.iter().map(|&h| h.max(0)).collect(),
    )?;
    Ok(vec![out])
}

impl Importer<'_> {
    /// `value` before and after each dimension.
    pub fn pad(&mut self, x: &Operand, value: &Operand, low: Vec<i64>, high: Vec<i64>) -> Result<Operand> {
        if low.iter().chain(&high).all(|&p| p == 0) {
            return Ok(x.clone());
        }
        let sizes = x.shape().iter().zip(low.iter().zip(&high));
        let shape = sizes.map(|(n, (&l, &h))| n.clone() + (l + h).into()).collect::<Vec<_>>();
        let dims = |v: Vec<i64>| Attr::Dims(v.into_iter().map(Expr::from).collect());
        let attributes = [("low", dims(low)), ("high", dims(high))];
        self.op("pad", &[x, value], &attributes, TensorType::new(x.ty.dtype, shape))
    }
}
