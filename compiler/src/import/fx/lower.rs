//! What lowering functions work with: the values so far, the arguments of a node, small composed ops.

use super::model::{Arg, Meta, Node};
use super::powers::Power;
use super::sizes::Sizes;
use melior::ir::Value;
use std::collections::{BTreeMap, BTreeSet};
use strata_dialects::reference::Scalar;
use strata_dialects::{Attr, Builder, RefTensor, TensorType, Violation};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// Why an op is not lowered: it will run in the embedding program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl From<Violation> for Refusal {
    fn from(v: Violation) -> Self {
        Self(format!("{} ({})", v.message, v.constraint))
    }
}

impl From<String> for Refusal {
    fn from(s: String) -> Self {
        Self(s)
    }
}

impl From<&str> for Refusal {
    fn from(s: &str) -> Self {
        Self(s.to_owned())
    }
}

/// One value.
pub type One<'c, 'a> = Result<Value<'c, 'a>, Refusal>;
/// A value for each result of a node; `None` for results that are not used.
pub type Many<'c, 'a> = Result<Vec<Option<Value<'c, 'a>>>, Refusal>;

/// The permutation that undoes an order of dimensions: where each of them stands in it.
pub fn inverse(order: &[usize]) -> Vec<usize> {
    let mut at = vec![0; order.len()];
    order.iter().enumerate().for_each(|(k, &d)| at[d] = k);
    at
}

/// The function under construction.
pub struct Cx<'c, 'a> {
    /// Appends to the function.
    pub b: Builder<'c, 'a>,
    /// The function's symbols.
    pub sizes: Sizes,
    /// Whether functions with last bits of their own are left to PyTorch.
    pub strict: bool,
    /// Whether the function runs on a GPU.
    pub gpu: bool,
    /// Whether it will run without PyTorch.
    pub standalone: bool,
    /// Arguments that lie in memory with gaps.
    pub with_gaps: BTreeSet<String>,
    /// Powers of numbers between 0 and 1, by node.
    pub powers: BTreeMap<String, Power<'c, 'a>>,
    values: BTreeMap<String, Vec<Option<Value<'c, 'a>>>>,
    metas: BTreeMap<String, Vec<Option<Meta>>>,
}

impl<'c, 'a> Cx<'c, 'a> {
    /// A function without values.
    pub fn new(b: Builder<'c, 'a>, sizes: Sizes) -> Self {
        let (strict, gpu, standalone, with_gaps) = (false, false, false, BTreeSet::new());
        let (powers, values, metas) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { b, sizes, strict, gpu, standalone, with_gaps, powers, values, metas }
    }

    /// Enters the results of a node.
    pub fn define(&mut self, name: &str, values: Vec<Option<Value<'c, 'a>>>, metas: Vec<Option<Meta>>) {
        self.values.insert(name.to_owned(), values);
        self.metas.insert(name.to_owned(), metas);
    }

    /// The value of a node's result.
    pub fn value(&self, name: &str, index: usize) -> One<'c, 'a> {
        let list =
            self.values.get(name).ok_or_else(|| format!("node '{name}' is not defined before its use"))?;
        list.get(index)
            .copied()
            .flatten()
            .ok_or_else(|| format!("result {index} of '{name}' has no value").into())
    }

    /// The metadata of a node's result.
    pub fn meta(&self, name: &str, index: usize) -> Option<&Meta> {
        self.metas.get(name)?.get(index)?.as_ref()
    }

    /// The tensor argument `key`.
    pub fn tensor(&self, n: &Node, key: &str) -> One<'c, 'a> {
        match n.args.get(key) {
            Some(Arg::Value(name)) => self.value(name, 0),
            other => Err(format!("argument {key} is {}, not a tensor", shown(other)).into()),
        }
    }

    /// The tensor argument `key`, or nothing where it is `None`.
    pub fn optional(&self, n: &Node, key: &str) -> Result<Option<Value<'c, 'a>>, Refusal> {
        if n.has(key) { self.tensor(n, key).map(Some) } else { Ok(None) }
    }

    /// The tensors of a list argument.
    pub fn tensors(&self, n: &Node, key: &str) -> Result<Vec<Value<'c, 'a>>, Refusal> {
        match n.args.get(key) {
            Some(Arg::List(list)) => list
                .iter()
                .map(|a| match a {
                    Arg::Value(name) => self.value(name, 0),
                    other => Err(format!("argument {key} holds {other:?}").into()),
                })
                .collect(),
            other => Err(format!("argument {key} is {}, not a list of tensors", shown(other)).into()),
        }
    }

    /// The type of a value.
    pub fn ty(&self, v: Value<'c, 'a>) -> TensorType {
        self.b.tensor_type(v)
    }

    /// An op with one result.
    pub fn op(&self, name: &str, operands: &[Value<'c, 'a>]) -> One<'c, 'a> {
        Ok(self.b.graph1(name, operands, &[])?)
    }

    /// `x` in another element type.
    pub fn cast(&self, x: Value<'c, 'a>, dtype: DType) -> One<'c, 'a> {
        Ok(self.b.cast(x, dtype)?)
    }

    /// A constant of rank 0; integers keep all their bits.
    pub fn scalar(&self, dtype: DType, value: Scalar) -> One<'c, 'a> {
        let value = match (value, dtype) {
            (Scalar::F(x), d) if !d.is_float() => {
                Scalar::I(if d == DType::I1 { i64::from(x != 0.0) } else { x as i64 })
            }
            (Scalar::I(i), d) if d.is_float() => Scalar::F(i as f64),
            (Scalar::I(i), DType::I1) => Scalar::I(i64::from(i != 0)),
            (other, _) => other,
        };
        Ok(self.b.constant(&RefTensor::scalar(dtype, value))?)
    }

    /// A number repeated to a shape.
    pub fn full(&self, dtype: DType, value: f64, shape: &[Expr]) -> One<'c, 'a> {
        Ok(self.b.full(dtype, value, shape)?)
    }

    /// The value of a size, as an i64 of rank 0.
    pub fn size(&self, e: &Expr) -> One<'c, 'a> {
        let ty = TensorType::new(DType::I64, [] as [i64; 0]);
        match e.as_const() {
            Some(c) => self.scalar(DType::I64, Scalar::I(c)),
            None => Ok(self.b.graph_as("dim", &[], &[("expr", Attr::Dims(vec![e.clone()]))], &[ty])?[0]),
        }
    }

    /// A number of elements, repeated to a shape, for means.
    pub fn count(&mut self, count: &Expr, dtype: DType, shape: &[Expr]) -> One<'c, 'a> {
        let count = self.sizes.affine(count);
        let v = self.cast(self.size(&count)?, dtype)?;
        Ok(self.b.broadcast(v, &[], shape)?)
    }

    /// `x` cast to `dtype` and repeated to `shape`, trailing dimensions aligned.
    pub fn expand(&self, x: Value<'c, 'a>, dtype: DType, shape: &[Expr]) -> One<'c, 'a> {
        let rank = self.ty(x).rank();
        if rank > shape.len() {
            return Err(format!("{} does not broadcast to {} dimensions", self.ty(x), shape.len()).into());
        }
        let x = self.cast(x, dtype)?;
        Ok(self.b.broadcast(x, &(shape.len() - rank..shape.len()).collect::<Vec<_>>(), shape)?)
    }

    /// `x` under another shape.
    pub fn reshape(&self, x: Value<'c, 'a>, shape: &[Expr]) -> One<'c, 'a> {
        let from = self.ty(x);
        let ty = TensorType { dtype: from.dtype, shape: shape.to_vec() };
        if from == ty {
            return Ok(x);
        }
        if !self.sizes.equal(&from.numel(), &ty.numel()) {
            return Err(format!("{from} has not as many elements as {ty}").into());
        }
        Ok(self.b.graph_as("reshape", &[x], &[], &[ty])?[0])
    }

    /// `x` with permuted dimensions; two transposes become one.
    pub fn transpose(&self, x: Value<'c, 'a>, permutation: &[usize]) -> One<'c, 'a> {
        let mut p = permutation.to_vec();
        let mut x = x;
        while let Some(op) =
            strata_dialects::build::definition(x).filter(|op| crate::ir::name(op) == "graph.transpose")
        {
            let view = strata_dialects::OpView::new(&op)?;
            let inner = view.indices("permutation");
            p = p.iter().map(|&d| inner[d]).collect();
            x = melior::ir::operation::OperationLike::operand(&op, 0).map_err(|e| e.to_string())?;
        }
        if p.iter().enumerate().all(|(i, &d)| i == d) {
            return Ok(x);
        }
        let p = p.iter().map(|&d| d as i64).collect();
        Ok(self.b.graph1("transpose", &[x], &[("permutation", Attr::Ints(p))])?)
    }

    /// Elements `start .. start + length·step` along one dimension.
    pub fn slice(&self, x: Value<'c, 'a>, dim: usize, start: &Expr, limit: &Expr, step: i64) -> One<'c, 'a> {
        let ty = self.ty(x);
        if *start == Expr::from(0) && *limit == ty.shape[dim] && step == 1 {
            return Ok(x);
        }
        let pick = |e: &Expr, rest: Vec<Expr>| {
            rest.into_iter().enumerate().map(|(d, r)| if d == dim { e.clone() } else { r }).collect()
        };
        let starts: Vec<Expr> = pick(start, vec![Expr::from(0); ty.rank()]);
        let limits: Vec<Expr> = pick(limit, ty.shape.clone());
        let mut steps = vec![1; ty.rank()];
        steps[dim] = step;
        let attrs =
            [("starts", Attr::Dims(starts)), ("limits", Attr::Dims(limits)), ("strides", Attr::Ints(steps))];
        Ok(self.b.graph1("slice", &[x], &attrs)?)
    }

    /// Tensors one after another.
    pub fn concat(&self, parts: &[Value<'c, 'a>], dim: usize) -> One<'c, 'a> {
        if let [only] = parts {
            return Ok(*only);
        }
        Ok(self.b.graph1("concat", parts, &[("dim", Attr::Int(dim as i64))])?)
    }

    /// A reduction; the dimensions vanish.
    pub fn reduce(&self, kind: i32, x: Value<'c, 'a>, dims: &[usize]) -> One<'c, 'a> {
        if dims.is_empty() {
            return Ok(x);
        }
        let dims = dims.iter().map(|&d| d as i64).collect();
        Ok(self.b.graph1("reduce", &[x], &[("kind", Attr::Enum(kind)), ("dims", Attr::Ints(dims))])?)
    }

    /// A reduction, repeated back to the operand's shape.
    pub fn reduce_back(&self, kind: i32, x: Value<'c, 'a>, dims: &[usize]) -> One<'c, 'a> {
        let ty = self.ty(x);
        let kept: Vec<usize> = (0..ty.rank()).filter(|d| !dims.contains(d)).collect();
        Ok(self.b.broadcast(self.reduce(kind, x, dims)?, &kept, &ty.shape)?)
    }

    /// A comparison by the number of its direction.
    pub fn compare(&self, direction: i32, x: Value<'c, 'a>, y: Value<'c, 'a>) -> One<'c, 'a> {
        Ok(self.b.graph1("compare", &[x, y], &[("direction", Attr::Enum(direction))])?)
    }

    /// 0, 1, 2, … along a dimension.
    pub fn iota(&self, shape: &[Expr], dim: usize) -> One<'c, 'a> {
        let ty = TensorType { dtype: DType::I64, shape: shape.to_vec() };
        Ok(self.b.graph_as("iota", &[], &[("dim", Attr::Int(dim as i64))], &[ty])?[0])
    }

    /// A constant of the type and shape of `like`.
    pub fn like(&self, like: Value<'c, 'a>, value: f64) -> One<'c, 'a> {
        let ty = self.ty(like);
        self.full(ty.dtype, value, &ty.shape)
    }
}

/// Cases of reduce's kind.
pub mod kind {
    #![allow(missing_docs)]
    pub const SUM: i32 = 0;
    pub const MAX: i32 = 1;
    pub const MIN: i32 = 2;
    pub const PROD: i32 = 3;
    pub const ANY: i32 = 4;
    pub const ALL: i32 = 5;
}

/// Cases of compare's direction.
pub mod direction {
    #![allow(missing_docs)]
    pub const EQ: i32 = 0;
    pub const NE: i32 = 1;
    pub const LT: i32 = 2;
    pub const LE: i32 = 3;
    pub const GT: i32 = 4;
    pub const GE: i32 = 5;
}

/// The type in which functions of narrower floats are computed.
pub fn wide(dtype: DType) -> DType {
    if dtype.is_float() { dtype.accumulator() } else { dtype }
}

fn shown(arg: Option<&Arg>) -> String {
    arg.map_or_else(|| "missing".into(), |a| format!("{a:?}"))
}

impl Node {
    /// `aten.add` of `aten.add.Tensor`.
    pub fn base(&self) -> &str {
        let mut parts = self.op.splitn(3, '.');
        let (a, b) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        if b.is_empty() { a } else { &self.op[..a.len() + 1 + b.len()] }
    }

    /// Whether the argument is there and not `None`.
    pub fn has(&self, key: &str) -> bool {
        !matches!(self.args.get(key), None | Some(Arg::None))
    }

    /// The metadata of a result.
    pub fn result(&self, i: usize) -> Result<&Meta, Refusal> {
        self.out.get(i).and_then(Option::as_ref).ok_or_else(|| format!("result {i} is no tensor").into())
    }

    /// Whether only the first result is used.
    pub fn only_first(&self) -> bool {
        self.used.iter().skip(1).all(|u| !u)
    }

    /// The integer argument `key`.
    pub fn int(&self, key: &str) -> Result<i64, Refusal> {
        match self.args.get(key) {
            Some(Arg::Int(i)) => Ok(*i),
            Some(Arg::Bool(b)) => Ok(i64::from(*b)),
            other => Err(format!("argument {key} is {}, not a known integer", shown(other)).into()),
        }
    }

    /// The float argument `key`.
    pub fn float(&self, key: &str) -> Result<f64, Refusal> {
        match self.args.get(key) {
            Some(Arg::Float(x)) => Ok(*x),
            Some(Arg::Int(i)) => Ok(*i as f64),
            other => Err(format!("argument {key} is {}, not a known float", shown(other)).into()),
        }
    }

    /// The truth value `key`, or what it is by default.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, Refusal> {
        match self.args.get(key) {
            Some(Arg::Bool(b)) => Ok(*b),
            Some(Arg::Int(i)) => Ok(*i != 0),
            None | Some(Arg::None) => Ok(default),
            other => Err(format!("argument {key} is {}, not a truth value", shown(other)).into()),
        }
    }

    /// The string argument `key`.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.args.get(key) {
            Some(Arg::Str(s)) => Some(s),
            _ => None,
        }
    }

    /// The integers of `key`: a list, or one number.
    pub fn ints(&self, key: &str) -> Result<Vec<i64>, Refusal> {
        match self.args.get(key) {
            Some(Arg::List(list)) => list
                .iter()
                .map(|a| match a {
                    Arg::Int(i) => Ok(*i),
                    other => Err(format!("argument {key} holds {other:?}, not a known integer").into()),
                })
                .collect(),
            Some(Arg::Int(i)) => Ok(vec![*i]),
            None | Some(Arg::None) => Ok(vec![]),
            other => Err(format!("argument {key} is {}, not a list of integers", shown(other)).into()),
        }
    }

    /// `key` for each of `n` spatial dimensions: a list, or one number for all.
    pub fn spatial(&self, key: &str, n: usize, default: i64) -> Result<Vec<i64>, Refusal> {
        match self.ints(key)?.as_slice() {
            [] => Ok(vec![default; n]),
            [one] => Ok(vec![*one; n]),
            list if list.len() == n => Ok(list.to_vec()),
            list => Err(format!("argument {key} has {} numbers for {n} dimensions", list.len()).into()),
        }
    }

    /// The sizes of the list `key`.
    pub fn sizes(&self, key: &str) -> Result<Vec<Expr>, Refusal> {
        match self.args.get(key) {
            Some(Arg::List(list)) => list
                .iter()
                .map(|a| match a {
                    Arg::Int(i) => Ok(Expr::from(*i)),
                    Arg::Size(e) => Ok(e.clone()),
                    other => Err(format!("argument {key} holds {other:?}, not a size").into()),
                })
                .collect(),
            other => Err(format!("argument {key} is {}, not a list of sizes", shown(other)).into()),
        }
    }

    /// The size argument `key`.
    pub fn size(&self, key: &str) -> Result<Expr, Refusal> {
        match self.args.get(key) {
            Some(Arg::Size(e)) => Ok(e.clone()),
            _ => self.int(key).map(Expr::from),
        }
    }

    /// The dimension argument `key` of a tensor of that rank.
    pub fn dim(&self, key: &str, rank: usize) -> Result<usize, Refusal> {
        wrap(self.int(key)?, rank)
    }

    /// The dimensions `key` of a tensor of that rank; all where there are none.
    pub fn dims_or_all(&self, key: &str, rank: usize) -> Result<Vec<usize>, Refusal> {
        let list = self.ints(key)?;
        if list.is_empty() {
            return Ok((0..rank).collect());
        }
        if rank == 0 {
            return Ok(vec![]);
        }
        let mut dims = list.iter().map(|&d| wrap(d, rank)).collect::<Result<Vec<_>, _>>()?;
        dims.sort_unstable();
        Ok(dims)
    }
}

/// A dimension that may count from the end.
pub fn wrap(d: i64, rank: usize) -> Result<usize, Refusal> {
    let n = rank.max(1) as i64;
    if d < -n || d >= n {
        return Err(format!("dimension {d} is out of range for rank {rank}").into());
    }
    Ok((if d < 0 { d + n } else { d }) as usize)
}
