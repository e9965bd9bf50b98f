//! The graph level, op by op on reference tensors through the op table.

use super::{Interpreter, symbols};
use crate::driver::pass::Failure;
use crate::ir::{body, name, ops};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Block, BlockLike, BlockRef, Location, Value, ValueLike};
use std::collections::BTreeMap;
use std::rc::Rc;
use strata_dialects::build::Builder;
use strata_dialects::ops::products;
use strata_dialects::reference::RefTensor;
use strata_dialects::{Lowering, OpView, TensorType};

/// Values of a function under evaluation.
type Values = BTreeMap<usize, Rc<RefTensor>>;

fn key(v: Value<'_, '_>) -> usize {
    v.to_raw().ptr as usize
}

/// The plain types of a block's arguments.
pub(super) fn argument_types(block: BlockRef<'_, '_>) -> Result<Vec<TensorType>, String> {
    (0..block.argument_count())
        .map(|i| TensorType::from_mlir(block.argument(i).map_err(|e| e.to_string())?.r#type()))
        .collect()
}

/// Runs a function of graph ops. `given` are the values of its symbols where a call states them.
pub(super) fn run<'c>(
    cx: &mut Interpreter<'_, 'c>,
    function: OperationRef<'c, '_>,
    inputs: Vec<RefTensor>,
    given: Option<Vec<i64>>,
) -> Result<Vec<RefTensor>, Failure> {
    let at = |m: String| Failure::new(function.location(), m);
    let block = body(&function).ok_or_else(|| at("the function has no body".into()))?;
    let types = argument_types(block).map_err(at)?;
    let bindings = cx.bindings(function, &types, &inputs, given)?;
    let mut values = Values::new();
    for (i, t) in inputs.into_iter().enumerate() {
        values.insert(key(block.argument(i).expect("checked by bindings").into()), Rc::new(t));
    }
    for op in ops(block) {
        if name(&op) == "func.return" {
            return fetch(&values, op).map_err(|m| Failure::new(op.location(), m));
        }
        step(cx, op, &bindings, &mut values)?;
    }
    Err(at("the function has no func.return".into()))
}

fn fetch(values: &Values, op: OperationRef<'_, '_>) -> Result<Vec<RefTensor>, String> {
    op.operands()
        .map(|v| {
            values
                .get(&key(v))
                .map(|t| (**t).clone())
                .ok_or("an operand is not a value of this function".into())
        })
        .collect()
}

/// Evaluates one op.
fn step<'c>(
    cx: &mut Interpreter<'_, 'c>,
    op: OperationRef<'c, '_>,
    bindings: &[i64],
    values: &mut Values,
) -> Result<(), Failure> {
    let at = |m: String| Failure::new(op.location(), m);
    let view = OpView::new(&op).map_err(at)?.bind(bindings).map_err(at)?;
    let operands = fetch(values, op).map_err(at)?;
    let work: usize = operands.iter().map(RefTensor::len).sum::<usize>()
        + view.results.iter().filter_map(|r| r.numel().as_const()).sum::<i64>() as usize;
    let products = match view.spec.name {
        "graph.dot_general" => products::dot_flops(&view).as_const().unwrap_or(0) as u64,
        "graph.convolution" => {
            (view.results[0].numel().as_const().unwrap_or(0)
                * view.operands[1].shape[1..]
                    .iter()
                    .cloned()
                    .product::<strata_runtime::sym::Expr>()
                    .as_const()
                    .unwrap_or(0)) as u64
        }
        _ => 0,
    };
    cx.spend(work as u64 + products, op.location())?;
    let results = match &view.spec.lowering {
        Lowering::Plan if view.spec.name == "graph.call" => {
            let symbols = view.dims("symbols").iter().map(|e| e.as_const().unwrap_or(0)).collect();
            let callee = view.str("callee").to_owned();
            cx.call(&callee, operands, Some(symbols), op.location())?
        }
        Lowering::Plan => {
            cx.limit = true;
            let target = view.attr("target").map(|_| view.str("target").to_owned()).unwrap_or_default();
            return Err(at(format!("'{}' of '{target}' runs in the embedding program", view.spec.name))
                .next("the interpreter cannot run it; give a module without custom calls"));
        }
        Lowering::Composite(decompose) => {
            let (location, context) = (op.location(), op.context());
            // SAFETY: the context outlives its ops.
            let context = unsafe { context.to_ref() };
            composite(cx, context, location, &view, *decompose, operands)?
        }
        _ => match view.spec.evaluate(&view, &operands, cx.rounding) {
            Some(r) => r.map_err(at)?,
            None => return cx.limited(Err(at(format!("'{}' has no evaluation", view.spec.name)))),
        },
    };
    for (i, (r, stated)) in results.into_iter().zip(&view.results).enumerate() {
        let sizes = stated.static_shape();
        if sizes.as_deref() != Some(&r.shape) || r.dtype != stated.dtype {
            return Err(at(format!("result {i} is {}{:?}, the op states {stated}", r.dtype, r.shape)));
        }
        values.insert(key(op.result(i).expect("as many results as stated").into()), Rc::new(r));
    }
    Ok(())
}

/// Evaluates a composite through its decomposition, written into a block of its own.
fn composite<'c>(
    cx: &mut Interpreter<'_, 'c>,
    context: &'c melior::Context,
    location: Location<'c>,
    view: &OpView,
    decompose: strata_dialects::spec::Decompose,
    operands: Vec<RefTensor>,
) -> Result<Vec<RefTensor>, Failure> {
    let at = |m: String| Failure::new(location, m);
    let types =
        view.operands.iter().map(|t| Ok((t.to_mlir(context)?, location))).collect::<Result<Vec<_>, String>>();
    let scratch = Block::new(&types.map_err(at)?);
    let mut values = Values::new();
    {
        // SAFETY: used only while `scratch` lives.
        let block: BlockRef<'c, '_> = unsafe { BlockRef::from_raw(scratch.to_raw()) };
        let arguments: Vec<Value<'c, '_>> =
            (0..operands.len()).map(|i| block.argument(i).expect("as many as operands").into()).collect();
        for (v, t) in arguments.iter().zip(operands) {
            values.insert(key(*v), Rc::new(t));
        }
        let builder = Builder::at_end(context, block, location);
        let results = decompose(&builder, view, &arguments).map_err(|v| at(v.to_string()))?;
        for op in ops(block) {
            step(cx, op, &[], &mut values)?;
        }
        results
            .iter()
            .map(|v| {
                values
                    .get(&key(*v))
                    .map(|t| (**t).clone())
                    .ok_or_else(|| at(format!("the decomposition of '{}' loses a result", view.spec.name)))
            })
            .collect()
    }
}

impl<'c> Interpreter<'_, 'c> {
    /// The values of a function's symbols, from the sizes of its inputs, or as given and then checked.
    pub(super) fn bindings(
        &self,
        function: OperationRef<'c, '_>,
        types: &[TensorType],
        inputs: &[RefTensor],
        given: Option<Vec<i64>>,
    ) -> Result<Vec<i64>, Failure> {
        let at = |m: String| Failure::new(function.location(), m);
        if types.len() != inputs.len() {
            return Err(at(format!("takes {} tensors, got {}", types.len(), inputs.len())));
        }
        for (i, (t, x)) in types.iter().zip(inputs).enumerate() {
            if t.dtype != x.dtype {
                return Err(at(format!(
                    "argument {i} is {t}, but the tensor given has elements of {}",
                    x.dtype
                )));
            }
        }
        let facts = symbols::symbols_for(&function, types).map_err(at)?;
        let shapes: Vec<&[usize]> = inputs.iter().map(|t| t.shape.as_slice()).collect();
        match given {
            None => symbols::bind(&facts, types, &shapes).map_err(at),
            Some(values) => symbols::check(&facts, types, &shapes, &values).map(|()| values).map_err(at),
        }
    }
}
