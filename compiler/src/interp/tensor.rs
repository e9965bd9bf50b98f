//! The tensor level: `linalg` and `tensor` ops on reference tensors.

use super::affine::Affine;
use super::body::{Body, Outer};
use super::decode::{constant, decode};
use super::scalar::Cell;
use super::{Interpreter, views};
use crate::driver::pass::Failure;
use crate::ir::{body, name, ops};
use melior::ir::attribute::{ArrayAttribute, IntegerAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{AttributeLike, BlockLike, TypeLike, Value, ValueLike};
use std::collections::BTreeMap;
use std::rc::Rc;
use strata_dialects::Attr;
use strata_dialects::ops::indexing::{ScatterKind, scatter};
use strata_dialects::ops::reductions::{ReduceKind, scan};
use strata_dialects::ops::sorting::sort;
use strata_dialects::reference::{RefTensor, Scalar, Values};
use strata_runtime::DType;

/// A value of a function of this level.
#[derive(Clone, Debug)]
pub(super) enum Val {
    Tensor(Rc<RefTensor>),
    Scalar(Cell),
}

pub(super) type Env = BTreeMap<usize, Val>;

pub(super) fn key(v: Value<'_, '_>) -> usize {
    v.to_raw().ptr as usize
}

/// What an error of a step is made of; the location is added where the op is known.
pub(super) type Step<T> = Result<T, String>;

/// The cells of a tensor.
pub(super) fn cells(t: &RefTensor) -> Vec<Cell> {
    match &t.values {
        Values::Float(v) => v.iter().map(|&x| Cell::of_f(x)).collect(),
        Values::Int(v) => v.iter().map(|&x| Cell::of_i(x)).collect(),
    }
}

/// A tensor of cells.
pub(super) fn tensor(dtype: DType, shape: Vec<usize>, cells: Vec<Cell>) -> RefTensor {
    let values = if dtype.is_float() {
        Values::Float(cells.into_iter().map(Cell::f).collect())
    } else {
        Values::Int(cells.into_iter().map(Cell::i).collect())
    };
    RefTensor { dtype, shape, values }
}

/// What a tensor without values holds: nothing that a correct program would show.
fn undefined(dtype: DType) -> Cell {
    if dtype.is_float() { Cell::of_f(f64::NAN) } else { Cell::of_i(dtype.wrap(0x5a5a_5a5a_5a5a_5a5a)) }
}

/// Runs a function of the tensor level: tensors, then one index a symbol.
pub(super) fn run<'c>(
    cx: &mut Interpreter<'_, 'c>,
    function: OperationRef<'c, '_>,
    inputs: Vec<RefTensor>,
    given: Option<Vec<i64>>,
) -> Result<Vec<RefTensor>, Failure> {
    let at = |m: String| Failure::new(function.location(), m);
    let block = body(&function).ok_or_else(|| at("the function has no body".into()))?;
    let types = super::argument_dims(function, block, inputs.len()).map_err(at)?;
    let symbols = cx.bindings(function, &types, &inputs, given)?;
    if block.argument_count() != inputs.len() + symbols.len() {
        return Err(at(format!(
            "has {} arguments, expected {} tensors and {} symbols",
            block.argument_count(),
            inputs.len(),
            symbols.len()
        )));
    }
    let mut env = Env::new();
    let values = inputs
        .into_iter()
        .map(|t| Val::Tensor(Rc::new(t.stored())))
        .chain(symbols.iter().map(|&s| Val::Scalar(Cell::of_i(s))));
    for (i, v) in values.enumerate() {
        env.insert(key(block.argument(i).expect("counted").into()), v);
    }
    for op in ops(block) {
        let here = |m: String| Failure::new(op.location(), m);
        if name(&op) == "func.return" {
            let result = |(i, v)| {
                let t = (*tensor_of(&env, v)?).clone();
                let stated = crate::element::stated(function, "res_attrs", i);
                Ok(t.clone().bitcast(stated.filter(|d| d.storage() == t.dtype).unwrap_or(t.dtype)))
            };
            return op.operands().enumerate().map(result).collect::<Step<_>>().map_err(here);
        }
        let work = op.operands().filter_map(|v| tensor_of(&env, v).ok()).map(|t| t.len() as u64).sum::<u64>();
        cx.spend(1 + work, op.location())?;
        let results = step(cx, op, &env).map_err(|e| match e {
            Stop::Message(m) => here(m),
            Stop::Failure(f) => f,
        })?;
        for (i, v) in results.into_iter().enumerate() {
            check_type(op, i, &v).map_err(here)?;
            env.insert(key(op.result(i).expect("as many as computed").into()), v);
        }
    }
    Err(at("the function has no func.return".into()))
}

/// Sizes that the type states must be the sizes that were computed.
fn check_type(op: OperationRef<'_, '_>, i: usize, v: &Val) -> Step<()> {
    let Val::Tensor(t) = v else { return Ok(()) };
    let ty = op.result(i).map_err(|e| e.to_string())?.r#type();
    for (d, &n) in t.shape.iter().enumerate() {
        // SAFETY: a ranked tensor type; `d` is below its rank, checked first.
        let (rank, dynamic, size) = unsafe {
            let rank = mlir_sys::mlirShapedTypeGetRank(ty.to_raw());
            if d as i64 >= rank {
                return Err(format!("computed {} dimensions, the type is '{ty}'", t.shape.len()));
            }
            let dynamic = mlir_sys::mlirShapedTypeIsDynamicDim(ty.to_raw(), d as isize);
            (rank, dynamic, mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), d as isize))
        };
        if rank as usize != t.shape.len() || (!dynamic && size != n as i64) {
            return Err(format!("computed a tensor of sizes {:?}, the type is '{ty}'", t.shape));
        }
    }
    Ok(())
}

pub(super) fn tensor_of(env: &Env, v: Value<'_, '_>) -> Step<Rc<RefTensor>> {
    match env.get(&key(v)) {
        Some(Val::Tensor(t)) => Ok(t.clone()),
        _ => Err("expected a tensor that was computed before".into()),
    }
}

pub(super) fn cell_of(env: &Env, v: Value<'_, '_>) -> Step<Cell> {
    match env.get(&key(v)) {
        Some(Val::Scalar(c)) => Ok(*c),
        _ => Err("expected a scalar that was computed before".into()),
    }
}

/// Why a step ended.
pub(super) enum Stop {
    Message(String),
    Failure(Failure),
}

impl From<String> for Stop {
    fn from(m: String) -> Self {
        Self::Message(m)
    }
}

fn step<'c>(cx: &mut Interpreter<'_, 'c>, op: OperationRef<'c, '_>, env: &Env) -> Result<Vec<Val>, Stop> {
    let one = |t: RefTensor| Ok(vec![Val::Tensor(Rc::new(t))]);
    let operand = |i: usize| op.operand(i).map_err(|e| e.to_string());
    match name(&op) {
        "arith.constant" => {
            let value = op.attribute("value").map_err(|e| e.to_string())?;
            if op.result(0).map_err(|e| e.to_string())?.r#type().is_tensor() {
                return match Attr::from_mlir(value) {
                    Some(Attr::Elements(e)) => one(e.tensor()?),
                    _ => Err(format!("a constant '{value}'").into()),
                };
            }
            Ok(vec![Val::Scalar(cx.limited(constant(value))?[0])])
        }
        "tensor.empty" => {
            let (dtype, shape) = views::result_shape(op, env, 0)?;
            let n = shape.iter().product::<usize>();
            cx.spend(n as u64, op.location()).map_err(Stop::Failure)?;
            one(tensor(dtype, shape, vec![undefined(dtype); n]))
        }
        "linalg.fill" => {
            let (c, init) = (cell_of(env, operand(0)?)?, tensor_of(env, operand(1)?)?);
            one(tensor(init.dtype, init.shape.clone(), vec![c; init.len()]))
        }
        "linalg.generic" => generic(cx, op, env),
        "tensor.extract" => {
            let t = tensor_of(env, operand(0)?)?;
            let at = op.operands().skip(1).map(|v| cell_of(env, v)).collect::<Step<Vec<_>>>()?;
            Ok(vec![Val::Scalar(Cell::of(t.get(super::body::position(&t.shape, &at)?)))])
        }
        "tensor.dim" => {
            let (t, d) = (tensor_of(env, operand(0)?)?, cell_of(env, operand(1)?)?.i());
            let n = t.shape.get(d as usize).ok_or_else(|| format!("a tensor without dimension {d}"))?;
            Ok(vec![Val::Scalar(Cell::of_i(*n as i64))])
        }
        "tensor.cast" => Ok(vec![Val::Tensor(tensor_of(env, operand(0)?)?)]),
        "tensor.collapse_shape" => one(views::collapse(op, env)?),
        "tensor.expand_shape" => one(views::expand(op, env)?),
        "tensor.extract_slice" => one(views::extract_slice(op, env)?),
        "tensor.pad" => one(views::pad(op, env, cx.rounding)?),
        "tensor.concat" => one(views::concat(op, env)?),
        "loop.scatter" => {
            let [updates, dest, indices] = [0, 1, 2].map(|i| operand(i).and_then(|v| tensor_of(env, v)));
            let (updates, dest, indices) = (updates?, dest?, indices?);
            let (kind, dim) = (case(&op)?, dim(&op)?);
            let kind = ScatterKind::from_case(kind).ok_or_else(|| format!("a scatter of kind {kind}"))?;
            let mut out: Vec<Scalar> = (0..dest.len()).map(|i| dest.get(i)).collect();
            scatter(kind, dim, &mut out, &dest.shape, &indices, &updates, cx.rounding);
            one(RefTensor::generate(dest.dtype, &dest.shape, cx.rounding, |i| out[i]))
        }
        "loop.scan" => {
            let kind = case(&op)?;
            let kinds = [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min];
            let kind = usize::try_from(kind)
                .ok()
                .and_then(|k| kinds.get(k))
                .ok_or_else(|| "a scan of another kind".to_owned())?;
            let source = tensor_of(env, operand(0)?)?;
            one(scan(*kind, dim(&op)?, &source, cx.rounding))
        }
        "loop.sort" => {
            let source = tensor_of(env, operand(0)?)?;
            let descending = match op.attribute("descending").ok().and_then(Attr::from_mlir) {
                Some(Attr::Bool(b)) => b,
                _ => return Err("a sort without a direction".to_owned().into()),
            };
            let dim = dim(&op)?;
            let results = if op.has_attribute("natural") {
                let plain = RefTensor::generate(DType::I64, &source.shape, cx.rounding, |i| {
                    Scalar::I(source.get(i).i() & 0xff)
                });
                let [values, places] = sort(dim, descending, &plain);
                [RefTensor::generate(source.dtype, &source.shape, cx.rounding, |i| values.get(i)), places]
            } else {
                sort(dim, descending, &source)
            };
            Ok(results.into_iter().map(|t| Val::Tensor(Rc::new(t))).collect())
        }
        other => match cx.limited(decode(&op, cx.rounding))? {
            Some(f) => {
                let row = op.operands().map(|v| cell_of(env, v)).collect::<Step<Vec<_>>>()?;
                Ok(vec![Val::Scalar(f.eval(&row).map_err(str::to_owned)?)])
            }
            None => cx.limited(Err(format!(
                "'{other}' is not an op of the tensor level that the interpreter knows"
            )
            .into())),
        },
    }
}

fn integer(op: &OperationRef<'_, '_>, name: &str) -> Step<i64> {
    let a = op.attribute(name).map_err(|e| e.to_string())?;
    IntegerAttribute::try_from(a).map(|a| a.value()).map_err(|e| e.to_string())
}

/// The number of the attribute `kind`.
fn case(op: &OperationRef<'_, '_>) -> Step<i32> {
    Ok(integer(op, "kind")? as i32)
}

/// The attribute `dim`, which has to be a dimension of the result.
fn dim(op: &OperationRef<'_, '_>) -> Step<usize> {
    let d = integer(op, "dim")?;
    let ty = op.result(0).map_err(|e| e.to_string())?.r#type();
    // SAFETY: the type of a result of a tensor op.
    let rank = unsafe { mlir_sys::mlirShapedTypeGetRank(ty.to_raw()) };
    usize::try_from(d)
        .ok()
        .filter(|_| d < rank)
        .ok_or_else(|| format!("dimension {d} of a tensor of rank {rank}"))
}

/// How an operand of a generic is addressed.
enum Access {
    /// Flat position: a sum of dimension × stride; bounds hold by the sizes of the iteration space.
    Strides(Vec<usize>),
    Maps(Vec<Affine>),
}

fn access(maps: &[Affine], shape: &[usize], dims: usize) -> Access {
    let mut strides = vec![0; dims];
    let mut stride = 1;
    for (m, &n) in maps.iter().zip(shape).rev() {
        match m {
            Affine::Operand(d) => strides[*d] += stride,
            _ => return Access::Maps(maps.to_vec()),
        }
        stride *= n;
    }
    Access::Strides(strides)
}

/// Walks the iteration space of a `linalg.generic` in row-major order.
fn generic<'c>(cx: &mut Interpreter<'_, 'c>, op: OperationRef<'c, '_>, env: &Env) -> Result<Vec<Val>, Stop> {
    let tensors = op.operands().map(|v| tensor_of(env, v)).collect::<Step<Vec<_>>>()?;
    let outs = op.result_count();
    let ins = tensors.len() - outs;
    let attribute = op.attribute("indexing_maps").map_err(|e| e.to_string())?;
    let list = ArrayAttribute::try_from(attribute).map_err(|e| e.to_string())?;
    let maps: Vec<Vec<Affine>> = (0..list.len())
        .map(|i| {
            let a = list.element(i).expect("in range");
            // SAFETY: the verifier checked that these are affine maps.
            Affine::of_map(unsafe { mlir_sys::mlirAffineMapAttrGetValue(a.to_raw()) })
        })
        .collect();
    let kinds = op.attribute("iterator_types").map_err(|e| e.to_string())?;
    let dims = ArrayAttribute::try_from(kinds).map_err(|e| e.to_string())?.len();
    // Sizes of the iteration space: a dimension that indexes alone has the size of what it indexes.
    let mut extent: Vec<Option<usize>> = vec![None; dims];
    for (m, t) in maps.iter().zip(&tensors) {
        for (e, &n) in m.iter().zip(&t.shape) {
            if let Affine::Operand(d) = e
                && *extent[*d].get_or_insert(n) != n
            {
                return Err(format!("iteration dimension {d} has size {:?} and size {n}", extent[*d]).into());
            }
        }
    }
    let extent: Vec<usize> = extent
        .into_iter()
        .enumerate()
        .map(|(d, n)| n.ok_or(format!("iteration dimension {d} indexes no operand alone")))
        .collect::<Step<_>>()?;
    let block = body(&op).ok_or_else(|| "a generic without a body".to_owned())?;
    let code = Body::decode(block, &Outer { env, rounding: cx.rounding });
    let code = cx.limited(code)?;
    let total: usize = extent.iter().product();
    cx.spend(total as u64 * (1 + code.steps.len() as u64), op.location()).map_err(Stop::Failure)?;
    let access: Vec<Access> = maps.iter().zip(&tensors).map(|(m, t)| access(m, &t.shape, dims)).collect();
    let mut data: Vec<Vec<Cell>> = tensors.iter().map(|t| cells(t)).collect();
    let mut machine = code.machine();
    let mut index = vec![Cell::of_i(0); dims];
    let mut places = vec![0; tensors.len()];
    for _ in 0..total {
        for (k, a) in access.iter().enumerate() {
            places[k] = match a {
                Access::Strides(s) => s.iter().zip(&index).map(|(s, i)| s * i.i() as usize).sum(),
                Access::Maps(m) => {
                    let at = m
                        .iter()
                        .map(|e| {
                            e.eval(&index).map(Cell::of_i).ok_or("an indexing map divides by zero".into())
                        })
                        .collect::<Step<Vec<_>>>()?;
                    super::body::position(&tensors[k].shape, &at)?
                }
            };
            machine.set(k, data[k][places[k]]);
        }
        machine.run(&index)?;
        for (o, c) in machine.yielded().into_iter().enumerate() {
            data[ins + o][places[ins + o]] = c;
        }
        for d in (0..dims).rev() {
            let next = index[d].i() + 1;
            if (next as usize) < extent[d] {
                index[d] = Cell::of_i(next);
                break;
            }
            index[d] = Cell::of_i(0);
        }
    }
    Ok(tensors[ins..]
        .iter()
        .zip(data.drain(ins..))
        .map(|(t, c)| Val::Tensor(Rc::new(tensor(t.dtype, t.shape.clone(), c))))
        .collect())
}
