//! Pass `linalg-to-loops`: every tensor-level kernel function becomes a scheduled loop nest on memrefs.

use super::emitter::Emitter;
use super::group::{Group, V, read, value};
use super::rows_plan::analyze;
use super::schedule::Schedule;
use super::{choose, pointwise, rows};
use crate::driver::pass::{Failure, Level, Pass, PassCx, PassOption};
use crate::ir;
use melior::ir::attribute::{
    ArrayAttribute, DictionaryAttribute, IntegerAttribute, StringAttribute, TypeAttribute,
};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::{FunctionType, IntegerType, MemRefType};
use melior::ir::{Attribute, Block, BlockLike, BlockRef, Identifier, Module, Region, RegionLike, Type};
use strata_dialects::Builder;
use strata_dialects::affine::dims_attribute;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::plan::DeviceKind;
use strata_runtime::sym::Expr;

/// The pass.
pub static PASS: Pass = Pass {
    name: "linalg-to-loops",
    summary: "Writes each tensor-level kernel function as scheduled loops on memrefs",
    from: Level::Tensor,
    to: Level::Loop,
    exact: false,
    options: &[PassOption {
        name: "schedule",
        default: "",
        help: "a schedule as JSON for every kernel, instead of the chosen ones",
    }],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    // SAFETY: the module outlives the pass.
    let body = unsafe { BlockRef::<'c, 'c>::from_raw(module.body().to_raw()) };
    for function in ir::ops(body) {
        if ir::name(&function) == "func.func" && is_kernel(function) {
            lower(cx, function)?;
            cx.count("kernels", 1);
        }
    }
    Ok(())
}

/// Kernel functions have tensor operands or results without graph ops inside, and are not yet loops.
fn is_kernel(function: OperationRef<'_, '_>) -> bool {
    let Some(body) = ir::body(&function) else { return false };
    !function.has_attribute("loop.kernel")
        && !ir::ops(body).iter().any(|op| ir::name(op).starts_with("graph."))
}

fn lower<'c>(cx: &PassCx<'c>, function: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let group = read(function)?;
    let gpu = cx.target.device() == DeviceKind::Cuda;
    let location = function.location();
    let rows_of = analyze(&group);
    let schedule = match cx.option("schedule") {
        "" => rows_of
            .as_ref()
            .and_then(|r| choose::rows_gpu(&group, r))
            .unwrap_or_else(|| choose::pointwise_gpu(&group)),
        text => serde_json::from_str(text).map_err(|e| {
            Failure::new(location, format!("the option schedule is not a schedule: {e}"))
                .next(r#"write e.g. {"kind":"pointwise","vector":8,"threads":256,"per_thread":1}"#)
        })?,
    };
    let context = cx.context;
    let (region, block, outs) = signature(cx, &group, location);
    let arguments: Vec<V<'c>> =
        (0..block.argument_count()).map(|i| value(block.argument(i).expect("in range"))).collect();
    let inputs = group.inputs.len();
    let symbols = arguments[inputs + outs..].to_vec();
    let mut e = Emitter::new(context, &group, block, arguments[..inputs].to_vec(), &symbols, location);
    let out_memrefs = &arguments[inputs..inputs + outs];
    match &schedule {
        Schedule::Pointwise { vector, threads, per_thread } => {
            pointwise::emit_gpu(&mut e, *vector, *threads, *per_thread, out_memrefs);
        }
        Schedule::Rows { vector, threads, rows } => {
            let shape = rows::Shape { vector: *vector, threads: *threads, rows: *rows };
            let Some(found) = &rows_of else {
                return Err(Failure::new(
                    location,
                    "the kernel has no row reductions for the schedule 'rows'",
                ));
            };
            rows::emit(&mut e, found, shape, out_memrefs);
        }
    }
    e.b().op("func.return", &[], &[], &[], vec![]);
    super::cleanup::remove_dead(block);
    finish(cx, function, &group, region, block, &schedule, gpu);
    Ok(())
}

fn memref<'c>(cx: &PassCx<'c>, group: &Group<'c>, node: usize) -> Type<'c> {
    let n = &group.nodes[node];
    let shape: Vec<i64> = n.shape.iter().map(|e| e.as_const().unwrap_or(i64::MIN)).collect();
    MemRefType::new(dtype_to_mlir(cx.context, n.dtype), &shape, None, None).into()
}

/// A region with the block of the new function: operands, results, symbols.
fn signature<'c>(
    cx: &PassCx<'c>,
    group: &Group<'c>,
    location: melior::ir::Location<'c>,
) -> (Region<'c>, BlockRef<'c, 'c>, usize) {
    let tensors = group.inputs.iter().chain(&group.outputs);
    let mut types: Vec<_> = tensors.map(|&n| memref(cx, group, n)).collect();
    types.extend(group.symbols.iter().map(|_| Type::index(cx.context)));
    let arguments: Vec<_> = types.into_iter().map(|t| (t, location)).collect();
    let region = Region::new();
    let block = region.append_block(Block::new(&arguments));
    // SAFETY: the block moves into the function with its region and lives as long as the module.
    let block = unsafe { BlockRef::from_raw(block.to_raw()) };
    (region, block, group.outputs.len())
}

/// Replaces the tensor-level function by the new one.
fn finish<'c>(
    cx: &PassCx<'c>,
    function: OperationRef<'c, 'c>,
    group: &Group<'c>,
    region: Region<'c>,
    block: BlockRef<'c, 'c>,
    schedule: &Schedule,
    gpu: bool,
) {
    let context = cx.context;
    let types: Vec<Type<'c>> = (0..block.argument_count())
        .map(|i| value(block.argument(i).expect("in range")))
        .map(|v| {
            use melior::ir::ValueLike;
            v.r#type()
        })
        .collect();
    let unit = Attribute::unit(context);
    let dims = |e: &[Expr]| dims_attribute(context, e);
    let entry = |list: &[(&str, Attribute<'c>)]| -> Attribute<'c> {
        let list: Vec<_> = list.iter().map(|(n, a)| (Identifier::new(context, n), *a)).collect();
        DictionaryAttribute::new(context, &list).into()
    };
    let mut argument_attributes = Vec::new();
    for (i, &n) in group.inputs.iter().chain(&group.outputs).enumerate() {
        let shape = &group.nodes[n].shape;
        let mut list = Vec::new();
        if shape.iter().any(|e| e.as_const().is_none()) {
            list.extend(dims(shape).map(|a| ("loop.dims", a)));
        }
        if i >= group.inputs.len() {
            list.push(("loop.out", unit));
        }
        argument_attributes.push(entry(&list));
    }
    argument_attributes.extend(group.symbols.iter().map(|_| entry(&[])));
    let name = ir::symbol_name(&function);
    let target = if gpu { "gpu" } else { "cpu" };
    let mut attributes = vec![
        ("sym_name", StringAttribute::new(context, &name).into()),
        ("function_type", TypeAttribute::new(FunctionType::new(context, &types, &[]).into()).into()),
        ("arg_attrs", ArrayAttribute::new(context, &argument_attributes).into()),
        ("loop.kernel", unit),
        ("loop.target", StringAttribute::new(context, target).into()),
        ("loop.schedule", StringAttribute::new(context, &schedule.to_json()).into()),
    ];
    if let Some(a) = dims(&schedule_grid(group, schedule)) {
        attributes.push(("loop.grid", a));
    }
    if gpu {
        let n = IntegerAttribute::new(IntegerType::new(context, 64).into(), schedule.block());
        attributes.push(("loop.block", n.into()));
    }
    for kept in ["graph.symbols", "sym_visibility"] {
        if let Ok(a) = function.attribute(kept) {
            attributes.push((kept, a));
        }
    }
    let new = Builder::before(context, function).op("func.func", &[], &[], &attributes, vec![region]);
    let _ = new;
    ir::erase(function.to_raw());
}

fn schedule_grid(group: &Group<'_>, schedule: &Schedule) -> Vec<Expr> {
    vec![match schedule {
        Schedule::Pointwise { vector, threads, per_thread } => {
            choose::numel(group, group.outputs[0]).ceil_div(&(vector * threads * per_thread).into())
        }
        Schedule::Rows { rows, .. } => {
            analyze(group).map_or_else(Expr::default, |r| r.rows).ceil_div(&(*rows).into())
        }
    }]
}
