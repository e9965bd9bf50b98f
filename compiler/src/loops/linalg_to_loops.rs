//! Pass `linalg-to-loops`: every tensor-level kernel function becomes a scheduled loop nest on memrefs.

use super::emitter::Emitter;
use super::group::{Group, Kind, Scratch, V, value};
use super::index::Facts;
use super::read::read;
use super::rows_plan::{Rows, analyze};
use super::scan::scan_of;
use super::scatter::scatter_of;
use super::schedule::Schedule;
use super::sort::sort_of;
use super::{
    choose, cpu, domain, pointwise, rows, scan, scatter, sort, sort_merge, sort_network, split, tile_tasks,
    tiles,
};
use crate::driver::pass::{Failure, Level, Pass, PassCx, PassOption};
use crate::element;
use crate::graph::{ENTRY, KERNEL};
use crate::ir;
use crate::kernel::signature::TICKETS;
use melior::ir::attribute::{
    ArrayAttribute, DictionaryAttribute, IntegerAttribute, StringAttribute, TypeAttribute,
};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::{FunctionType, IntegerType, MemRefType};
use melior::ir::{Attribute, Block, BlockLike, BlockRef, Identifier, Module, Region, RegionLike, Type};
use strata_dialects::Builder;
use strata_dialects::affine::dims_attribute;
use strata_dialects::types::dtype_to_mlir;
use strata_runtime::DType;
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
    let functions: Vec<_> = ir::ops(body).into_iter().filter(|op| ir::name(op) == "func.func").collect();
    let marked = functions.iter().any(|f| f.has_attribute(KERNEL) || f.has_attribute(ENTRY));
    for function in functions {
        if is_kernel(function) && (!marked || function.has_attribute(KERNEL)) {
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
    let crossing = tiles::analyze(&mut Emitter::probe(cx.context, &group, location));
    let schedule = match cx.option("schedule") {
        "" => choose::choose(&group, rows_of.as_ref(), crossing.as_ref(), &cx.target),
        text => serde_json::from_str(text).map_err(|e| {
            Failure::new(location, format!("the option schedule is not a schedule: {e}"))
                .next(r#"write e.g. {"kind":"pointwise","vector":8,"threads":256,"per_thread":1}"#)
        })?,
    };
    check(&schedule, &group, rows_of.as_ref(), crossing.as_ref(), gpu).map_err(|m| {
        Failure::new(location, format!("the schedule {} does not fit: {m}", schedule.to_json()))
            .next("leave the option schedule out, and the kernel gets a schedule that fits")
    })?;
    let context = cx.context;
    let split = split_of(&schedule);
    let scratch = match schedule {
        Schedule::SortTasks { rows } => {
            sort_merge::scratch(&group, &sort_of(&group, group.outputs[0]).expect("checked before"), rows)
        }
        _ => match (&split, &rows_of) {
            (Some(shape), Some(rows)) => split::scratch(&group, rows, *shape),
            _ => vec![],
        },
    };
    let (region, block) = signature(cx, &group, &scratch, location);
    let arguments: Vec<V<'c>> =
        (0..block.argument_count()).map(|i| value(block.argument(i).expect("in range"))).collect();
    let inputs = group.inputs.len();
    let outs = group.outputs.len();
    let symbols = arguments[inputs + outs + scratch.len()..].to_vec();
    let mut e = Emitter::new(context, &group, block, arguments[..inputs].to_vec(), &symbols, location);
    e.cpu = !gpu;
    let out_memrefs = &arguments[inputs..inputs + outs];
    let scratch_memrefs = &arguments[inputs + outs..inputs + outs + scratch.len()];
    let own_scan = || scan_of(&group, group.outputs[0]);
    let own_sort = || sort_of(&group, group.outputs[0]).expect("checked before");
    let own_scatter = || scatter_of(&group, group.outputs[0]);
    let need = || rows_of.as_ref().expect("checked before");
    let grid = match &schedule {
        Schedule::Pointwise { vector, threads, per_thread } => {
            pointwise::emit_gpu(&mut e, *vector, *threads, *per_thread, out_memrefs)
        }
        Schedule::Rows { vector, threads, rows, looped, shared } => {
            let [vector, threads, rows] = [*vector, *threads, *rows];
            let shape = rows::Shape { vector, threads, rows, looped: *looped, shared: *shared };
            rows::emit(&mut e, need(), shape, out_memrefs)
        }
        Schedule::Tiles { tile, vector, read, threads } => {
            let shape = tiles::Shape { tile: *tile, vector: *vector, read: *read, threads: *threads };
            let tiles = tiles::analyze(&mut e).expect("checked before");
            tiles::emit(&mut e, &tiles, shape, out_memrefs)
        }
        Schedule::Columns { .. } | Schedule::LongRows { .. } => {
            split::emit(&mut e, need(), split.expect("such a schedule"), out_memrefs, scratch_memrefs)
        }
        Schedule::Scan { threads } => {
            scan::emit_gpu(&mut e, own_scan().expect("checked before"), *threads, out_memrefs[0])
        }
        Schedule::ScanTasks { rows } => {
            scan::emit_tasks(&mut e, own_scan().expect("checked before"), *rows, out_memrefs[0])
        }
        Schedule::Sort { threads, shared } => {
            sort_network::emit(&mut e, own_sort(), *threads, *shared, out_memrefs)
        }
        Schedule::SortTasks { rows } => {
            sort_merge::emit(&mut e, own_sort(), *rows, out_memrefs, scratch_memrefs)
        }
        Schedule::Tasks { task, .. } if own_scatter().is_some() => {
            let s = own_scatter().expect("just asked");
            scatter::emit_tasks(&mut e, s, *task, out_memrefs[0])
        }
        Schedule::TileTasks { vector, along, across } => {
            let tiles = tiles::analyze(&mut e).expect("checked before");
            let shape = tile_tasks::Shape { vector: *vector, along: *along, across: *across };
            tile_tasks::emit(&mut e, &tiles, shape, out_memrefs)
        }
        Schedule::Tasks { vector, task } => cpu::emit_tasks(&mut e, *vector, *task, out_memrefs),
        Schedule::RowTasks { vector, rows, unroll } => {
            let shape = cpu::Shape { vector: *vector, rows: *rows, unroll: *unroll };
            cpu::emit_rows(&mut e, need(), shape, out_memrefs)
        }
    };
    e.b().op("func.return", &[], &[], &[], vec![]);
    super::cleanup::remove_dead(block);
    finish(cx, function, &group, (region, block), &scratch, &schedule, &grid);
    Ok(())
}

/// How a schedule of split reductions spreads the work.
fn split_of(schedule: &Schedule) -> Option<split::Shape> {
    match *schedule {
        Schedule::Columns { vector, lanes, threads, parts } => {
            Some(split::Shape { vector, lanes, threads, parts })
        }
        Schedule::LongRows { vector, threads, parts } => {
            Some(split::Shape { vector, lanes: 1, threads, parts })
        }
        _ => None,
    }
}

fn memref<'c>(cx: &PassCx<'c>, dtype: DType, shape: &[Expr]) -> Type<'c> {
    let shape: Vec<i64> = shape.iter().map(|e| e.as_const().unwrap_or(i64::MIN)).collect();
    MemRefType::new(dtype_to_mlir(cx.context, dtype), &shape, None, None).into()
}

/// Element types and sizes of a kernel's buffers: operands, results, memory of its own.
fn buffers<'g>(group: &'g Group<'_>, scratch: &'g [Scratch]) -> Vec<(DType, &'g [Expr])> {
    let tensors = group.inputs.iter().chain(&group.outputs).map(|&n| &group.nodes[n]);
    let tensors = tensors.map(|n| (n.dtype, n.shape.as_slice()));
    tensors.chain(scratch.iter().map(|s| (s.dtype, s.shape.as_slice()))).collect()
}

/// A region with the block of the new function: buffers, then symbols.
fn signature<'c>(
    cx: &PassCx<'c>,
    group: &Group<'c>,
    scratch: &[Scratch],
    location: melior::ir::Location<'c>,
) -> (Region<'c>, BlockRef<'c, 'c>) {
    let mut types: Vec<_> = buffers(group, scratch).into_iter().map(|(d, s)| memref(cx, d, s)).collect();
    types.extend(group.symbols.iter().map(|_| Type::index(cx.context)));
    let arguments: Vec<_> = types.into_iter().map(|t| (t, location)).collect();
    let region = Region::new();
    let block = region.append_block(Block::new(&arguments));
    // SAFETY: the block moves into the function with its region and lives as long as the module.
    let block = unsafe { BlockRef::from_raw(block.to_raw()) };
    (region, block)
}

/// Replaces the tensor-level function by the new one.
fn finish<'c>(
    cx: &PassCx<'c>,
    function: OperationRef<'c, 'c>,
    group: &Group<'c>,
    (region, block): (Region<'c>, BlockRef<'c, 'c>),
    scratch: &[Scratch],
    schedule: &Schedule,
    grid: &[Expr],
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
    for (i, (_, shape)) in buffers(group, scratch).into_iter().enumerate() {
        let mut list = Vec::new();
        if shape.iter().any(|e| e.as_const().is_none()) {
            list.extend(dims(shape).map(|a| ("loop.dims", a)));
        }
        let stated = match i.checked_sub(group.inputs.len()) {
            None => element::stated(function, "arg_attrs", i),
            Some(result) => element::stated(function, "res_attrs", result),
        };
        let stated = stated.and_then(|d| element::attribute(context, d));
        list.extend(stated.map(|(_, a)| (element::ELEMENT, a)));
        if i >= group.inputs.len() {
            list.push(("loop.out", unit));
            let result = group.outputs.get(i - group.inputs.len());
            let before =
                result.and_then(|&n| scatter_of(group, n)).and_then(|s| match group.nodes[s.dest].kind {
                    Kind::Input(i) => {
                        Some(IntegerAttribute::new(IntegerType::new(context, 64).into(), i as i64))
                    }
                    _ => None,
                });
            list.extend(before.map(|a| ("loop.init", a.into())));
            if result.is_none() {
                list.push(("loop.scratch", unit));
                if scratch[i - group.inputs.len() - group.outputs.len()].tickets {
                    list.push((TICKETS, unit));
                }
            }
        }
        argument_attributes.push(entry(&list));
    }
    argument_attributes.extend(group.symbols.iter().map(|_| entry(&[])));
    let name = ir::symbol_name(&function);
    let target = if schedule.block().is_some() { "gpu" } else { "cpu" };
    let mut attributes = vec![
        ("sym_name", StringAttribute::new(context, &name).into()),
        ("function_type", TypeAttribute::new(FunctionType::new(context, &types, &[]).into()).into()),
        ("arg_attrs", ArrayAttribute::new(context, &argument_attributes).into()),
        ("loop.kernel", unit),
        ("loop.target", StringAttribute::new(context, target).into()),
        ("loop.schedule", StringAttribute::new(context, &schedule.to_json()).into()),
    ];
    if let Some(a) = dims(grid) {
        attributes.push(("loop.grid", a));
    }
    if let Some(threads) = schedule.block() {
        let n = IntegerAttribute::new(IntegerType::new(context, 64).into(), threads);
        attributes.push(("loop.block", n.into()));
    }
    for kept in ["graph.symbols", "sym_visibility"] {
        if let Ok(a) = function.attribute(kept) {
            attributes.push((kept, a));
        }
    }
    Builder::before(context, function).op("func.func", &[], &[], &attributes, vec![region]);
    ir::erase(function.to_raw());
}

/// Whether what has to have a kernel of its own has one: its operands are computed in it, but nothing else.
fn single(group: &Group<'_>) -> Result<(), String> {
    let own: Vec<usize> = (0..group.nodes.len()).filter(|&n| group.nodes[n].kind.stands_alone()).collect();
    let Some(&root) = own.first() else { return Ok(()) };
    if sort_of(group, root).is_some() {
        return match own.as_slice() {
            [_, _] if group.outputs == own => Ok(()),
            _ => Err("both results of one sort, in order, are the results of its kernel".into()),
        };
    }
    if group.outputs != own || own.len() > 1 {
        return Err("a scatter or a scan is the only result of its kernel".into());
    }
    match scatter_of(group, root) {
        Some(s) if !matches!(group.nodes[s.dest].kind, Kind::Input(_)) => {
            Err("what is scattered into is an operand of the kernel".into())
        }
        _ => Ok(()),
    }
}

/// Why a reduction cannot be split so.
fn check_split(
    shape: split::Shape,
    group: &Group<'_>,
    rows: Option<&Rows>,
    along: bool,
) -> Result<(), String> {
    let split::Shape { vector, lanes, threads, parts } = shape;
    let rows = rows
        .filter(|r| r.along == along && split::splits(group, r))
        .ok_or("the kernel has no reductions of one stage that can be split so")?;
    let power = |n: i64, most: i64| n >= 1 && n <= most && (n as u64).is_power_of_two();
    if !power(vector, 64) || !power(threads, 1024) || threads < 32 || !power(lanes, threads) {
        return Err("vectors, lanes and threads are powers of two, with 32 to 1024 threads".into());
    }
    let extent = if along { rows.column_sizes.last() } else { rows.row_sizes.last() };
    let extent = extent.cloned().unwrap_or(1.into());
    if Facts::new(&group.symbols).divisor(&extent) % vector != 0 {
        return Err(format!("{extent} is not known to be a multiple of {vector}"));
    }
    let stripes = rows.rows.ceil_div(&shape.width(rows).into());
    if !domain::is_affine(&stripes) {
        return Err("the number of blocks is not affine".into());
    }
    let known = stripes.as_const().is_some_and(|n| n <= split::TICKETS);
    if parts < 1 || parts > 1 && !(parts <= 1024 && known) {
        return Err(format!(
            "1 to 1024 blocks share a stripe, and only where there are at most {} of them",
            split::TICKETS
        ));
    }
    Ok(())
}

/// Why a schedule cannot be applied to a kernel.
fn check(
    schedule: &Schedule,
    group: &Group<'_>,
    rows: Option<&Rows>,
    crossing: Option<&tiles::Tiles>,
    gpu: bool,
) -> Result<(), String> {
    if schedule.block().is_some() != gpu {
        return Err("it is for the other device".into());
    }
    let power = |n: i64, most: i64| n >= 1 && n <= most && (n as u64).is_power_of_two();
    let whole = |extent: &Expr, vector: i64| {
        let d = Facts::new(&group.symbols).divisor(extent);
        if d % vector == 0 {
            Ok(())
        } else {
            Err(format!("{extent} is not known to be a multiple of {vector}"))
        }
    };
    single(group)?;
    let scans = group.outputs.first().is_some_and(|&o| scan_of(group, o).is_some());
    let scatters = group.outputs.first().is_some_and(|&o| scatter_of(group, o).is_some());
    if scans != matches!(schedule, Schedule::Scan { .. } | Schedule::ScanTasks { .. }) {
        return Err("running combinations have schedules of their own".into());
    }
    let sorts = group.outputs.first().and_then(|&o| sort_of(group, o));
    if sorts.is_some() != matches!(schedule, Schedule::Sort { .. } | Schedule::SortTasks { .. }) {
        return Err("sorts have schedules of their own".into());
    }
    let reduced =
        || rows.filter(|r| r.along).ok_or_else(|| "the kernel has no reductions over rows".to_owned());
    match schedule {
        Schedule::Pointwise { vector, threads, per_thread } => {
            if !power(*vector, 64) || threads % 32 != 0 || !(32..=1024).contains(threads) || *per_thread < 1 {
                return Err("vectors are powers of two, threads a multiple of 32 up to 1024".into());
            }
            if scatters && *vector != 1 {
                return Err("updates are written one by one".into());
            }
            for &o in &group.outputs {
                whole(group.nodes[o].shape.last().unwrap_or(&1.into()), *vector)?;
            }
        }
        Schedule::Rows { vector, threads, rows, looped, shared } => {
            let found = reduced()?;
            if !power(*vector, 64) || !power(*threads, 1024) || *threads < 32 || !(1..=32).contains(rows) {
                return Err("vectors and threads are powers of two, with 32 to 1024 threads".into());
            }
            if *rows > 1 && *threads != 32 {
                return Err("several rows a block need 32 threads a row".into());
            }
            if *shared && !(*looped && *rows == 1 && found.columns.as_const().is_some()) {
                return Err("a row in shared memory is looped over, has a block, and a static length".into());
            }
            if !looped && found.columns.as_const().is_none() {
                return Err("a row of unknown length cannot be kept in registers".into());
            }
            if domain::parts(&found.row_sizes).len() > 3 {
                return Err("the number of rows is not affine in three launch dimensions".into());
            }
            whole(found.column_sizes.last().unwrap_or(&1.into()), *vector)?;
        }
        Schedule::Tiles { tile, vector, read, threads } => {
            let found = crossing.ok_or("no operand crosses the order of the outputs")?;
            let [tile, vector, read, threads] = [*tile, *vector, *read, *threads];
            if ![tile, vector, read, threads].into_iter().all(|n| power(n, 1024)) || threads < 32 {
                return Err("tiles, vectors and threads are powers of two, with 32 to 1024 threads".into());
            }
            if tile > 128 || vector.max(read) > tile.min(64) || tile * tile / vector.max(read) < threads {
                return Err("a tile has at most 128 positions each way, and a vector for each thread".into());
            }
            whole(found.shape.last().unwrap_or(&1.into()), vector)?;
            whole(&found.shape[found.across], read)?;
            if !domain::is_affine(&tiles::blocks(found, tile)) {
                return Err("the number of tiles is not affine".into());
            }
        }
        Schedule::Columns { .. } | Schedule::LongRows { .. } => {
            let shape = split_of(schedule).expect("such a schedule");
            check_split(shape, group, rows, matches!(schedule, Schedule::LongRows { .. }))?;
        }
        Schedule::Scan { threads } => {
            if !power(*threads, 1024) || *threads < 32 {
                return Err("threads are a power of two from 32 to 1024".into());
            }
            let s = scan_of(group, group.outputs[0]).expect("asked before");
            if domain::parts(&scan::rows(group, &s)).len() > 3 {
                return Err("the number of rows is not affine in three launch dimensions".into());
            }
        }
        Schedule::ScanTasks { rows } | Schedule::SortTasks { rows } => {
            if *rows < 1 {
                return Err("tasks have at least one row".into());
            }
        }
        Schedule::Sort { threads, shared } => {
            if threads % 32 != 0 || !(32..=1024).contains(threads) {
                return Err("threads are a multiple of 32 up to 1024".into());
            }
            let s = sorts.expect("asked before");
            if *shared && group.nodes[s.source].shape[s.dim].as_const().is_none() {
                return Err("a row of unknown length has no place in shared memory".into());
            }
            if domain::parts(&sort::rows(group, &s)).len() > 3 {
                return Err("the number of rows is not affine in three launch dimensions".into());
            }
        }
        Schedule::TileTasks { vector, along, across } => {
            let found = crossing.ok_or("no operand crosses the order of the outputs")?;
            if !power(*vector, 64) || !(*vector..=128).contains(along) || !(1..=128).contains(across) {
                return Err(
                    "vectors are powers of two and fit into a tile, which has at most 128 positions each way"
                        .into(),
                );
            }
            let tasks: Expr = tiles::bands(found, *across).into_iter().product();
            if !domain::is_affine(&tasks) {
                return Err("the number of tasks is not affine".into());
            }
        }
        Schedule::Tasks { vector, task } => {
            if !power(*vector, 64) || *task < 1 {
                return Err("vectors are powers of two, tasks have at least one element".into());
            }
        }
        Schedule::RowTasks { vector, rows, unroll } => {
            reduced()?;
            if !power(*vector, 64) || *rows < 1 || !(1..=16).contains(unroll) {
                return Err("vectors are powers of two, tasks have at least one row".into());
            }
        }
    }
    Ok(())
}
