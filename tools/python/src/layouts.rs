//! What a call needs that depends only on its arguments' sizes, kept from call to call.

use crate::dlpack::Viewed;
use crate::fault::Fault;
use crate::spec::{Argument, Gaps, Kind, Made, Spec};
use crate::torch::TorchType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};
use strata_runtime::DType;
use strata_runtime::device::{DevicePtr, TensorRef};
use strata_runtime::exec::{Executable, LaidOut, Layout, Origin};
use strata_runtime::plan::Place;
use strata_runtime::sym::Expr;

/// Sets of sizes that are kept.
const KEPT: usize = 16;

/// An argument as it came.
#[derive(Clone, Copy)]
pub enum Seen {
    Tensor(Viewed),
    Size(i64),
}

impl Seen {
    /// The address of a tensor.
    pub fn ptr(&self) -> DevicePtr {
        match self {
            Self::Tensor(v) => v.ptr(),
            Self::Size(_) => DevicePtr::NULL,
        }
    }
}

/// A result that is a view of some memory.
pub struct View {
    pub origin: Origin,
    /// Elements (of the plan's type) from the start of that memory.
    pub offset: i64,
    pub plan_type: DType,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
}

/// How a result of the graph is made for certain sizes.
pub enum Ready {
    /// From the same entry of [`Spec::results`].
    AsSaid,
    /// A view of that argument with these sizes and strides, so many elements from its start.
    Alias(usize, Vec<i64>, Vec<i64>, i64),
    Size(i64),
    /// The tensor with this number, whole.
    Own(usize),
    View(View),
    /// A copy of that with these strides.
    Spread(Box<Ready>, Vec<i64>),
}

/// Memory to allocate for a result: element type, sizes, strides.
pub type Form = (usize, Vec<i64>, Vec<i64>);

/// Everything for one set of sizes.
pub struct Sizes {
    signature: Vec<i64>,
    pub layout: Layout,
    /// By number of the plan's result: memory to allocate.
    pub forms: Vec<Option<Form>>,
    pub results: Vec<Ready>,
}

impl Sizes {
    fn fits(&self, seen: &[Seen]) -> bool {
        let mut rest = &self.signature[..];
        let mut take = |n: usize| {
            let (head, tail) = rest.split_at_checked(n)?;
            rest = tail;
            Some(head)
        };
        let mut one = |s: &Seen| {
            Some(match s {
                Seen::Size(n) => take(2)? == [-1, *n],
                Seen::Tensor(v) => {
                    let rank = v.shape().len();
                    take(2)? == [v.tag, rank as i64] && take(rank)? == v.shape() && take(rank)? == v.strides()
                }
            })
        };
        seen.iter().all(|s| one(s) == Some(true))
    }

    /// Works everything out.
    ///
    /// # Errors
    /// Arguments that the plan does not take.
    pub fn new(exe: &Executable, spec: &Spec, seen: &[Seen], symbols: &[i64]) -> Result<Self, Fault> {
        let mut signature = Vec::new();
        for s in seen {
            match s {
                Seen::Size(n) => signature.extend([-1, *n]),
                Seen::Tensor(v) => {
                    signature.extend([v.tag, v.shape().len() as i64]);
                    signature.extend(v.shape());
                    signature.extend(v.strides());
                }
            }
        }
        let in_memory: Vec<(DType, Vec<i64>, Vec<i64>)> =
            spec.arguments.iter().zip(seen).map(memory_form).collect::<PyResult<_>>()?;
        let refs: Vec<TensorRef<'_>> = (in_memory.iter().zip(seen))
            .map(|((dtype, shape, strides), s)| TensorRef { ptr: s.ptr(), dtype: *dtype, shape, strides })
            .collect();
        let layout = exe.layout(&refs, &[])?;
        let plan = exe.plan();
        let mut forms: Vec<_> = plan.outputs.iter().map(|_| None).collect();
        let mut results = Vec::with_capacity(spec.results.len());
        // Results of the plan that only views are made of.
        let mut wholes = Vec::new();
        for (made, at) in spec.results.iter().zip(0..) {
            results.push(match made {
                Made::Constant(_) | Made::Given(_) => Ready::AsSaid,
                Made::Size(e) => Ready::Size(value(e, symbols)?),
                Made::View { given, shape, strides, offset } => Ready::Alias(
                    *given,
                    values(shape, symbols)?,
                    values(strides, symbols)?,
                    value(offset, symbols)?,
                ),
                Made::Output {
                    number, gaps: Some(Gaps { shape, strides, offset: Some(offset) }), ..
                } => {
                    let out = layout.result(plan, *number)?;
                    wholes.push((*number, (at, out.shape.to_vec(), out.strides.to_vec())));
                    Ready::View(View {
                        origin: out.origin,
                        offset: out.offset / out.dtype.size() as i64 + value(offset, symbols)?,
                        plan_type: out.dtype,
                        shape: values(shape, symbols)?,
                        strides: values(strides, symbols)?,
                    })
                }
                Made::Output { number, order, expand, gaps, .. } => {
                    let out = layout.result(plan, *number)?;
                    let (mut shape, mut strides) = as_seen(&out, order.as_deref());
                    if let Some(sizes) = expand {
                        for (d, size) in values(sizes, symbols)?.into_iter().enumerate() {
                            if size != shape[d] {
                                (shape[d], strides[d]) = (size, 0);
                            }
                        }
                    }
                    let buffer = &plan.buffers[plan.outputs[*number].buffer.0 as usize];
                    let dense = if buffer.place == Place::Output(*number as u32) {
                        forms[*number].get_or_insert((at, shape, strides));
                        Ready::Own(*number)
                    } else {
                        let offset = out.offset / out.dtype.size() as i64;
                        Ready::View(View { origin: out.origin, offset, plan_type: out.dtype, shape, strides })
                    };
                    match gaps {
                        None => dense,
                        Some(gaps) => Ready::Spread(Box::new(dense), values(&gaps.strides, symbols)?),
                    }
                }
            });
        }
        for (number, form) in wholes {
            forms[number].get_or_insert(form);
        }
        Ok(Self { signature, layout, forms, results })
    }

    /// How a result lies in memory, as PyTorch sees it: type, sizes, strides.
    pub fn form<'a>(
        &'a self,
        spec: &'a Spec,
        number: usize,
    ) -> Option<(&'a TorchType, &'a [i64], &'a [i64])> {
        let (at, shape, strides) = self.forms.get(number)?.as_ref()?;
        match &spec.results[*at] {
            Made::Output { dtype, .. } => Some((dtype, shape, strides)),
            _ => None,
        }
    }
}

/// An argument as the plan sees it: its dimensions in the order in which they lie in memory.
fn memory_form((argument, seen): (&Argument, &Seen)) -> PyResult<(DType, Vec<i64>, Vec<i64>)> {
    match (&argument.kind, seen) {
        (Kind::Tensor { order, .. }, Seen::Tensor(v)) => {
            let list = |from: &[i64]| match order {
                Some(order) if order.len() == from.len() => order.iter().map(|&d| from[d]).collect(),
                _ => from.to_vec(),
            };
            Ok((v.dtype()?, list(v.shape()), list(v.strides())))
        }
        (_, Seen::Size(n)) => Ok((DType::I1, vec![*n], vec![1])),
        (Kind::Size, Seen::Tensor(_)) => Err(PyValueError::new_err("a tensor where a size is expected")),
    }
}

/// A result as PyTorch sees it: its dimensions in their order again.
fn as_seen(out: &LaidOut<'_>, order: Option<&[usize]>) -> (Vec<i64>, Vec<i64>) {
    let (mut shape, mut strides) = (out.shape.to_vec(), out.strides.to_vec());
    for (position, &d) in order.unwrap_or_default().iter().enumerate() {
        (shape[d], strides[d]) = (out.shape[position], out.strides[position]);
    }
    (shape, strides)
}

/// The value of a size.
pub fn value(e: &Expr, symbols: &[i64]) -> PyResult<i64> {
    e.eval(symbols).ok_or_else(|| PyValueError::new_err(format!("the size {e} has no value for {symbols:?}")))
}

fn values(list: &[Expr], symbols: &[i64]) -> PyResult<Vec<i64>> {
    list.iter().map(|e| value(e, symbols)).collect()
}

/// The sizes of the last calls, the latest first.
#[derive(Default)]
pub struct Known(Mutex<Vec<Arc<Sizes>>>);

impl Known {
    /// Those that fit what was seen.
    pub fn find(&self, seen: &[Seen]) -> Option<Arc<Sizes>> {
        let mut kept = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let i = kept.iter().position(|s| s.fits(seen))?;
        kept[..=i].rotate_right(1);
        Some(kept[0].clone())
    }

    /// Keeps some more.
    pub fn add(&self, sizes: Arc<Sizes>) {
        let dropped = {
            let mut kept = self.0.lock().unwrap_or_else(|e| e.into_inner());
            kept.insert(0, sizes);
            if kept.len() > KEPT { kept.pop() } else { None }
        };
        drop(dropped);
    }
}
