//! Runs an import op by op through the op table's own evaluation, so that numbers can be compared without a pipeline.

use crate::import::onnx::diagnostic::{Diagnostic, Result};
use crate::import::onnx::emit::{Attr, Emit, Value};
use crate::import::onnx::import;
use crate::import::onnx::model::Model;
use crate::import::onnx::tensor::Tensor;
use std::collections::BTreeMap;
use strata_dialects::reference::{Rounding, Scalar};
use strata_dialects::{OpView, RefTensor, TensorType, ops};
use strata_runtime::sym::{Expr, Symbol};

struct Evaluate<'a> {
    inputs: &'a BTreeMap<String, RefTensor>,
    values: Vec<RefTensor>,
    bindings: Vec<i64>,
    results: Vec<RefTensor>,
}

impl Evaluate<'_> {
    fn push(&mut self, t: RefTensor) -> Value {
        self.values.push(t);
        Value(self.values.len() as u32 - 1)
    }

    fn bind(&self, e: &Expr) -> Result<Expr> {
        e.eval(&self.bindings).map(Expr::from).ok_or_else(|| Diagnostic::new(format!("{e} has no value")))
    }

    fn ty(&self, ty: &TensorType) -> Result<TensorType> {
        let shape = ty.shape.iter().map(|e| self.bind(e)).collect::<Result<Vec<_>>>()?;
        Ok(TensorType { dtype: ty.dtype, shape })
    }
}

fn type_of(t: &RefTensor) -> TensorType {
    TensorType::new(t.dtype, t.shape.iter().copied())
}

impl Emit for Evaluate<'_> {
    fn begin(
        &mut self,
        _: &str,
        symbols: &[Symbol],
        arguments: &[(String, TensorType)],
    ) -> Result<Vec<Value>> {
        self.bindings = vec![1; symbols.len()];
        let mut out = Vec::new();
        for (name, ty) in arguments {
            let input = self.inputs[name].clone();
            for (e, &n) in ty.shape.iter().zip(&input.shape) {
                if let Some(s) = e.as_sym() {
                    self.bindings[s.0 as usize] = n as i64;
                }
            }
            out.push(self.push(input));
        }
        for (v, (name, ty)) in out.iter().zip(arguments) {
            assert_eq!(type_of(&self.values[v.0 as usize]), self.ty(ty)?, "input {name}");
        }
        Ok(out)
    }

    fn constant(&mut self, t: &Tensor, _: &str) -> Result<Value> {
        let shape: Vec<usize> = t.shape.iter().map(|&d| d as usize).collect();
        let tensor = RefTensor::from_bytes(t.dtype, &shape, &t.bytes, false).map_err(Diagnostic::new)?;
        Ok(self.push(tensor))
    }

    fn op(
        &mut self,
        name: &'static str,
        operands: &[Value],
        attributes: &[(&'static str, Attr)],
        result: &TensorType,
        at: &str,
    ) -> Result<Value> {
        let operands: Vec<RefTensor> = operands.iter().map(|v| self.values[v.0 as usize].clone()).collect();
        let mut attrs = Vec::new();
        for (key, a) in attributes {
            use strata_dialects::Attr as A;
            let a = match a {
                Attr::Int(i) => A::Int(*i),
                Attr::Ints(v) => A::Ints(v.clone()),
                Attr::Float(x) => A::Float(*x),
                Attr::Bool(b) => A::Bool(*b),
                Attr::Text(t) => A::Str((*t).to_owned()),
                Attr::Keyword(k) => {
                    A::Enum(super::super::graph::case(name, k).expect("a case of the enumeration"))
                }
                Attr::Dims(v) => A::Dims(v.iter().map(|e| self.bind(e)).collect::<Result<_>>()?),
            };
            attrs.push(((*key).to_owned(), a));
        }
        attrs.sort_by(|a, b| a.0.cmp(&b.0));
        let spec = ops::lookup(&format!("graph.{name}")).expect("an op of the dialect");
        let stated = self.ty(result)?;
        let mut view = OpView {
            spec,
            operands: operands.iter().map(type_of).collect(),
            results: vec![stated.clone()],
            attrs,
        };
        view.results =
            (spec.infer)(&view).map_err(|v| Diagnostic::new(format!("{at}: {name}: {}", v.message)))?;
        if view.results != [stated.clone()] {
            return Err(Diagnostic::new(format!("{at}: {name} gives {:?}, expected {stated}", view.results)));
        }
        let out = match name {
            "softmax" => softmax(&operands[0], view.int("dim") as usize),
            "layer_norm" => layer_norm(&operands, view.float("epsilon"), view.int("dims") as usize),
            _ => spec
                .evaluate(&view, &operands, Rounding::Exact)
                .expect("an op with evaluation")
                .map_err(|e| Diagnostic::new(format!("{at}: {e}")))?
                .remove(0),
        };
        assert_eq!(type_of(&out), stated, "{at}: {name}");
        Ok(self.push(out))
    }

    fn finish(&mut self, _: &[Symbol], results: &[(String, Value)]) -> Result<()> {
        self.results = results.iter().map(|(_, v)| self.values[v.0 as usize].clone()).collect();
        Ok(())
    }
}

fn softmax(x: &RefTensor, dim: usize) -> RefTensor {
    let inner: usize = x.shape[dim + 1..].iter().product();
    let n = x.shape[dim];
    RefTensor::generate(x.dtype, &x.shape, Rounding::Exact, |i| {
        let first = i / (n * inner) * n * inner + i % inner;
        let row: Vec<f64> = (0..n).map(|k| x.get(first + k * inner).f()).collect();
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Scalar::F((x.get(i).f() - largest).exp() / row.iter().map(|v| (v - largest).exp()).sum::<f64>())
    })
}

fn layer_norm(x: &[RefTensor], epsilon: f64, dims: usize) -> RefTensor {
    let n: usize = x[0].shape[x[0].shape.len() - dims..].iter().product();
    RefTensor::generate(x[0].dtype, &x[0].shape, Rounding::Exact, |i| {
        let row: Vec<f64> = (0..n).map(|k| x[0].get(i / n * n + k).f()).collect();
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
        let y = (row[i % n] - mean) / (variance + epsilon).sqrt();
        Scalar::F(y * x[1].get(i % n).f() + x[2].get(i % n).f())
    })
}

/// The model's outputs for these inputs.
pub fn evaluate(model: &Model, inputs: &BTreeMap<String, RefTensor>) -> Result<Vec<RefTensor>> {
    let mut run = Evaluate { inputs, values: Vec::new(), bindings: Vec::new(), results: Vec::new() };
    import(model, &mut run)?;
    Ok(run.results)
}
