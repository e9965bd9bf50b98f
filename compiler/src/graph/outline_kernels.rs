//! `outline-kernels`: turns each group of ops into a kernel function and a call of it. Groups that compute the same thing share
//! a function.

use crate::driver::pass::{Failure, Level, Pass, PassCx};
use crate::graph::fuse::GROUP;
use crate::graph::symbols::{self, FunctionSymbol};
use crate::graph::{ENTRY, KERNEL, entry, users};
use crate::ir;
use melior::ir::attribute::{IntegerAttribute, StringAttribute, TypeAttribute};
use melior::ir::operation::{
    OperationBuilder, OperationLike, OperationMutLike, OperationRef, OperationRefMut,
};
use melior::ir::r#type::FunctionType;
use melior::ir::{
    Attribute, Block, BlockLike, BlockRef, Identifier, Location, Module, Region, RegionLike, Type, TypeLike,
    Value, ValueLike,
};
use std::collections::BTreeMap;
use strata_dialects::{Attr, Builder, OpView, TensorType};
use strata_runtime::sym::{Expr, SymbolId};

/// The pass.
pub static PASS: Pass = Pass {
    name: "outline-kernels",
    summary: "move each group of ops into a kernel function and call it",
    from: Level::Graph,
    to: Level::Graph,
    exact: true,
    options: &[],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    let Some(function) = entry(module) else { return Ok(()) };
    let Some(body) = ir::body(&function) else { return Ok(()) };
    let caller = symbols::read(&function).map_err(|m| Failure::new(function.location(), m))?;
    sort_by_groups(body)?;
    let mut groups: BTreeMap<i64, Vec<OperationRef<'c, '_>>> = BTreeMap::new();
    for op in ir::ops(body) {
        if let Some(g) = group_of(&op) {
            groups.entry(g).or_default().push(op);
        }
    }
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for ops in groups.into_values() {
        outline(cx, module, &caller, &ops, &mut known)?;
    }
    // SAFETY: no other handle changes the function meanwhile.
    let mut function = unsafe { OperationRefMut::from_raw(function.to_raw()) };
    function.set_attribute(ENTRY, Attribute::unit(cx.context));
    cx.count("kernels", known.len() as u64);
    Ok(())
}

fn group_of<'c: 'a, 'a>(op: &impl OperationLike<'c, 'a>) -> Option<i64> {
    op.attribute(GROUP).ok().and_then(|a| IntegerAttribute::try_from(a).ok()).map(|a| a.value())
}

/// Reorders a block so that the ops of a group stand together, after all they need and before all that need them.
fn sort_by_groups(body: BlockRef<'_, '_>) -> Result<(), Failure> {
    let ops = ir::ops(body);
    let place: BTreeMap<usize, usize> =
        ops.iter().enumerate().map(|(i, op)| (op.to_raw().ptr as usize, i)).collect();
    let unit: Vec<Result<i64, usize>> = ops.iter().enumerate().map(|(i, op)| group_of(op).ok_or(i)).collect();
    if unit.iter().all(Result::is_err) {
        return Ok(());
    }
    let mut members: BTreeMap<Result<i64, usize>, Vec<usize>> = BTreeMap::new();
    unit.iter().enumerate().for_each(|(i, u)| members.entry(*u).or_default().push(i));
    let mut waiting: BTreeMap<Result<i64, usize>, usize> = members.keys().map(|u| (*u, 0)).collect();
    let mut after: BTreeMap<Result<i64, usize>, std::collections::BTreeSet<Result<i64, usize>>> =
        BTreeMap::new();
    for (i, op) in ops.iter().enumerate() {
        for user in op.results().flat_map(|r| users(r.into())) {
            let Some(to) = crate::graph::place_of(&place, user).map(|k| unit[k]) else { continue };
            if to != unit[i] && after.entry(unit[i]).or_default().insert(to) {
                *waiting.get_mut(&to).expect("every unit waits") += 1;
            }
        }
    }
    // Earliest first op first: the order stays close to the program's. The terminator uses or follows everything.
    let last = ops.len() - 1;
    let first = |u: &Result<i64, usize>| members[u][0];
    let mut ready: std::collections::BTreeSet<(usize, Result<i64, usize>)> =
        waiting.iter().filter(|(u, n)| **n == 0 && **u != Err(last)).map(|(u, _)| (first(u), *u)).collect();
    let mut order = Vec::new();
    while let Some((_, u)) = ready.pop_first() {
        order.extend(members[&u].iter().copied());
        for v in after.get(&u).into_iter().flatten() {
            let n = waiting.get_mut(v).expect("every unit waits");
            *n -= 1;
            if *n == 0 && *v != Err(last) {
                ready.insert((first(v), *v));
            }
        }
    }
    if order.len() != last {
        return Err(Failure::new(ops[last].location(), "the groups of ops depend on each other in a cycle")
            .next("this is a bug of pass fuse; report it with the module"));
    }
    for i in order {
        // SAFETY: live ops of one block.
        unsafe { mlir_sys::mlirOperationMoveBefore(ops[i].to_raw(), ops[last].to_raw()) };
    }
    Ok(())
}

/// Symbols that occur in the types and expressions of a group, in ascending order.
fn symbols_in(views: &[OpView]) -> Vec<SymbolId> {
    let mut list: Vec<SymbolId> = Vec::new();
    for v in views {
        let types = v.operands.iter().chain(&v.results).flat_map(|t| &t.shape);
        let attrs = v.attrs.iter().flat_map(|(_, a)| if let Attr::Dims(d) = a { d.as_slice() } else { &[] });
        list.extend(types.chain(attrs).flat_map(Expr::symbols));
    }
    list.sort_unstable();
    list.dedup();
    list
}

fn outline<'c>(
    cx: &PassCx<'c>,
    module: &Module<'c>,
    caller: &[FunctionSymbol],
    ops: &[OperationRef<'c, '_>],
    known: &mut BTreeMap<String, String>,
) -> Result<(), Failure> {
    let bad = |m: String| Failure::new(ops[0].location(), m);
    let views: Vec<OpView> = ops.iter().map(OpView::new).collect::<Result<_, _>>().map_err(bad)?;
    let used = symbols_in(&views);
    let rename = |s: SymbolId| Expr::sym(used.iter().position(|u| *u == s).expect("collected") as u32);
    let renamed = |t: &TensorType| {
        let shape: Vec<Expr> = t.shape.iter().map(|e| e.substitute(&rename)).collect();
        TensorType { dtype: t.dtype, shape }.to_mlir(cx.context).map_err(bad)
    };

    let inside = |raw: mlir_sys::MlirOperation| ops.iter().any(|o| o.to_raw().ptr == raw.ptr);
    let mut inputs: Vec<Value> = Vec::new();
    for operand in ops.iter().flat_map(|op| op.operands()) {
        let own = strata_dialects::build::definition(operand).is_some_and(|d| inside(d.to_raw()));
        if !own && !inputs.iter().any(|v| same(*v, operand)) {
            inputs.push(operand);
        }
    }
    let mut outputs: Vec<Value> = Vec::new();
    for op in ops {
        let used = |r: Value| users(r).into_iter().any(|u| !inside(u));
        // A sort moves elements and positions together, within the buffers of both.
        let whole = ir::name(op) == "graph.sort" && op.results().any(|r| used(r.into()));
        outputs.extend(op.results().map(Value::from).filter(|r| whole || used(*r)));
    }
    if outputs.is_empty() {
        for op in ops.iter().rev() {
            ir::erase(op.to_raw());
        }
        return Ok(());
    }

    // The body: copies of the ops over renumbered symbols.
    let block = Block::new(&[]);
    let mut map: Vec<(Value, Value)> = Vec::new();
    for v in &inputs {
        let ty = TensorType::from_mlir(v.r#type()).map_err(bad)?;
        map.push((*v, block.add_argument(renamed(&ty)?, v.location())));
    }
    for (op, view) in ops.iter().zip(&views) {
        // SAFETY: the copy is owned and goes into the new block; its operands are replaced by values of that block.
        let copy = unsafe {
            let copy = mlir_sys::mlirOperationClone(op.to_raw());
            mlir_sys::mlirBlockAppendOwnedOperation(melior::ir::BlockLike::to_raw(&block), copy);
            OperationRefMut::from_raw(copy)
        };
        set_operands_and_types(cx, op, view, copy, &mut map, &renamed, &rename)?;
    }
    let results: Vec<Value> = outputs.iter().map(|v| lookup(&map, *v)).collect();
    let kernel_symbols: Vec<FunctionSymbol> = used
        .iter()
        .map(|s| FunctionSymbol {
            info: caller
                .get(s.0 as usize)
                .map_or_else(|| strata_runtime::sym::Symbol::named(format!("s{}", s.0)), |f| f.info.clone()),
            definition: None,
        })
        .collect();
    let location = fused_location(cx, ops);
    // SAFETY: the block outlives the builder.
    let block_ref = unsafe { BlockRef::from_raw(melior::ir::BlockLike::to_raw(&block)) };
    Builder::at_end(cx.context, block_ref, location).op("func.return", &results, &[], &[], vec![]);
    let arguments: Vec<Type> =
        (0..inputs.len()).map(|i| block.argument(i).expect("added above").r#type()).collect();
    let result_types: Vec<Type> = results.iter().map(|v| v.r#type()).collect();

    // One function for all groups of the same text.
    let region = Region::new();
    region.append_block(block);
    let name = format!("k{}", known.len());
    let function = build_function(cx, &name, &arguments, &result_types, &kernel_symbols, region, location)?;
    let key = function.to_string().replacen(&format!("@{name}"), "@", 1);
    let name = match known.get(&key) {
        Some(name) => name.clone(),
        None => {
            module.body().append_operation(function);
            known.insert(key, name.clone());
            name
        }
    };

    let last = *ops.last().expect("groups are not empty");
    // Insert after the last op of the group: before whatever follows it.
    let next = last.next_in_block().expect("a terminator follows");
    let builder = Builder::before(cx.context, next).at(location);
    let exprs: Vec<Expr> = used.iter().map(|s| Expr::from(*s)).collect();
    let types: Vec<TensorType> =
        outputs.iter().map(|v| TensorType::from_mlir(v.r#type())).collect::<Result<_, _>>().map_err(bad)?;
    let called = builder
        .graph_as("call", &inputs, &[("callee", Attr::Symbol(name)), ("symbols", Attr::Dims(exprs))], &types)
        .map_err(|v| bad(v.to_string()))?;
    for (old, new) in outputs.iter().zip(called) {
        // SAFETY: live values; uses inside the group vanish with the group.
        unsafe { mlir_sys::mlirValueReplaceAllUsesOfWith(old.to_raw(), new.to_raw()) };
    }
    for op in ops.iter().rev() {
        ir::erase(op.to_raw());
    }
    Ok(())
}

fn same(a: Value<'_, '_>, b: Value<'_, '_>) -> bool {
    // SAFETY: comparison of live values.
    unsafe { mlir_sys::mlirValueEqual(a.to_raw(), b.to_raw()) }
}

fn lookup<'c, 'a>(map: &[(Value<'c, 'a>, Value<'c, 'a>)], v: Value<'c, 'a>) -> Value<'c, 'a> {
    map.iter()
        .find(|(from, _)| same(*from, v))
        .map(|(_, to)| *to)
        .expect("operands are mapped before they are used")
}

#[allow(clippy::too_many_arguments)]
fn set_operands_and_types<'c, 'a>(
    cx: &PassCx<'c>,
    op: &OperationRef<'c, 'a>,
    view: &OpView,
    mut copy: OperationRefMut<'c, 'a>,
    map: &mut Vec<(Value<'c, 'a>, Value<'c, 'a>)>,
    renamed: &impl Fn(&TensorType) -> Result<Type<'c>, Failure>,
    rename: &impl Fn(SymbolId) -> Expr,
) -> Result<(), Failure> {
    let _ = copy.remove_attribute(GROUP);
    for (i, v) in op.operands().enumerate() {
        copy.set_operand(i, lookup(map, v));
    }
    for (name, attr) in &view.attrs {
        if let Attr::Dims(d) = attr {
            let d: Vec<Expr> = d.iter().map(|e| e.substitute(rename)).collect();
            let a = Attr::Dims(d)
                .to_mlir(cx.context)
                .ok_or_else(|| Failure::new(op.location(), "a size is not affine"))?;
            copy.set_attribute(name, a);
        }
    }
    for (i, ty) in view.results.iter().enumerate() {
        let from: Value = op.result(i).expect("as viewed").into();
        // SAFETY: the copy has as many results as the op; only the encoding of the type changes.
        let to: Value = unsafe {
            let raw = mlir_sys::mlirOperationGetResult(copy.to_raw(), i as isize);
            mlir_sys::mlirValueSetType(raw, renamed(ty)?.to_raw());
            Value::from_raw(raw)
        };
        map.push((from, to));
    }
    Ok(())
}

/// The locations of the ops, fused: reports find the user's lines through it.
fn fused_location<'c>(cx: &PassCx<'c>, ops: &[OperationRef<'c, '_>]) -> Location<'c> {
    let mut list: Vec<Location> = Vec::new();
    for op in ops {
        if !list.contains(&op.location()) {
            list.push(op.location());
        }
    }
    if list.len() == 1 { list[0] } else { Location::fused(cx.context, &list, Attribute::unit(cx.context)) }
}

fn build_function<'c>(
    cx: &PassCx<'c>,
    name: &str,
    arguments: &[Type<'c>],
    results: &[Type<'c>],
    kernel_symbols: &[FunctionSymbol],
    region: Region<'c>,
    location: Location<'c>,
) -> Result<melior::ir::Operation<'c>, Failure> {
    let id = |n: &str| Identifier::new(cx.context, n);
    let ty = FunctionType::new(cx.context, arguments, results);
    let mut attributes = vec![
        (id("function_type"), TypeAttribute::new(ty.into()).into()),
        (id(KERNEL), Attribute::unit(cx.context)),
        (id("sym_name"), StringAttribute::new(cx.context, name).into()),
        (id("sym_visibility"), StringAttribute::new(cx.context, "private").into()),
    ];
    if !kernel_symbols.is_empty() {
        attributes.push((id(symbols::ATTRIBUTE), symbols::attribute(cx.context, kernel_symbols)));
    }
    OperationBuilder::new("func.func", location)
        .add_attributes(&attributes)
        .add_regions_vec(vec![region])
        .build()
        .map_err(|e| Failure::new(location, format!("cannot build the kernel function: {e}")))
}
