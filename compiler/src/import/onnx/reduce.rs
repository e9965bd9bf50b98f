//! Reductions.

use super::diagnostic::{Result, fail};
use super::emit::Attr;
use super::facts;
use super::importer::{Importer, Operand};
use super::node::Node;
use super::norm::axis;
use super::table::not_known;
use strata_dialects::TensorType;
use strata_runtime::DType;
use strata_runtime::sym::Expr;

impl Importer<'_> {
    /// Axes from the attribute or from an input, whichever the node has; `None` where it has neither.
    pub fn axes(&self, node: &Node<'_>, input: usize, rank: usize) -> Result<Option<Vec<usize>>> {
        let given = match (node.ints("axes")?, self.optional_input(node, input)?) {
            (Some(axes), None) => axes.to_vec(),
            (None, Some(x)) => x.numbers().ok_or_else(|| not_known("the list of axes"))?,
            (None, None) => return Ok(None),
            _ => fail!("axes are given as attribute and as input"),
        };
        let mut out = given.iter().map(|&a| axis(a, rank)).collect::<Result<Vec<_>>>()?;
        out.sort_unstable();
        out.dedup();
        if out.len() != given.len() {
            fail!("axes {given:?} name a dimension twice");
        }
        Ok(Some(out))
    }

    /// Puts the reduced dimensions back with size 1.
    pub fn keep_dims(&mut self, x: &Operand, axes: &[usize], shape: &[Expr]) -> Result<Operand> {
        let kept =
            shape.iter().enumerate().map(|(d, n)| if axes.contains(&d) { 1.into() } else { n.clone() });
        self.reshape(x, kept.collect())
    }

    /// The mean over `axes`, which the result does not have.
    pub fn mean(&mut self, x: &Operand, axes: &[usize]) -> Result<Operand> {
        let sum = self.reduce("sum", x, axes)?;
        let Some(count) = facts::product(axes.iter().map(|&d| &x.shape()[d])) else {
            fail!("the sizes of {} are too involved", x.ty);
        };
        if let Some(n) = count.as_const() {
            return self.binary_scalar("div", &sum, n as f64);
        }
        let count = self.size(&count, DType::I64)?;
        let count = self.cast(&count, x.ty.dtype)?;
        self.spread_binary("div", &sum, &count)
    }
}

/// ReduceSum and its relatives.
pub fn reduce(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    let mut axes = im.axes(node, 1, x.rank())?.unwrap_or_default();
    if axes.is_empty() && !node.flag("noop_with_empty_axes", false)? {
        axes = (0..x.rank()).collect();
    }
    let keep = node.flag("keepdims", true)?;
    if let Some(known) = im.fold_reduce(node, &x, &axes, keep) {
        return Ok(vec![known]);
    }
    let out = match node.op() {
        "ReduceMean" => im.mean(&x, &axes)?,
        "ReduceSum" => im.reduce("sum", &x, &axes)?,
        "ReduceMax" => im.reduce("max", &x, &axes)?,
        "ReduceMin" => im.reduce("min", &x, &axes)?,
        "ReduceProd" => im.reduce("prod", &x, &axes)?,
        "ReduceL1" => {
            let positive = im.unary("abs", &x)?;
            im.reduce("sum", &positive, &axes)?
        }
        op @ ("ReduceL2" | "ReduceSumSquare") => {
            let square = im.binary("mul", &x, &x)?;
            let sum = im.reduce("sum", &square, &axes)?;
            if op == "ReduceL2" { im.unary("sqrt", &sum)? } else { sum }
        }
        other => fail!("'{other}' has a row but no translation"),
    };
    Ok(vec![if keep { im.keep_dims(&out, &axes, x.shape())? } else { out }])
}

/// ArgMax and ArgMin: the first position of the largest or smallest element.
pub fn arg(im: &mut Importer<'_>, node: &Node<'_>) -> Result<Vec<Operand>> {
    let x = im.input(node, 0)?;
    if node.flag("select_last_index", false)? {
        fail!("select_last_index = 1 is not supported");
    }
    let d = axis(node.int_or("axis", 0)?, x.rank())?;
    let kind = if node.op() == "ArgMax" { "max" } else { "min" };
    let shape = (0..x.rank()).filter(|i| *i != d).map(|i| x.shape()[i].clone());
    let attributes = [("kind", Attr::Keyword(kind)), ("dim", Attr::Int(d as i64))];
    let out = im.op("arg_reduce", &[&x], &attributes, TensorType::new(DType::I64, shape))?;
    Ok(vec![if node.flag("keepdims", true)? { im.keep_dims(&out, &[d], x.shape())? } else { out }])
}
