//! Operators that pick parts of a tensor.

use super::diagnostic::{Diagnostic, Result, fail};
use super::emit::Attr;
use super::facts;
use super::importer::{Importer, Operand};
use super::node::Node;
use super::norm::axis;
use super::table::not_known;
use super::tensor::MAX_RANK;
use strata_dialects::TensorType;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

impl Importer<'_> {
    /// Indices of a dimension, counted from the end where they are negative; others are an error of whoever runs the model.
    fn checked(&mut self, indices: &Operand, size: Expr) -> Result<Operand> {
        let attributes = [
            ("size", Attr::Dims(vec![size])),
            ("wrap", Attr::Bool(true)),
            ("message", Attr::Text("Gather: an index is out of range")),
        ];
        self.op("check_index", &[indices], &attributes, indices.ty.clone())
    }

    /// The dimension `d` of `x` replaced by the dimensions of `indices`; negative ones count from the end.
    fn gather(&mut self, x: &Operand, indices: &Operand, d: usize) -> Result<Operand> {
        let shape = [&x.shape()[..d], indices.shape(), &x.shape()[d + 1..]].concat();
        if shape.len() > MAX_RANK {
            fail!("the result would have rank {} (at most {MAX_RANK} is accepted)", shape.len());
        }
        let ty = TensorType::new(x.ty.dtype, shape);
        self.op("gather", &[x, indices], &[("dim", Attr::Int(d as i64))], ty)
    }
}

/// Gather along one axis; negative indices count from the end.
pub fn gather(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let (x, indices) = (im.input(node, 0)?, im.input(node, 1)?);
    if !matches!(indices.ty.dtype, DType::I64 | DType::I32) {
        fail!("the indices are {}, not int32 or int64", indices.ty);
    }
    let d = axis(node.int_or("axis", 0)?, x.rank())?;
    if let Some(known) = im.fold_gather(&x, &indices, d) {
        return Ok(vec![known]);
    }
    let size = x.shape()[d].clone();
    let Some(numbers) = indices.numbers() else {
        let indices = im.checked(&indices, size)?;
        return Ok(vec![im.gather(&x, &indices, d)?]);
    };
    let mut known = true;
    for &i in &numbers {
        let end = if i < 0 { Expr::from(i.saturating_neg()) } else { Expr::from(i.saturating_add(1)) };
        match facts::le(&end, &size, &im.symbols) {
            Some(false) => fail!("index {i} in a dimension of size {size}"),
            Some(true) => {}
            None => known = false,
        }
    }
    if let ([i], 0) = (&numbers[..], indices.rank()) {
        // One position is a slice without its dimension.
        let at = if *i < 0 { size + (*i).into() } else { (*i).into() };
        let part = im.slice_axis(&x, d, at.clone(), at + 1.into())?;
        let mut shape = x.shape().to_vec();
        shape.remove(d);
        return Ok(vec![im.reshape(&part, shape)?]);
    }
    let indices = if known { indices } else { im.checked(&indices, size)? };
    Ok(vec![im.gather(&x, &indices, d)?])
}

/// One dimension of a slice: `start, start + step, …`, `count` of them.
struct Part {
    start: Expr,
    limit: Expr,
    step: i64,
    count: Expr,
}

/// Slice: attributes up to opset 9, inputs after.
pub fn slice(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let missing = |what: &str| Diagnostic::new(format!("the {what} are missing"));
    let numbers = |v: Option<&[i64]>| v.map(|v| v.iter().map(|&i| Expr::from(i)).collect::<Vec<_>>());
    let (starts, ends, axes, steps) = if node.opset < 10 {
        let axes = node.ints("axes")?.map(<[i64]>::to_vec);
        (numbers(node.ints("starts")?), numbers(node.ints("ends")?), axes, None)
    } else {
        let list = |i: usize, what: &str| -> Result<Option<Vec<i64>>> {
            let Some(input) = im.optional_input(node, i)? else { return Ok(None) };
            input.numbers().map(Some).ok_or_else(|| not_known(what))
        };
        let steps = list(4, "the list of steps")?;
        (Some(im.shape_input(node, 1)?), Some(im.shape_input(node, 2)?), list(3, "the list of axes")?, steps)
    };
    let (starts, ends) = (starts.ok_or_else(|| missing("starts"))?, ends.ok_or_else(|| missing("ends"))?);
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        fail!("{} starts, {} ends, {} axes, {} steps", starts.len(), ends.len(), axes.len(), steps.len());
    }
    let mut parts: Vec<Option<Part>> = (0..x.rank()).map(|_| None).collect();
    for i in 0..starts.len() {
        let d = axis(axes[i], x.rank())?;
        if parts[d].is_some() {
            fail!("axes {axes:?} name a dimension twice");
        }
        parts[d] = Some(part(im, &x.shape()[d], &starts[i], &ends[i], steps[i])?);
    }
    if let [Some(p)] = &parts[..]
        && let (Some(start), Some(count)) = (p.start.as_const(), p.count.as_const())
        && let Some(known) = im.fold_slice(&x, start, p.step, count)
    {
        return Ok(vec![known]);
    }
    let (mut from, mut to, mut strides) =
        (vec![Expr::from(0); x.rank()], x.shape().to_vec(), vec![1; x.rank()]);
    let mut backwards = Vec::new();
    for (d, part) in parts.into_iter().enumerate() {
        match part {
            Some(p) if p.step > 0 => (from[d], to[d], strides[d]) = (p.start, p.limit, p.step),
            Some(p) => backwards.push((d, p)),
            None => {}
        }
    }
    let mut out = im.slice(&x, &from, &to, &strides)?;
    for (d, p) in backwards {
        // A slice only runs forwards; a descending list of positions does the rest.
        let count = im.iota(DType::I64, vec![p.count], 0)?;
        let scaled = im.binary_scalar("mul", &count, p.step as f64)?;
        let start = im.size(&p.start, DType::I64)?;
        let indices = im.spread_binary("add", &scaled, &start)?;
        out = im.gather(&out, &indices, d)?;
    }
    Ok(vec![out])
}

/// The positions that start, end and step mean in a dimension of size `n`, by Python's rule.
fn part(im: &mut Importer<'_>, n: &Expr, start: &Expr, end: &Expr, step: i64) -> Result<Part> {
    const LIMIT: i64 = 1 << 31;
    if step == 0 || step.unsigned_abs() > LIMIT as u64 {
        fail!("the step {step} is 0 or absurdly large");
    }
    // The last element exists only where there is one; without this, "the last" would need a case for empty tensors.
    if let (Some(-1), Some(s)) = (start.as_const(), n.as_sym()) {
        let min = &mut im.symbols[s.0 as usize].min;
        *min = (*min).max(1);
    }
    // Decoders cut tables of a fixed length (masks, positions) to the sequence's: a longer sequence would not fit
    // whatever the cut table is combined with, so that clamping, which would make the size a minimum, is never meant.
    if let (Some(size), Some(s), true) = (n.as_const(), end.as_sym(), step > 0) {
        let max = &mut im.symbols[s.0 as usize].max;
        *max = (*max).min(size);
    }
    let symbols = &im.symbols;
    let (zero, one) = (Expr::from(0), Expr::from(1));
    let (lowest, highest) =
        if step > 0 { (zero.clone(), n.clone()) } else { (Expr::from(-1), n.clone() - one) };
    let place = |at: &Expr| -> Result<Expr> {
        // "To the very end" is written as a huge number, either way round.
        match at.as_const() {
            Some(c) if c >= LIMIT - 1 => return Ok(highest.clone()),
            Some(c) if c <= -LIMIT => return Ok(lowest.clone()),
            _ => {}
        }
        let at = match facts::le(&zero, at, symbols) {
            Some(true) => at.clone(),
            Some(false) => at.clone() + n.clone(),
            None => {
                return Err(Diagnostic::new(format!(
                    "whether the position {at} counts from the end is not known"
                ))
                .help("use a constant or a plain size as the slice's start and end"));
            }
        };
        Ok(facts::max(&facts::min(&at, &highest, symbols), &lowest, symbols))
    };
    let (start, limit) = (place(start)?, place(end)?);
    let start = if step > 0 { facts::min(&start, n, symbols) } else { start };
    let limit = if step > 0 { facts::max(&limit, &start, symbols) } else { limit };
    let length = if step > 0 { limit.clone() - start.clone() } else { start.clone() - limit.clone() };
    let size = Expr::from(step.abs());
    let count = facts::max(&facts::max(&length, &zero, symbols).ceil_div(&size), &zero, symbols);
    Ok(Part { start, limit, step, count })
}

/// Split: sizes from an attribute, an input, or as equal as possible.
pub fn split(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let d = axis(node.int_or("axis", 0)?, x.rank())?;
    let outputs = node.proto.output.len();
    let n = x.shape()[d].clone();
    let sizes = match (node.ints("split")?, im.optional_input(node, 1)?) {
        (Some(sizes), _) => sizes.iter().map(|&s| s.into()).collect(),
        (None, Some(_)) => im.shape_input(node, 1)?,
        (None, None) => {
            let count = node.int_or("num_outputs", outputs as i64)?;
            if count != outputs as i64 || count < 1 {
                fail!("num_outputs is {count}, but the node has {outputs} outputs");
            }
            let each = n.ceil_div(&count.into());
            let mut sizes = vec![each.clone(); outputs - 1];
            sizes.push(n.clone() - each * Expr::from(count - 1));
            sizes
        }
    };
    if sizes.len() != outputs || sizes.iter().cloned().sum::<Expr>() != n {
        fail!("sizes {} for {outputs} outputs of a dimension of size {n}", super::emit::ShapeText(&sizes));
    }
    let mut at = Expr::from(0);
    let mut parts = Vec::new();
    for size in sizes {
        let end = at.clone() + size;
        parts.push(im.slice_axis(&x, d, at, end.clone())?);
        at = end;
    }
    Ok(parts)
}
