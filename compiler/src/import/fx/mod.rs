//! PyTorch FX graphs, as the Python package serialises them after AOTAutograd, to modules of graph ops.
//!
//! [`model`] reads the JSON, [`sizes`] its size expressions, the theme files hold one function an ATen op, [`table`] finds
//! them by name. An op without a function, or one that a function refuses (an argument form, an element type), becomes a
//! `graph.custom_call`, which the embedding program runs: importing fails on malformed JSON only.

mod attention;
mod calc;
mod create;
mod elementary;
mod exact;
mod fallback;
mod index;
mod lower;
mod model;
mod norm;
mod operand;
mod pointwise;
mod pool;
mod powers;
mod products;
mod reduce;
mod scan;
mod scatter;
mod sizes;
mod sort;
mod special;
mod table;
#[cfg(test)]
mod tests;
mod unary;
mod views;

use lower::{Cx, Refusal, inverse};
use melior::Context;
use melior::ir::attribute::{
    ArrayAttribute, DictionaryAttribute, IntegerAttribute, StringAttribute, TypeAttribute,
};
use melior::ir::operation::OperationLike;
use melior::ir::r#type::{FunctionType, IntegerType};
use melior::ir::{
    Attribute, Block, BlockLike, Identifier, Location, Module, Region, RegionLike, Type, Value, ValueLike,
};
use model::{Graph, Input, Output};
use strata_dialects::affine::dims_attribute;
use strata_dialects::{Attr, Builder, TensorType};
use strata_runtime::DType;
use strata_runtime::sym::Expr;

/// The module of a serialised FX graph. An error says which part of the JSON is malformed.
pub fn to_module<'c>(context: &'c Context, json: &str) -> Result<Module<'c>, String> {
    let graph = model::parse(json)?;
    let module = Module::new(Location::unknown(context));
    write(context, &module, graph)?;
    if !module.as_operation().verify() {
        return Err("the imported function does not verify; please report this graph".into());
    }
    Ok(module)
}

fn write<'c>(context: &'c Context, module: &Module<'c>, mut graph: Graph) -> Result<(), String> {
    let unknown = Location::unknown(context);
    let mut argument_types = Vec::new();
    let mut argument_attrs = Vec::new();
    for input in &graph.inputs {
        let (ty, strides) = argument(input, &mut graph.sizes);
        argument_types.push(ty.to_mlir(context)?);
        argument_attrs.push(attributes(context, input.name(), strides, None)?);
    }
    let block = Block::new(&argument_types.iter().map(|&t| (t, unknown)).collect::<Vec<_>>());
    let region = Region::new();
    let block = region.append_block(block);
    let mut cx = Cx::new(Builder::at_end(context, block, unknown), graph.sizes);
    cx.strict = graph.strict;
    cx.gpu = graph.gpu;
    cx.standalone = graph.standalone;
    for (i, input) in graph.inputs.iter().enumerate() {
        if let Input::Tensor { meta, permutation, strides, .. } = input {
            let mut value: Value = block.argument(i).map_err(|e| e.to_string())?.into();
            if let Some(p) = permutation {
                value = cx.transpose(value, &inverse(p)).map_err(|e| e.0)?;
            }
            if strides.is_some() {
                cx.with_gaps.insert(input.name().to_owned());
            }
            cx.define(input.name(), vec![Some(value)], vec![Some(meta.clone())]);
        }
    }
    for node in &graph.nodes {
        cx.b = cx.b.at(match &node.location {
            Some((file, line)) => Location::name(context, &node.name, Location::new(context, file, *line, 0)),
            None => unknown,
        });
        table::lower_or_fall_back(&mut cx, node)
            .map_err(|e| format!("node {} ({}): {}", node.name, node.op, e.0))?;
    }
    cx.b = cx.b.at(unknown);
    let mut results = Vec::new();
    for output in &graph.outputs {
        results.push(result(&mut cx, output).map_err(|e| format!("output {}: {}", output.name, e.0))?);
    }
    cx.b.op("func.return", &results, &[], &[], vec![]);
    let result_types: Vec<Type> = results.iter().map(|v| v.r#type()).collect();
    let names: Vec<Attribute> = graph
        .outputs
        .iter()
        .map(|o| attributes(context, &o.name, None, o.memory))
        .collect::<Result<_, _>>()?;
    let function_type = FunctionType::new(context, &argument_types, &result_types);
    let mut attrs: Vec<(&str, Attribute)> = vec![
        ("sym_name", StringAttribute::new(context, &graph.name).into()),
        ("function_type", TypeAttribute::new(function_type.into()).into()),
        ("arg_attrs", ArrayAttribute::new(context, &argument_attrs).into()),
        ("res_attrs", ArrayAttribute::new(context, &names).into()),
    ];
    if !cx.sizes.symbols().is_empty() {
        attrs.push((
            crate::graph::symbols::ATTRIBUTE,
            crate::graph::symbols::attribute(context, cx.sizes.symbols()),
        ));
    }
    Builder::at_end(context, module.body(), unknown).op("func.func", &[], &[], &attrs, vec![region]);
    Ok(())
}

/// The type of an argument, and its strides where it is not contiguous.
fn argument(input: &Input, sizes: &mut sizes::Sizes) -> (TensorType, Option<Vec<Expr>>) {
    match input {
        Input::Size { symbol, .. } => (TensorType { dtype: DType::I1, shape: vec![symbol.clone()] }, None),
        Input::Tensor { meta, permutation, strides, .. } => {
            let shape = match permutation {
                Some(p) => p.iter().map(|&d| meta.shape[d].clone()).collect(),
                None => meta.shape.clone(),
            };
            let strides = strides.as_ref().map(|s| s.iter().map(|e| sizes.affine(e)).collect());
            (TensorType { dtype: meta.dtype, shape }, strides)
        }
    }
}

fn attributes<'c>(
    context: &'c Context,
    name: &str,
    strides: Option<Vec<Expr>>,
    memory: Option<i64>,
) -> Result<Attribute<'c>, String> {
    let mut pairs =
        vec![(Identifier::new(context, "graph.name"), StringAttribute::new(context, name).into())];
    if let Some(s) = strides {
        let s = dims_attribute(context, &s).ok_or("a stride is not affine")?;
        pairs.push((Identifier::new(context, "graph.strides"), s));
    }
    if let Some(number) = memory {
        let number = IntegerAttribute::new(IntegerType::new(context, 64).into(), number);
        pairs.push((Identifier::new(context, crate::graph::MEMORY), number.into()));
    }
    Ok(DictionaryAttribute::new(context, &pairs).into())
}

/// What the function returns for an output: repeated elements cut away, dimensions in the order that they have in memory.
fn result<'c, 'a>(cx: &mut Cx<'c, 'a>, output: &Output) -> Result<Value<'c, 'a>, Refusal> {
    let mut value = cx.value(&output.name, 0)?;
    let ty = cx.b.tensor_type(value);
    if !output.repeated.is_empty() {
        let limits = (0..ty.rank())
            .map(|d| if output.repeated.contains(&d) { Expr::from(1) } else { ty.shape[d].clone() })
            .collect();
        value = cx.b.graph1(
            "slice",
            &[value],
            &[
                ("starts", Attr::Dims(vec![Expr::from(0); ty.rank()])),
                ("limits", Attr::Dims(limits)),
                ("strides", Attr::Ints(vec![1; ty.rank()])),
            ],
        )?;
    }
    match &output.permutation {
        Some(p) => cx.transpose(value, p),
        None => Ok(value),
    }
}
