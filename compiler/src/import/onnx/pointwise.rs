//! Elementwise operators.

use super::diagnostic::{Diagnostic, Result, fail};
use super::importer::{Importer, Operand};
use super::node::Node;
use super::tensor;
use strata_runtime::DType;

/// Operators of one operand that the graph dialect has by another name.
pub fn unary(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    if let Some(known) = im.fold(node.op(), &[&x]) {
        return Ok(vec![known]);
    }
    let (name, takes_integers) = match node.op() {
        "Abs" => ("abs", true),
        "Ceil" => ("ceil", false),
        "Cos" => ("cos", false),
        "Erf" => ("erf", false),
        "Exp" => ("exp", false),
        "Floor" => ("floor", false),
        "Log" => ("log", false),
        "Neg" => ("neg", true),
        "Not" => ("not", true),
        // Halves go to the even neighbour, as in the dialect.
        "Round" => ("round", false),
        "Sigmoid" => ("logistic", false),
        "Sign" => ("sign", true),
        "Sin" => ("sin", false),
        "Sqrt" => ("sqrt", false),
        "Tanh" => ("tanh", false),
        other => fail!("'{other}' has a row but no name"),
    };
    if !takes_integers && !x.ty.dtype.is_float() {
        fail!("the operand is {}, not a float tensor", x.ty);
    }
    if node.op() == "Not" && x.ty.dtype != DType::I1 {
        fail!("the operand is {}, not a truth tensor", x.ty);
    }
    Ok(vec![im.unary(name, &x)?])
}

/// Arithmetic of two operands.
pub fn binary(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (a, b) = (im.input(node, 0)?, im.input(node, 1)?);
    im.same_dtype(&a, &b)?;
    if let Some(known) = im.fold(node.op(), &[&a, &b]) {
        return Ok(vec![known]);
    }
    let name = match node.op() {
        "Add" => "add",
        "Sub" => "sub",
        "Mul" => "mul",
        _ => "div",
    };
    Ok(vec![im.spread_binary(name, &a, &b)?])
}

/// Logic of two truth operands.
pub fn logic(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (a, b) = (im.input(node, 0)?, im.input(node, 1)?);
    if a.ty.dtype != DType::I1 || b.ty.dtype != DType::I1 {
        fail!("the operands are {} and {}, not truth tensors", a.ty, b.ty);
    }
    if let Some(known) = im.fold(node.op(), &[&a, &b]) {
        return Ok(vec![known]);
    }
    let name = match node.op() {
        "And" => "and",
        "Or" => "or",
        _ => "xor",
    };
    Ok(vec![im.spread_binary(name, &a, &b)?])
}

/// Comparisons.
pub fn compare(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (a, b) = (im.input(node, 0)?, im.input(node, 1)?);
    im.same_dtype(&a, &b)?;
    if let Some(known) = im.fold(node.op(), &[&a, &b]) {
        return Ok(vec![known]);
    }
    let direction = match node.op() {
        "Equal" => "eq",
        "Less" => "lt",
        "LessOrEqual" => "le",
        "Greater" => "gt",
        _ => "ge",
    };
    let both = im.spread(&[a, b])?;
    Ok(vec![im.compare(direction, &both[0], &both[1])?])
}

/// Min, Max, Sum and Mean of any number of operands.
pub fn variadic(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (fold, name) = match node.op() {
        "Min" => ("Min", "min"),
        "Max" => ("Max", "max"),
        _ => ("Add", "add"),
    };
    let count = node.proto.input.len();
    let mut out = im.input(node, 0)?;
    for i in 1..count {
        let next = im.input(node, i)?;
        im.same_dtype(&out, &next)?;
        out = match im.fold(fold, &[&out, &next]) {
            Some(known) => known,
            None => im.spread_binary(name, &out, &next)?,
        };
    }
    if node.op() == "Mean" {
        out = im.binary_scalar("div", &out, count as f64)?;
    }
    Ok(vec![out])
}

/// Mod: Python's remainder, or C's with `fmod`.
pub fn modulo(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (a, b) = (im.input(node, 0)?, im.input(node, 1)?);
    im.same_dtype(&a, &b)?;
    let c_remainder = node.flag("fmod", false)?;
    if a.ty.dtype.is_float() && !c_remainder {
        fail!("float operands need fmod = 1");
    }
    if let Some(known) = im.fold("Mod", &[&a, &b]).filter(|_| !c_remainder) {
        return Ok(vec![known]);
    }
    let both = im.spread(&[a, b])?;
    let rest = im.binary("rem", &both[0], &both[1])?;
    if c_remainder {
        return Ok(vec![rest]);
    }
    // The remainder takes the divisor's sign.
    let zero = im.splat_like(&rest, 0.0)?;
    let negative = im.compare("lt", &rest, &zero)?;
    let divisor_negative = im.compare("lt", &both[1], &zero)?;
    let differ = im.binary("xor", &negative, &divisor_negative)?;
    let nonzero = im.compare("ne", &rest, &zero)?;
    let wrong = im.binary("and", &differ, &nonzero)?;
    let moved = im.binary("add", &rest, &both[1])?;
    Ok(vec![im.select(&wrong, &moved, &rest)?])
}

/// Pow: the exponent may be of another type than the base.
pub fn pow(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (base, exponent) = (im.input(node, 0)?, im.input(node, 1)?);
    if exponent.ty.dtype.is_float() && !base.ty.dtype.is_float() {
        let wide = im.cast(&base, exponent.ty.dtype)?;
        let power = im.spread_binary("pow", &wide, &exponent)?;
        return Ok(vec![im.cast(&power, base.ty.dtype)?]);
    }
    let exponent = im.cast(&exponent, base.ty.dtype)?;
    Ok(vec![im.spread_binary("pow", &base, &exponent)?])
}

/// Where.
pub fn choose(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let all = [im.input(node, 0)?, im.input(node, 1)?, im.input(node, 2)?];
    if all[0].ty.dtype != DType::I1 {
        fail!("the condition is {}, not a truth tensor", all[0].ty);
    }
    im.same_dtype(&all[1], &all[2])?;
    if let Some(known) = im.fold("Where", &[&all[0], &all[1], &all[2]]) {
        return Ok(vec![known]);
    }
    let all = im.spread(&all)?;
    Ok(vec![im.select(&all[0], &all[1], &all[2])?])
}

/// Cast.
pub fn cast(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let to = node.int("to")?.ok_or_else(|| Diagnostic::new("attribute 'to' is missing"))?;
    let to = tensor::dtype(i32::try_from(to).unwrap_or(-1))?;
    cast_to(im, &x, to)
}

/// CastLike.
pub fn cast_like(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (x, like) = (im.input(node, 0)?, im.input(node, 1)?);
    cast_to(im, &x, like.ty.dtype)
}

fn cast_to(im: &mut Importer<'_>, x: &Operand, to: DType) -> Result<Vec<Operand>> {
    if let Some(known) = &x.known {
        let widens = !to.is_float() && to.size() >= x.ty.dtype.size() && to != DType::I1;
        if widens {
            let shape = x.ty.static_shape().unwrap_or_default();
            return Ok(vec![Operand::known(to, &shape, known.to_vec())]);
        }
    }
    Ok(vec![im.cast(x, to)?])
}

/// Clip: bounds as attributes up to opset 10, as inputs after.
pub fn clip(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let mut x = im.input(node, 0)?;
    for (i, attribute, name) in [(1, "min", "max"), (2, "max", "min")] {
        let bound = if node.opset < 11 {
            node.float(attribute)?.map(|c| im.scalar(x.ty.dtype, c))
        } else {
            im.optional_input(node, i)?
        };
        if let Some(bound) = bound {
            x = im.spread_binary(name, &x, &bound)?;
        }
    }
    Ok(vec![x])
}

/// Relu.
pub fn relu(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    Ok(vec![im.binary_scalar("max", &x, 0.0)?])
}

/// LeakyRelu.
pub fn leaky_relu(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let slope = node.float_or("alpha", 0.01)?;
    let zero = im.splat_like(&x, 0.0)?;
    let negative = im.compare("lt", &x, &zero)?;
    let scaled = im.binary_scalar("mul", &x, slope)?;
    Ok(vec![im.select(&negative, &scaled, &x)?])
}

/// Reciprocal.
pub fn reciprocal(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let one = im.splat_like(&x, 1.0)?;
    Ok(vec![im.binary("div", &one, &x)?])
}

/// Gelu: exact, or the tanh approximation.
pub fn gelu(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let inner = match node.string_or("approximate", "none")? {
        "none" => {
            let scaled = im.binary_scalar("mul", &x, std::f64::consts::FRAC_1_SQRT_2)?;
            im.unary("erf", &scaled)?
        }
        "tanh" => {
            let square = im.binary("mul", &x, &x)?;
            let cube = im.binary("mul", &square, &x)?;
            let small = im.binary_scalar("mul", &cube, 0.044715)?;
            let sum = im.binary("add", &x, &small)?;
            let scaled = im.binary_scalar("mul", &sum, (2.0 / std::f64::consts::PI).sqrt())?;
            im.unary("tanh", &scaled)?
        }
        other => fail!("attribute 'approximate' is '{other}', not 'none' or 'tanh'"),
    };
    let gate = im.binary_scalar("add", &inner, 1.0)?;
    let half = im.binary_scalar("mul", &x, 0.5)?;
    Ok(vec![im.binary("mul", &half, &gate)?])
}
