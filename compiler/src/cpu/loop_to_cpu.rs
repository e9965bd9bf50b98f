//! `loop-to-cpu`: a loop-level function becomes two `llvm.func`s: the body, and the entry with the kernel ABI.
//!
//! The entry takes `(buffers, symbols, begin, end)`, loads pointers and sizes and calls the body, whose pointer arguments do not
//! alias; kept apart so that LLVM knows it.

use crate::driver::pass::{Failure, Level, Pass, PassCx};
use crate::ir::{body, erase, name};
use crate::kernel::affine::emit_expr;
use crate::kernel::signature::{Signature, kernels, row_major, static_dims};
use crate::kernel::walk::{Memory, Target, Walk, bytes_of, pointer, storage};
use crate::kernel::{Builder, Val, kept};
use crate::kernel::{atomic, check};
use melior::Context;
use melior::ir::attribute::{ArrayAttribute, StringAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, Block, BlockLike, Module, Region, RegionLike, Type, Value, ValueLike};
use strata_dialects::affine::dims_attribute;
use strata_dialects::build::{definition, element_type};
use strata_runtime::plan::Check;
use strata_runtime::sym::Expr;

/// The pass.
pub static PASS: Pass = Pass {
    name: "loop-to-cpu",
    summary: "turn scheduled loop nests into functions over a range of tasks, on pointers",
    from: Level::Loop,
    to: Level::Llvm,
    exact: true,
    options: &[],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    for func in kernels(module, "cpu") {
        lower(cx.context, module, func)?;
        erase(func.to_raw());
        cx.count("kernels", 1);
    }
    Ok(())
}

/// The CPU's part of the walk.
struct Cpu<'c> {
    /// Allocations stand at the function's entry, before this place.
    entry: Builder<'c>,
    begin: Val<'c>,
    end: Val<'c>,
    /// Where the number of the first failed check goes, the smallest of them.
    status: Val<'c>,
    checks: Vec<Check>,
    tasks: usize,
    inside: bool,
}

fn lower<'c>(context: &'c Context, module: &Module<'c>, func: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let signature = Signature::read(func)?;
    let source = body(&func).expect("read before");
    let fail = |m: String| Failure::new(func.location(), format!("kernel {}: {m}", signature.name));
    if signature.grid.len() != 1 {
        return Err(fail(format!("loop.grid has {} entries", signature.grid.len()))
            .next("the tasks of a CPU kernel are numbered in one dimension"));
    }
    let outer = Builder::at_end(context, kept(module.body()), func.location());
    let inner_name = format!("{}.body", signature.name);
    let (ptr, i64) = (outer.ty("!llvm.ptr"), outer.ty("i64"));
    let mut types = vec![ptr; signature.buffers.len()];
    types.extend(vec![i64; signature.symbols.len() + 2]);
    types.push(ptr);
    let attributes: Vec<&str> = signature
        .buffers
        .iter()
        .map(|b| if b.out { "{llvm.noalias}" } else { "{llvm.noalias, llvm.readonly}" })
        .chain(std::iter::repeat_n("{}", signature.symbols.len() + 2))
        .chain(["{llvm.noalias}"])
        .collect();
    let b = function(
        &outer,
        &inner_name,
        &types,
        Some(&attributes),
        &[("linkage", "#llvm.linkage<internal>"), ("no_inline", "unit")],
    );
    let argument = |i: usize| -> Val<'c> { b.block.argument(i).expect("as many as types").into() };
    let index = Type::index(context);
    let cast = |i: usize| b.value("arith.index_cast", &[argument(i)], index, &[]);
    let first_symbol = signature.buffers.len();
    let after = first_symbol + signature.symbols.len();
    let (begin, end) = (cast(after), cast(after + 1));
    let entry = Builder::before(context, definition(begin).expect("an op"));
    let status = argument(after + 2);
    let cpu = Cpu { entry, begin, end, status, checks: vec![], tasks: 0, inside: false };
    let mut walk = Walk::new(context, b, 64, cpu);
    let mut symbols = Vec::new();
    for (k, &i) in signature.symbols.iter().enumerate() {
        let v = cast(first_symbol + k);
        symbols.push(v);
        walk.set(source.argument(i).expect("in range").into(), v);
    }
    for (k, buffer) in signature.buffers.iter().enumerate() {
        let strides = buffer.strides.iter().map(|e| emit_expr(&b, e, &symbols)).collect();
        let memory = Memory {
            base: argument(k),
            element: buffer.element,
            strides,
            thread: None,
            private: false,
            writable: buffer.out,
        };
        walk.place(source.argument(buffer.argument).expect("in range").into(), memory);
    }
    walk.block(source)?;
    if walk.target.tasks > 1 {
        return Err(fail(format!("{} foralls over tasks", walk.target.tasks)).next(
            "a CPU kernel is one forall with mapping #loop.task, or nothing where its results are empty",
        ));
    }
    entry_point(&outer, &signature, &inner_name, &walk.target.checks)
}

/// A builder at the end of the entry block of an `llvm.func` without results.
fn function<'c>(
    b: &Builder<'c>,
    name: &str,
    types: &[Type<'c>],
    argument_attributes: Option<&[&str]>,
    more: &[(&str, &str)],
) -> Builder<'c> {
    let region = Region::new();
    let arguments: Vec<_> = types.iter().map(|t| (*t, b.location)).collect();
    let block = kept(region.append_block(Block::new(&arguments)));
    let list: Vec<String> = types.iter().map(ToString::to_string).collect();
    let ty = b.ty(&format!("!llvm.func<void ({})>", list.join(", ")));
    let mut attributes: Vec<(&str, Attribute<'c>)> = vec![
        ("sym_name", StringAttribute::new(b.context, name).into()),
        ("function_type", TypeAttribute::new(ty).into()),
    ];
    attributes.extend(more.iter().map(|(k, v)| (*k, b.attr(v))));
    if let Some(texts) = argument_attributes {
        let list: Vec<_> = texts.iter().map(|t| b.attr(t)).collect();
        attributes.push(("arg_attrs", ArrayAttribute::new(b.context, &list).into()));
    }
    b.op("llvm.func", &[], &[], &attributes, vec![region]);
    Builder::at_end(b.context, block, b.location)
}

/// `(buffers: ptr, symbols: ptr, begin: i64, end: i64, status: ptr)`: loads what the body takes and calls it.
fn entry_point<'c>(
    outer: &Builder<'c>,
    signature: &Signature<'c>,
    inner: &str,
    checks: &[Check],
) -> Result<(), Failure> {
    let (ptr, i64) = (outer.ty("!llvm.ptr"), outer.ty("i64"));
    let b = function(outer, &signature.name, &[ptr, ptr, i64, i64, ptr], None, &[]);
    let argument = |i: usize| -> Val<'c> { b.block.argument(i).expect("one of five").into() };
    let table = |base: Val<'c>, element: Type<'c>, i: usize| {
        let memory =
            Memory { base, element, strides: Vec::new(), thread: None, private: false, writable: false };
        let at = pointer(&b, &memory, b.index(i as i64), 64);
        b.value("llvm.load", &[at], element, &[("alignment", b.i64_attr(8))])
    };
    let mut operands: Vec<_> = (0..signature.buffers.len()).map(|i| table(argument(0), ptr, i)).collect();
    operands.extend((0..signature.symbols.len()).map(|i| table(argument(1), i64, i)));
    operands.extend([argument(2), argument(3), argument(4)]);
    b.op(
        "llvm.call",
        &operands,
        &[],
        &[
            ("callee", b.attr(&format!("@\"{inner}\""))),
            ("op_bundle_sizes", b.attr("array<i32>")),
            ("operandSegmentSizes", b.attr(&format!("array<i32: {}, 0>", operands.len()))),
        ],
        vec![],
    );
    b.op("llvm.return", &[], &[], &[], vec![]);
    let grid = dims_attribute(b.context, &signature.grid).ok_or_else(|| {
        Failure::new(b.location, format!("kernel {}: the grid is not affine", signature.name))
    })?;
    // SAFETY: the function just made owns the block.
    let func = unsafe { mlir_sys::mlirBlockGetParentOperation(b.block.to_raw()) };
    crate::kernel::walk::set_attribute(func, "loop.grid", grid);
    if !checks.is_empty() {
        crate::kernel::walk::set_attribute(func, check::CHECKS, check::to_attribute(&b, checks));
    }
    Ok(())
}

impl<'c> Target<'c> for Cpu<'c> {
    fn lower(walk: &mut Walk<'c, Self>, op: OperationRef<'c, 'c>) -> Result<bool, Failure> {
        match name(&op) {
            "scf.forall" => tasks(walk, op)?,
            "scf.forall.in_parallel" => {}
            "memref.alloca" => alloca(walk, op)?,
            "loop.check_index" => check_index(walk, op)?,
            "func.return" => {
                walk.b.op("llvm.return", &[], &[], &[], vec![]);
            }
            "loop.arrive" => {
                return Err(Failure::new(op.location(), "loop.arrive in a CPU kernel")
                    .next("tasks do not wait for each other: reduce within a task"));
            }
            "loop.all_reduce" => {
                return Err(Failure::new(op.location(), "loop.all_reduce in a CPU kernel")
                    .next("combine values in the loop of the task; it has no threads"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The forall over tasks: a loop from `begin` to `end`.
fn tasks<'c>(walk: &mut Walk<'c, Cpu<'c>>, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let mapping = op.attribute("mapping").map(|m| m.to_string()).unwrap_or_default();
    if mapping != "[#loop.task]" || walk.target.inside || op.result_count() != 0 {
        return Err(Failure::new(op.location(), format!("a forall with mapping {mapping} in a CPU kernel"))
            .next("the outermost forall has mapping [#loop.task]; what is inside it are scf.for loops"));
    }
    let source = body(&op).expect("a forall has a body");
    let outside = walk.b;
    let index = Type::index(walk.context);
    let region = Region::new();
    let block = kept(region.append_block(Block::new(&[(index, op.location())])));
    let one = outside.index(1);
    outside.op("scf.for", &[walk.target.begin, walk.target.end, one], &[], &[], vec![region]);
    let iv = block.argument(0).expect("just made").into();
    walk.set(source.argument(0).expect("an induction variable").into(), iv);
    walk.b = Builder::at_end(walk.context, block, op.location());
    walk.target.tasks += 1;
    walk.target.inside = true;
    walk.block(source)?;
    walk.target.inside = false;
    walk.b.op("scf.yield", &[], &[], &[], vec![]);
    walk.b = outside;
    Ok(())
}

/// A check: where it fails, its number goes to the status if that is larger, and the index becomes 0.
fn check_index<'c>(walk: &mut Walk<'c, Cpu<'c>>, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let (b, operands) = (walk.b, walk.operands(op));
    let checked = check::compare(&b, op, operands[0], operands[1])?;
    let text = check::text(op);
    let number = walk.target.checks.iter().position(|c| *c == text).unwrap_or_else(|| {
        walk.target.checks.push(text);
        walk.target.checks.len() - 1
    });
    check::when(&b, checked.any, |b| {
        let number = b.int(number as i64, b.ty("i64"));
        atomic::unsigned_minimum(b, walk.target.status, number);
    });
    let safe = b.select(checked.outside, b.int(0, checked.index.r#type()), checked.index);
    walk.set(op.result(0).expect("one result").into(), check::narrow(&b, safe, operands[0]));
    Ok(())
}

fn alloca<'c>(walk: &mut Walk<'c, Cpu<'c>>, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let memref: Value = op.result(0).expect("one result").into();
    let ty = memref.r#type();
    let dims: Vec<Expr> = static_dims(ty).ok_or_else(|| {
        Failure::new(op.location(), format!("an array of dynamic size: {ty}"))
            .next("arrays of a kernel have static sizes")
    })?;
    let element = element_type(ty);
    let count = dims.iter().map(|d| d.as_const().expect("static")).product::<i64>().max(1);
    if count * bytes_of(element) > 1 << 20 {
        return Err(Failure::new(op.location(), format!("an array of more than 1 MiB on the stack: {ty}"))
            .next("make the tile of this schedule smaller"));
    }
    let entry = walk.target.entry.at(op.location());
    let array = entry.ty(&format!("!llvm.array<{count} x {}>", storage(&entry, element)));
    let one = entry.int(1, entry.ty("i32"));
    let attributes = [("elem_type", TypeAttribute::new(array).into()), ("alignment", entry.i64_attr(64))];
    let base = entry.value("llvm.alloca", &[one], entry.ty("!llvm.ptr"), &attributes);
    let strides = row_major(&dims).iter().map(|e| entry.index(e.as_const().expect("static"))).collect();
    walk.place(memref, Memory { base, element, strides, thread: None, private: false, writable: true });
    Ok(())
}
