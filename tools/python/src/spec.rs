//! How a compiled graph is called: where its arguments come from and what is made of its results. Read once from the package's
//! `Argument` and `Result` objects.

use crate::torch::TorchType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use strata_runtime::sym::Expr;

/// Where an argument of the plan comes from.
pub struct Argument {
    /// Which of the call's arguments it is, or a tensor that the graph holds.
    pub source: Source,
    /// What it is.
    pub kind: Kind,
}

/// See [`Argument::source`].
pub enum Source {
    /// An argument of the call.
    Given(usize),
    /// A constant of the graph.
    Held(Py<PyAny>),
}

impl Source {
    /// Whether it is that argument of the call.
    pub fn is(&self, given: usize) -> bool {
        matches!(self, Self::Given(i) if *i == given)
    }
}

/// What an argument is.
pub enum Kind {
    /// A tensor with these strides, as PyTorch has its dimensions, and their order in memory.
    Tensor { order: Option<Vec<usize>>, strides: Vec<Expr>, lazy: bool },
    /// An integer.
    Size,
}

/// What a result of the graph is made from.
pub enum Made {
    /// Always the same.
    Constant(Py<PyAny>),
    /// One of the call's arguments.
    Given(usize),
    /// A view of one of the call's arguments, with these sizes and strides, so many elements from its start.
    View { given: usize, shape: Vec<Expr>, strides: Vec<Expr>, offset: Expr },
    /// An integer.
    Size(Expr),
    /// A result of the plan.
    Output {
        /// Its number.
        number: usize,
        /// How it lies in memory.
        order: Option<Vec<usize>>,
        /// Sizes, where one element stands for many.
        expand: Option<Vec<Expr>>,
        /// Where its elements do not lie densely.
        gaps: Option<Gaps>,
        /// PyTorch's element type.
        dtype: TorchType,
        /// Where PyTorch wants it, if not where the graph runs.
        device: Option<Py<PyAny>>,
    },
}

/// A result whose elements do not lie densely.
pub struct Gaps {
    /// Sizes.
    pub shape: Vec<Expr>,
    /// Strides in elements.
    pub strides: Vec<Expr>,
    /// It is a view of the output, so many elements from its start; else a copy with these strides.
    pub offset: Option<Expr>,
}

/// Where a symbol's value is: an argument of the call, or one of its sizes.
pub struct Place {
    pub argument: usize,
    pub dim: Option<usize>,
}

/// Everything about calls of a graph.
pub struct Spec {
    pub arguments: Vec<Argument>,
    pub results: Vec<Made>,
    /// Whether the arguments belong to the graph alone, as what a forward graph keeps for its backward graph does.
    pub owns: bool,
    /// None where it is not needed.
    pub symbols: Vec<Option<Place>>,
}

impl Spec {
    /// Reads a `Serialized`.
    pub fn of(graph: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut names = BTreeMap::new();
        let mut symbols = Vec::new();
        let table: Bound<'_, PyDict> = graph.getattr("symbols")?.extract()?;
        for (name, place) in table {
            let argument = place.get_item(1)?.extract()?;
            let dim = if place.len()? > 2 { Some(place.get_item(2)?.extract()?) } else { None };
            names.insert(name.extract::<String>()?, symbols.len() as u32);
            symbols.push(Some(Place { argument, dim }));
        }
        let sizes = |list: &Bound<'_, PyAny>| -> PyResult<Vec<Expr>> {
            list.try_iter()?.map(|e| expression(&e?, &names)).collect()
        };
        let optional = |o: &Bound<'_, PyAny>, name: &str| -> PyResult<Option<Vec<Expr>>> {
            let list = o.getattr(name)?;
            if list.is_none() { Ok(None) } else { sizes(&list).map(Some) }
        };
        let gaps = |r: &Bound<'_, PyAny>| -> PyResult<Option<Gaps>> {
            let (pair, offset) = (r.getattr("gaps")?, r.getattr("offset")?);
            if pair.is_none() {
                return Ok(None);
            }
            let offset = if offset.is_none() { None } else { Some(expression(&offset, &names)?) };
            Ok(Some(Gaps { shape: sizes(&pair.get_item(0)?)?, strides: sizes(&pair.get_item(1)?)?, offset }))
        };
        let mut arguments = Vec::new();
        for a in graph.getattr("arguments")?.try_iter()? {
            let a = a?;
            let index: Option<usize> = a.getattr("index")?.extract()?;
            let source = match index {
                Some(i) => Source::Given(i),
                None => Source::Held(a.getattr("constant")?.unbind()),
            };
            let kind = if a.getattr("size")?.extract()? {
                Kind::Size
            } else {
                let order = a.getattr("order")?.extract()?;
                let strides = optional(&a, "strides")?.unwrap_or_default();
                Kind::Tensor { order, strides, lazy: a.getattr("lazy")?.extract()? }
            };
            arguments.push(Argument { source, kind });
        }
        let mut results = Vec::new();
        for r in graph.getattr("results")?.try_iter()? {
            let r = r?;
            let (kind, value): (String, _) = (r.getattr("kind")?.extract()?, r.getattr("value")?);
            results.push(match kind.as_str() {
                "constant" => Made::Constant(value.unbind()),
                "argument" => Made::Given(value.extract()?),
                "size" => Made::Size(expression(&value, &names)?),
                "view" => {
                    let Some(Gaps { shape, strides, offset: Some(offset) }) = gaps(&r)? else {
                        return Err(PyValueError::new_err("a view of an argument has no place in it"));
                    };
                    Made::View { given: value.extract()?, shape, strides, offset }
                }
                _ => Made::Output {
                    gaps: gaps(&r)?,
                    number: value.extract()?,
                    order: r.getattr("order")?.extract()?,
                    expand: optional(&r, "expand")?,
                    dtype: TorchType::new(&r.getattr("dtype")?)?,
                    device: r.getattr("device")?.extract()?,
                },
            });
        }
        let owns = graph.getattr("owns")?.extract()?;
        Ok(Self { arguments, results, owns, symbols })
    }

    /// Whether an argument of the call, which is the plan's of that number, is also used otherwise: it is a result, or holds one.
    pub fn shared(&self, number: usize, given: usize) -> bool {
        let uses = |m: &Made| matches!(m, Made::Given(i) | Made::View { given: i, .. } if *i == given);
        let again =
            |(n, a): (usize, &Argument)| n != number && matches!(a.source, Source::Given(i) if i == given);
        self.results.iter().any(uses) || self.arguments.iter().enumerate().any(again)
    }
}

/// A size as the serializer writes it: a number, a symbol's name, or a list of an operator and its operands.
fn expression(e: &Bound<'_, PyAny>, names: &BTreeMap<String, u32>) -> PyResult<Expr> {
    if let Ok(n) = e.extract::<i64>() {
        return Ok(n.into());
    }
    if let Ok(name) = e.extract::<String>() {
        let number = names.get(&name);
        return number
            .map(|&i| Expr::sym(i))
            .ok_or_else(|| PyValueError::new_err(format!("the size {name} has no value")));
    }
    let list = e.cast::<PyList>()?;
    let operator: String = list.get_item(0)?.extract()?;
    let mut operands =
        list.iter().skip(1).map(|e| expression(&e, names)).collect::<PyResult<Vec<_>>>()?.into_iter();
    let Some(first) = operands.next() else {
        return Err(PyValueError::new_err(format!("the size {e} has no operands")));
    };
    let combine: fn(Expr, Expr) -> Expr = match operator.as_str() {
        "add" => |a, b| a + b,
        "mul" => |a, b| a * b,
        "floordiv" => |a, b| a.floor_div(&b),
        "mod" => |a, b| a.modulo(&b),
        "min" => |a, b| a.minimum(&b),
        "max" => |a, b| a.maximum(&b),
        _ => return Err(PyValueError::new_err(format!("the size {e} has the unknown operator {operator}"))),
    };
    Ok(operands.fold(first, combine))
}
