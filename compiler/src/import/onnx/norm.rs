//! Normalisations, softmax and dropout.

use super::diagnostic::{Result, fail};
use super::emit::Attr;
use super::importer::{Importer, Operand};
use super::node::Node;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// The dimension that a possibly negative axis means.
pub fn axis(axis: i64, rank: usize) -> Result<usize> {
    let moved = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    match usize::try_from(moved) {
        Ok(d) if d < rank => Ok(d),
        _ => fail!("axis {axis} of a tensor of rank {rank}"),
    }
}

/// BatchNormalization: per channel one factor and one summand, which fold into constants.
pub fn batch(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    if node.flag("training_mode", false)? || (node.opset < 14 && node.has_output(1)) {
        fail!("batch statistics are asked for (training form); export the model in evaluation mode");
    }
    if !node.flag("spatial", true)? {
        fail!("spatial = 0 is not supported");
    }
    let x = im.input(node, 0)?;
    if x.rank() < 2 {
        fail!("the operand {} has no channel dimension", x.ty);
    }
    let mut parameters = Vec::new();
    for i in 1..5 {
        let p = im.input(node, i)?;
        if p.rank() != 1 || p.shape()[0] != x.shape()[1] {
            fail!("input {i} is {}, but there are {} channels", p.ty, x.shape()[1]);
        }
        parameters.push(p);
    }
    let [scale, bias, mean, variance] = &parameters[..] else { fail!("four parameters are needed") };
    let epsilon = node.float_or("epsilon", 1e-5)?;
    let shifted = im.binary_scalar("add", variance, epsilon)?;
    let inverse = im.unary("rsqrt", &shifted)?;
    let inverse = im.cast(&inverse, scale.ty.dtype)?;
    let factor = im.binary("mul", scale, &inverse)?;
    let mean = im.cast(mean, scale.ty.dtype)?;
    let moved = im.binary("mul", &mean, &factor)?;
    let summand = im.binary("sub", bias, &moved)?;
    let shape = x.shape().to_vec();
    let mut out = x;
    for (name, p) in [("mul", factor), ("add", summand)] {
        let p = im.cast(&p, out.ty.dtype)?;
        let p = im.broadcast(&p, &[1], shape.clone())?;
        out = im.binary(name, &out, &p)?;
    }
    Ok(vec![out])
}

/// LayerNormalization over the last dimensions.
pub fn layer(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (x, scale) = (im.input(node, 0)?, im.input(node, 1)?);
    let first = axis(node.int_or("axis", -1)?, x.rank())?;
    let inner = x.shape()[first..].to_vec();
    let scale = im.broadcast_to(&scale, &inner)?;
    let bias = match im.optional_input(node, 2)? {
        Some(bias) => im.broadcast_to(&bias, &inner)?,
        None => im.splat_like(&scale, 0.0)?,
    };
    let epsilon = node.float_or("epsilon", 1e-5)?;
    let attributes = [("dims", Attr::Int(inner.len() as i64)), ("epsilon", Attr::Float(epsilon))];
    im.same_dtype(&x, &scale)?;
    im.same_dtype(&x, &bias)?;
    let mut results = vec![im.op("layer_norm", &[&x, &scale, &bias], &attributes, x.ty.clone())?];
    if node.has_output(1) || node.has_output(2) {
        // Exporters name these for training; where nothing reads them, they are dead code.
        let axes: Vec<usize> = (first..x.rank()).collect();
        let mean = im.mean(&x, &axes)?;
        let mean = im.keep_dims(&mean, &axes, x.shape())?;
        let centred = im.spread_binary("sub", &x, &mean)?;
        let square = im.binary("mul", &centred, &centred)?;
        let variance = im.mean(&square, &axes)?;
        let variance = im.keep_dims(&variance, &axes, x.shape())?;
        let shifted = im.binary_scalar("add", &variance, epsilon)?;
        let inverse = im.unary("rsqrt", &shifted)?;
        for statistic in [mean, inverse] {
            results.push(im.cast(&statistic, DType::F32)?);
        }
    }
    Ok(results)
}

/// Softmax and LogSoftmax. Before opset 13 they took all dimensions from `axis` on as one.
pub fn softmax(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    if !x.ty.dtype.is_float() {
        fail!("the operand is {}, not a float tensor", x.ty);
    }
    let old = node.opset < 13;
    let d = axis(node.int_or("axis", if old { 1 } else { -1 })?, x.rank())?;
    if !old || d + 1 == x.rank() {
        return Ok(vec![along(im, node, &x, d)?]);
    }
    let mut shape = x.shape()[..d].to_vec();
    match super::facts::product(&x.shape()[d..]) {
        Some(n) => shape.push(n),
        None => fail!("the sizes of {} are too involved", x.ty),
    }
    let flat = im.reshape(&x, shape)?;
    let out = along(im, node, &flat, d)?;
    Ok(vec![im.reshape(&out, x.ty.shape.clone())?])
}

fn along(im: &mut Importer<'_>, node: &Node<'_>, x: &Operand, d: usize) -> Result<Operand> {
    if node.op() == "Softmax" {
        return im.op("softmax", &[x], &[("dim", Attr::Int(d as i64))], x.ty.clone());
    }
    let dims: Vec<i64> = (0..x.rank() as i64).filter(|&i| i != d as i64).collect();
    let largest = im.reduce("max", x, &[d])?;
    let largest = im.broadcast(&largest, &dims, x.ty.shape.clone())?;
    let shifted = im.binary("sub", x, &largest)?;
    let powers = im.unary("exp", &shifted)?;
    let sum = im.reduce("sum", &powers, &[d])?;
    let log = im.unary("log", &sum)?;
    let log = im.broadcast(&log, &dims, x.ty.shape.clone())?;
    im.binary("sub", &shifted, &log)
}

/// Dropout: nothing is dropped in inference; the mask is all true.
pub fn dropout(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let training = im.optional_input(node, 2)?;
    if training.is_some_and(|t| t.numbers().is_none_or(|n| n.iter().any(|&t| t != 0))) {
        fail!("training_mode is not known to be false; export the model in evaluation mode");
    }
    let mut results = vec![x.clone()];
    if node.has_output(1) {
        let shape: Vec<Expr> = x.shape().to_vec();
        // Before opset 10 the mask has the operand's element type.
        let dtype = if node.opset < 10 { x.ty.dtype } else { DType::I1 };
        results.push(im.splat(dtype, shape, 1.0)?);
    }
    Ok(results)
}
