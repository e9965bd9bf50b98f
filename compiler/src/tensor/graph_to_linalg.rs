//! The pass `graph-to-linalg`: kernel functions of graph ops become `linalg` on tensors.

use super::emitter::{Emitter, key};
use super::{indexing, pointwise, products, reductions, reshape, views};
use crate::driver::pass::{Failure, Level, Pass, PassCx, PassOption};
use crate::element;
use crate::graph::ranges::Ranges;
use crate::graph::{ENTRY, KERNEL};
use crate::interp::symbols::symbols_of;
use crate::ir::{body, erase, functions, name, ops};
use melior::Context;
use melior::ir::attribute::{ArrayAttribute, DictionaryAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::FunctionType;
use melior::ir::{
    Attribute, Block, BlockLike, BlockRef, Identifier, Module, Region, RegionLike, Type, Value, ValueLike,
};
use std::collections::BTreeMap;
use strata_dialects::affine::dims_attribute;
use strata_dialects::build::Builder;
use strata_dialects::{Lowering, OpView, TensorType};

/// Kernel functions of graph ops become `linalg` on tensors; where no function is marked as a kernel, all functions do.
pub static PASS: Pass = Pass {
    name: "graph-to-linalg",
    summary: "lower kernel functions from graph ops to linalg on tensors; symbols become index arguments",
    from: Level::Graph,
    to: Level::Tensor,
    exact: false,
    options: &[PassOption {
        name: "numerics",
        default: "default",
        help: "default: conversions between fused ops may be dropped (fastmath<contract>); strict: they stay",
    }],
    run,
};

/// What the pass does with a function.
enum Decision {
    Convert,
    Leave,
}

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    let fast = !cx.strict()?;
    let all = functions(module);
    let marked = all.iter().any(|f| f.has_attribute(KERNEL) || f.has_attribute(ENTRY));
    for function in all {
        if marked && !function.has_attribute(KERNEL) {
            continue;
        }
        if let Decision::Convert = inspect(function, marked)? {
            convert(cx.context, function, fast)?;
            cx.count("functions lowered", 1);
        }
    }
    Ok(())
}

/// Only functions of nothing but graph ops are converted; those that call others are the entry's business.
fn inspect<'c: 'a, 'a>(function: OperationRef<'c, 'a>, kernel: bool) -> Result<Decision, Failure> {
    let Some(block) = body(&function) else { return Ok(Decision::Leave) };
    let list = ops(block);
    let graph = |op: &&OperationRef<'c, 'a>| name(*op).starts_with("graph.");
    let foreign = list.iter().find(|op| !name(*op).starts_with("graph.") && name(*op) != "func.return");
    if let Some(op) = foreign {
        return if list.iter().any(|op| graph(&op)) {
            Err(Failure::new(op.location(), format!("'{}' stands among graph ops", name(op)))
                .next("lower functions that hold nothing but graph ops"))
        } else {
            Ok(Decision::Leave)
        };
    }
    for op in &list {
        let plan =
            strata_dialects::ops::lookup(name(op)).is_some_and(|s| matches!(s.lowering, Lowering::Plan));
        if plan && kernel {
            return Err(Failure::new(op.location(), format!("'{}' cannot be part of a kernel", name(op)))
                .next("it belongs to the entry function; run outline-kernels"));
        }
        if plan {
            return Ok(Decision::Leave);
        }
    }
    Ok(Decision::Convert)
}

/// The argument (or result) attributes of a function with `loop.dims` added to those of the tensors, and `loop.element` where
/// elements are stored as another type than they have.
fn with_dims<'c>(
    context: &'c Context,
    old: Option<Attribute<'c>>,
    tensors: &[TensorType],
    extra: usize,
) -> Result<Attribute<'c>, String> {
    let old = old.and_then(|a| ArrayAttribute::try_from(a).ok());
    let mut list: Vec<Attribute<'c>> = Vec::new();
    for (i, t) in tensors.iter().enumerate() {
        let dims = dims_attribute(context, &t.shape).ok_or_else(|| format!("a size of {t} is not affine"))?;
        let mut entries = vec![(Identifier::new(context, "loop.dims"), dims)];
        entries.extend(element::attribute(context, t.dtype));
        let before = old.and_then(|a| a.element(i).ok()).and_then(|a| DictionaryAttribute::try_from(a).ok());
        if let Some(d) = before {
            for k in 0..d.len() {
                entries.push(d.element(k).expect("in range"));
            }
        }
        list.push(DictionaryAttribute::new(context, &entries).into());
    }
    list.extend((0..extra).map(|_| -> Attribute<'c> { DictionaryAttribute::new(context, &[]).into() }));
    Ok(ArrayAttribute::new(context, &list).into())
}

/// Replaces a function by its form at the tensor level.
fn convert<'c: 'a, 'a>(
    context: &'c Context,
    function: OperationRef<'c, 'a>,
    fast: bool,
) -> Result<(), Failure> {
    let here = function.location();
    let at = |m: String| Failure::new(here, m);
    let old = body(&function).expect("inspected before");
    let symbols = symbols_of(&function).map_err(at)?.len();
    let plain = |v: Value<'c, 'a>| TensorType::from_mlir(v.r#type());
    let arguments: Vec<TensorType> = (0..old.argument_count())
        .map(|i| plain(old.argument(i).expect("in range").into()))
        .collect::<Result<_, _>>()
        .map_err(at)?;
    let list = ops(old);
    let Some(ret) = list.last().filter(|op| name(*op) == "func.return") else {
        return Err(at("the function has no func.return".into()));
    };
    let results: Vec<TensorType> = ret.operands().map(plain).collect::<Result<_, _>>().map_err(at)?;
    for e in arguments.iter().chain(&results).flat_map(|t| &t.shape) {
        if let Some(s) = e.symbols().last().filter(|s| s.0 as usize >= symbols) {
            return Err(at(format!(
                "the size {e} uses symbol s{}, but graph.symbols has {symbols} entries",
                s.0
            )));
        }
    }

    // The new body, apart from the module until it is whole.
    let region = Region::new();
    let block = region.append_block(Block::new(&[]));
    // SAFETY: the block moves with its region into the new function, or is destroyed with it on failure, and so is all use.
    let block: BlockRef<'c, 'a> = unsafe { BlockRef::from_raw(block.to_raw()) };
    let mut e = Emitter {
        context,
        block,
        symbols: vec![],
        fast,
        location: here,
        ranges: Ranges::of(function).map_err(at)?,
        values: BTreeMap::new(),
        sizes: BTreeMap::new(),
    };
    for (i, t) in arguments.iter().enumerate() {
        let argument = old.argument(i).expect("in range");
        let new = block.add_argument(e.ty(t), argument.location());
        e.values.insert(key(argument.into()), new);
    }
    let index = Type::index(context);
    e.symbols = (0..symbols).map(|_| block.add_argument(index, here)).collect();
    for op in &list {
        e.location = op.location();
        lower(&mut e, *op)?;
    }

    let inputs: Vec<Type<'c>> =
        arguments.iter().map(|t| e.ty(t)).chain(std::iter::repeat_n(index, symbols)).collect();
    let outputs: Vec<Type<'c>> = results.iter().map(|t| e.ty(t)).collect();
    let mut attributes: Vec<(&str, Attribute<'c>)> = vec![
        ("function_type", TypeAttribute::new(FunctionType::new(context, &inputs, &outputs).into()).into()),
        (
            "arg_attrs",
            with_dims(context, function.attribute("arg_attrs").ok(), &arguments, symbols).map_err(at)?,
        ),
        ("res_attrs", with_dims(context, function.attribute("res_attrs").ok(), &results, 0).map_err(at)?),
    ];
    let kept: Vec<_> = function.attributes().collect();
    for (id, a) in &kept {
        let id = id.as_string_ref().as_str().unwrap_or_default();
        if !["function_type", "arg_attrs", "res_attrs"].contains(&id) {
            attributes.push((id, *a));
        }
    }
    Builder::before(context, function).op("func.func", &[], &[], &attributes, vec![region]);
    // Nothing outside holds a value of the old body.
    erase(function.to_raw());
    Ok(())
}

/// Lowers one op of the old function.
fn lower<'c, 'a>(e: &mut Emitter<'c, 'a>, op: OperationRef<'c, 'a>) -> Result<(), Failure> {
    if name(&op) == "func.return" {
        let values = op.operands().map(|v| e.value(v)).collect::<Result<Vec<_>, _>>()?;
        e.b().op("func.return", &values, &[], &[], vec![]);
        return Ok(());
    }
    let view = OpView::new(&op).or_else(|m| e.fail(m))?;
    let new = match &view.spec.lowering {
        Lowering::Pointwise { body, .. } => pointwise::lower(e, op, &view, *body)?,
        Lowering::Composite(_) => {
            return Err(Failure::new(op.location(), format!("'{}' is a composite", view.spec.name))
                .next("run decompose-composites first"));
        }
        Lowering::Plan => unreachable!("refused by the inspection"),
        Lowering::Structural => match view.spec.mnemonic() {
            // Written where a user cannot fold it.
            "broadcast" | "constant" => return Ok(()),
            "iota" => pointwise::lower_iota(e, &view)?,
            "dim" => pointwise::lower_dim(e, &view)?,
            "reshape" => reshape::lower(e, op, &view)?,
            "transpose" => views::lower_transpose(e, op, &view)?,
            "slice" => views::lower_slice(e, op, &view)?,
            "pad" => views::lower_pad(e, op, &view)?,
            "concat" => views::lower_concat(e, op, &view)?,
            "reduce" => reductions::lower_reduce(e, op, &view)?,
            "arg_reduce" => reductions::lower_arg_reduce(e, op, &view)?,
            "reduce_window" => reductions::lower_window(e, op, &view)?,
            "dot_general" => products::lower_dot(e, op, &view)?,
            "convolution" => products::lower_convolution(e, op, &view)?,
            "scan" => reductions::lower_scan(e, op, &view)?,
            "sort" => return reductions::lower_sort(e, op, &view),
            "gather" => indexing::lower_gather(e, op, &view)?,
            "scatter" => indexing::lower_scatter(e, op, &view)?,
            "check_index" => indexing::lower_check(e, op, &view)?,
            other => {
                return Err(Failure::new(
                    op.location(),
                    format!("'graph.{other}' has no lowering to linalg"),
                )
                .next("add a case in compiler/src/tensor/"));
            }
        },
    };
    e.values.insert(key(op.result(0).expect("every graph op has a result").into()), new);
    Ok(())
}
