//! `loop-to-gpu`: a loop-level function becomes a `gpu.module` with one kernel.
//!
//! The foralls over blocks, warps, threads and lanes become ids, private arrays become allocas that end in registers, shared arrays
//! one region of shared memory, and the implied waits barriers.

use super::arrive;
use super::assertions::{self, Assertions};
use super::barriers::Barriers;
use super::grid::{grid, trip_counts};
use super::reduce::{self, Slots};
use super::shared::shared_global;
use crate::driver::pass::{Failure, Level, Pass, PassCx};
use crate::ir::{body, erase, name};
use crate::kernel::affine::emit_expr;
use crate::kernel::signature::{BufferArg, Signature, kernels, row_major, static_dims};
use crate::kernel::walk::{Memory, Target, Walk, bytes_of, storage};
use crate::kernel::{Builder, Val, kept};
use melior::Context;
use melior::ir::attribute::{ArrayAttribute, StringAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::FunctionType;
use melior::ir::{Attribute, Block, BlockLike, Module, Region, RegionLike, Type, TypeLike, Value, ValueLike};
use strata_dialects::affine::dims_attribute;
use strata_dialects::build::{element_type, result_of};
use strata_runtime::sym::Expr;

/// The pass.
pub static PASS: Pass = Pass {
    name: "loop-to-gpu",
    summary: "turn scheduled loop nests into GPU kernels: ids, registers, shared memory, barriers, shuffles",
    from: Level::Loop,
    to: Level::Llvm,
    exact: true,
    options: &[],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    for func in kernels(module, "gpu") {
        lower(cx.context, module, func)?;
        erase(func.to_raw());
        cx.count("kernels", 1);
    }
    Ok(())
}

/// Where the walk stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Grid,
    Block,
    Warp,
    Thread,
}

/// The GPU's part of the walk.
pub struct Gpu<'c> {
    scope: Scope,
    /// Ops that stand at the kernel's entry go before this one.
    entry: Builder<'c>,
    block: i64,
    pub(super) thread: Val<'c>,
    pub(super) warp: Val<'c>,
    pub(super) lane: Val<'c>,
    pub(super) barriers: Barriers,
    pub(super) slots: Slots<'c>,
    pub(super) shared_base: Val<'c>,
    pub(super) shared_bytes: i64,
    pub(super) assertions: Assertions<'c>,
    /// Launch dimension (0 x, 1 y, 2 z) of each dimension of the grid forall.
    grid_order: Vec<usize>,
}

/// Static shared memory ends here; more must be asked for at the launch.
const STATIC_SHARED: i64 = 48 * 1024;

fn lower<'c>(context: &'c Context, module: &Module<'c>, func: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let signature = Signature::read(func)?;
    if signature.block % 32 != 0 {
        return Err(Failure::new(func.location(), format!("loop.block is {}", signature.block))
            .next("a block is whole warps: a multiple of 32"));
    }
    let source = body(&func).expect("read before");
    let index_bits = if signature.fits_32_bits() { 32 } else { 64 };

    let outer = Builder::at_end(context, kept(module.body()), func.location());
    let gpu_region = Region::new();
    let gpu_block = kept(gpu_region.append_block(Block::new(&[])));
    let name_attr: Attribute = StringAttribute::new(context, &signature.name).into();
    let gpu_module = outer.op("gpu.module", &[], &[], &[("sym_name", name_attr)], vec![gpu_region]);
    let in_module = Builder::at_end(context, gpu_block, func.location());

    let b = kernel(&in_module, &signature);
    let argument =
        |i: usize| -> Val<'c> { b.block.argument(i).expect("one for each of the function's").into() };
    let index = Type::index(context);
    let id = b.op(
        "gpu.thread_id",
        &[],
        &[index],
        &[
            ("dimension", b.attr("#gpu<dim x>")),
            ("upper_bound", b.attr(&format!("{} : index", signature.block))),
        ],
        vec![],
    );
    let entry = Builder::before(context, id);
    let thread = result_of(id, 0);
    let warp = b.value("arith.divui", &[thread, b.index(32)], index, &[]);
    let lane = b.value("arith.remui", &[thread, b.index(32)], index, &[]);
    let shared_name = format!("{}_shared", signature.name);
    let shared_symbol = b.attr(&format!("@\"{shared_name}\""));
    let shared_op = entry.op(
        "llvm.mlir.addressof",
        &[],
        &[b.ty("!llvm.ptr<3>")],
        &[("global_name", shared_symbol)],
        vec![],
    );
    let shared_base = result_of(shared_op, 0);

    let mut barriers = Barriers::default();
    let slots = Slots::plan(source, i64::from(signature.block), shared_base);
    analyse(source, &mut barriers);
    let gpu = Gpu {
        scope: Scope::Grid,
        entry,
        block: i64::from(signature.block),
        thread,
        warp,
        lane,
        barriers,
        shared_bytes: slots.bytes(),
        slots,
        shared_base,
        assertions: Assertions::new(in_module, &signature.name),
        grid_order: Vec::new(),
    };
    let mut walk = Walk::new(context, b, index_bits, gpu);
    let mut symbols = Vec::new();
    for &i in &signature.symbols {
        let v = b.value("arith.index_cast", &[argument(i)], index, &[]);
        symbols.push(v);
        walk.set(source.argument(i).expect("in range").into(), v);
    }
    for buffer in &signature.buffers {
        let strides = buffer.strides.iter().map(|e| emit_expr(&b, e, &symbols)).collect();
        walk.place(
            source.argument(buffer.argument).expect("in range").into(),
            Memory {
                base: argument(buffer.argument),
                element: buffer.element,
                strides,
                thread: None,
                private: false,
                writable: buffer.out,
            },
        );
    }
    walk.block(source)?;
    let Gpu { shared_bytes, grid_order, .. } = walk.target;
    let dynamic = if shared_bytes > STATIC_SHARED { shared_bytes } else { 0 };
    if shared_bytes == 0 {
        erase(shared_op.to_raw());
    } else {
        shared_global(context, gpu_block, func, &shared_name, if dynamic > 0 { 0 } else { shared_bytes });
    }
    let grid = grid(&signature, &grid_order, func)?;
    let dims = dims_attribute(context, &grid)
        .ok_or_else(|| Failure::new(func.location(), "the grid is not affine"))?;
    for (key, value) in [
        ("loop.grid", dims),
        ("loop.block", b.i64_attr(i64::from(signature.block))),
        ("loop.shared_bytes", b.i64_attr(dynamic)),
        ("loop.index_bits", b.i64_attr(i64::from(index_bits))),
    ] {
        crate::kernel::walk::set_attribute(gpu_module.to_raw(), key, value);
    }
    Ok(())
}

/// Notes barriers for each block body and each warp body.
fn analyse(source: melior::ir::BlockRef<'_, '_>, barriers: &mut Barriers) {
    for op in crate::ir::ops(source) {
        if name(&op) == "scf.forall" {
            let mapping = mapping(op);
            let inner = body(&op).expect("a forall has a body");
            match mapping.first().map(String::as_str) {
                Some(m) if m.starts_with("#gpu.block") || m.starts_with("#gpu.warp") => {
                    barriers.analyse(inner, &is_private)
                }
                _ => continue,
            }
            analyse(inner, barriers);
        } else {
            for r in 0..op.region_count() {
                if let Some(b) = op.region(r).expect("in range").first_block() {
                    analyse(b, barriers);
                }
            }
        }
    }
}

fn space(ty: Type<'_>) -> String {
    // SAFETY: the caller's type is a memref; null stands for no space.
    unsafe {
        let raw = mlir_sys::mlirMemRefTypeGetMemorySpace(ty.to_raw());
        if raw.ptr.is_null() { String::new() } else { Attribute::from_raw(raw).to_string() }
    }
}

const PRIVATE: &str = "#gpu.address_space<private>";
const WORKGROUP: &str = "#gpu.address_space<workgroup>";

/// Whether threads do not share a memref: private arrays, and arrays without a memory space that are no arguments.
fn is_private(memref: Value<'_, '_>) -> bool {
    space(memref.r#type()) == PRIVATE || (memref.is_operation_result() && space(memref.r#type()).is_empty())
}

fn mapping(op: OperationRef<'_, '_>) -> Vec<String> {
    let Some(list) = op.attribute("mapping").ok().and_then(|a| ArrayAttribute::try_from(a).ok()) else {
        return Vec::new();
    };
    (0..list.len()).map(|i| list.element(i).expect("in range").to_string()).collect()
}

/// A builder at the end of the entry block of a new `gpu.func`.
fn kernel<'c>(b: &Builder<'c>, signature: &Signature<'c>) -> Builder<'c> {
    let (pointer, i64) = (b.ty("!llvm.ptr<1>"), b.ty("i64"));
    let mut types = vec![pointer; signature.buffers.len()];
    types.extend(vec![i64; signature.symbols.len()]);
    let attributes: Vec<_> = signature
        .buffers
        .iter()
        .map(|buffer| match buffer {
            // Other blocks write there, too.
            BufferArg { scratch: true, .. } => "{}",
            BufferArg { out: true, .. } => "{llvm.noalias}",
            _ => "{llvm.noalias, llvm.readonly}",
        })
        .chain(signature.symbols.iter().map(|_| "{}"))
        .map(|text| b.attr(text))
        .collect();
    let region = Region::new();
    let arguments: Vec<_> = types.iter().map(|t| (*t, b.location)).collect();
    let block = kept(region.append_block(Block::new(&arguments)));
    let ty: Type = FunctionType::new(b.context, &types, &[]).into();
    b.op(
        "gpu.func",
        &[],
        &[],
        &[
            ("sym_name", StringAttribute::new(b.context, &signature.name).into()),
            ("function_type", TypeAttribute::new(ty).into()),
            ("arg_attrs", ArrayAttribute::new(b.context, &attributes).into()),
            ("known_block_size", b.attr(&format!("array<i32: {}, 1, 1>", signature.block))),
            ("gpu.kernel", b.unit()),
            ("workgroup_attributions", b.i64_attr(0)),
        ],
        vec![region],
    );
    Builder::at_end(b.context, block, b.location)
}

impl<'c> Target<'c> for Gpu<'c> {
    fn lower(walk: &mut Walk<'c, Self>, op: OperationRef<'c, 'c>) -> Result<bool, Failure> {
        if walk.target.barriers.needed_before(&op) {
            match walk.target.scope {
                Scope::Warp => {
                    let mask = walk.b.int(-1, walk.b.ty("i32"));
                    walk.b.op("nvvm.bar.warp.sync", &[mask], &[], &[], vec![]);
                }
                _ => {
                    walk.b.op("gpu.barrier", &[], &[], &[], vec![]);
                }
            }
        }
        match name(&op) {
            "scf.forall" => forall(walk, op)?,
            "scf.forall.in_parallel" => {}
            "memref.alloca" => alloca(walk, op)?,
            "loop.check_index" => assertions::check_index(walk, op)?,
            "loop.arrive" => {
                if walk.target.scope != Scope::Block {
                    return Err(Failure::new(
                        op.location(),
                        "loop.arrive outside of a block, or inside of a warp or thread",
                    )
                    .next("put it between thread foralls"));
                }
                let slot = walk.target.shared(4);
                arrive::lower(walk, op, slot)?;
            }
            "loop.all_reduce" => {
                let block_scope = walk.target.scope == Scope::Block;
                if walk.target.scope != Scope::Warp && !block_scope {
                    return Err(Failure::new(
                        op.location(),
                        "loop.all_reduce inside a thread or outside the blocks",
                    )
                    .next("put it between thread foralls"));
                }
                let expected = if block_scope { walk.target.block } else { 32 };
                if super::barriers::threads(op) != expected {
                    return Err(Failure::new(
                        op.location(),
                        format!("loop.all_reduce over other than all {expected} threads of its scope"),
                    ));
                }
                reduce::lower(walk, op)?;
            }
            "func.return" => {
                walk.b.op("gpu.return", &[], &[], &[], vec![]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The upper bounds of a forall: a number, or a value.
fn forall<'c>(walk: &mut Walk<'c, Gpu<'c>>, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let fail = |m: String| Failure::new(op.location(), m);
    let bounds = trip_counts(op).map_err(fail)?;
    let mapping = mapping(op);
    let kind = mapping.first().map_or("", |m| m.split('<').next().unwrap_or(""));
    let inner = body(&op).expect("a forall has a body");
    let outer = walk.target.scope;
    let index = Type::index(walk.context);
    let wrong =
        |what: &str| Failure::new(op.location(), format!("a forall over {what} does not belong there"));
    let expect = |what: &str, want: i64| match bounds[..] {
        [Some(n)] if n == want => Ok(()),
        _ => Err(Failure::new(
            op.location(),
            format!("the forall over {what} has {bounds:?} iterations, {want} are launched"),
        )
        .next("loop.block, the arrays and the foralls of a kernel have to agree")),
    };
    let scope = match kind {
        "#gpu.block" => {
            if outer != Scope::Grid || !walk.target.grid_order.is_empty() {
                return Err(wrong("blocks"));
            }
            for (d, m) in mapping.iter().enumerate() {
                let (dim, n) = match m.as_str() {
                    "#gpu.block<x>" | "#gpu.block<linear_dim_0>" => ("x", 0),
                    "#gpu.block<y>" => ("y", 1),
                    "#gpu.block<z>" => ("z", 2),
                    other => return Err(Failure::new(op.location(), format!("unknown mapping {other}"))),
                };
                let mut attributes = vec![("dimension", walk.b.attr(&format!("#gpu<dim {dim}>")))];
                if let Some(trips) = bounds[d].filter(|n| (1..=i64::from(i32::MAX)).contains(n)) {
                    attributes.push(("upper_bound", walk.b.attr(&format!("{trips} : index"))));
                }
                let id = walk.b.value("gpu.block_id", &[], index, &attributes);
                walk.set(inner.argument(d).expect("an induction variable").into(), id);
                walk.target.grid_order.push(n);
            }
            Scope::Block
        }
        "#gpu.warp" => {
            if outer != Scope::Block {
                return Err(wrong("warps"));
            }
            expect("warps", walk.target.block / 32)?;
            walk.set(inner.argument(0).expect("an induction variable").into(), walk.target.warp);
            Scope::Warp
        }
        "#gpu.thread" => {
            if outer != Scope::Block {
                return Err(wrong("threads"));
            }
            expect("threads", walk.target.block)?;
            walk.set(inner.argument(0).expect("an induction variable").into(), walk.target.thread);
            Scope::Thread
        }
        "#gpu.lane" => {
            if outer != Scope::Warp {
                return Err(wrong("lanes"));
            }
            expect("lanes", 32)?;
            walk.set(inner.argument(0).expect("an induction variable").into(), walk.target.lane);
            Scope::Thread
        }
        _ => {
            return Err(Failure::new(
                op.location(),
                format!("a forall with mapping {mapping:?} in a GPU kernel"),
            ));
        }
    };
    walk.target.scope = scope;
    walk.block(inner)?;
    walk.target.scope = outer;
    Ok(())
}

fn alloca<'c>(walk: &mut Walk<'c, Gpu<'c>>, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
    let memref: Value = op.result(0).expect("one result").into();
    let ty = memref.r#type();
    let fail = |m: &str, next: &str| Failure::new(op.location(), format!("{m}: {ty}")).next(next);
    let dims: Vec<i64> =
        static_dims(ty)
            .map(|d| d.iter().map(|e| e.as_const().expect("static")).collect())
            .ok_or_else(|| fail("an array of dynamic size", "arrays of a kernel have static sizes"))?;
    let element = element_type(ty);
    let space = space(ty);
    let scope = walk.target.scope;
    let entry = walk.target.entry.at(op.location());
    let (thread, dims) = match (space.as_str(), scope) {
        (PRIVATE, Scope::Block | Scope::Warp) => {
            let (thread, count) = if scope == Scope::Block {
                (walk.target.thread, walk.target.block)
            } else {
                (walk.target.lane, 32)
            };
            if dims.first() != Some(&count) {
                return Err(fail(
                    "a private array whose first dimension is not the threads of its scope",
                    "give it one entry a thread",
                ));
            }
            (Some(thread), &dims[1..])
        }
        ("" | PRIVATE, Scope::Thread) => (None, &dims[..]),
        (WORKGROUP, Scope::Block | Scope::Warp) => (None, &dims[..]),
        _ => {
            return Err(fail(
                "an array in this memory space does not belong there",
                "see the table of loop constructs in ARCHITECTURE.md",
            ));
        }
    };
    let count: i64 = dims.iter().product::<i64>().max(1);
    let shared = space == WORKGROUP;
    let base = if shared {
        let copies = if scope == Scope::Warp { walk.target.block / 32 } else { 1 };
        let bytes = (count * bytes_of(element) + 15) / 16 * 16;
        let mut at = entry.index(walk.target.shared(bytes * copies));
        if copies > 1 {
            // Each warp has its own array, as each iteration of the warp forall has.
            at = walk.b.add(at, walk.b.mul(walk.target.warp, walk.b.index(bytes)));
        }
        walk.target.shared_pointer(&walk.b, at)
    } else {
        let array = walk.b.ty(&format!("!llvm.array<{count} x {}>", storage(&walk.b, element)));
        let one = entry.int(1, walk.b.ty("i32"));
        let attributes =
            [("elem_type", TypeAttribute::new(array).into()), ("alignment", walk.b.i64_attr(16))];
        entry.value("llvm.alloca", &[one], walk.b.ty("!llvm.ptr"), &attributes)
    };
    let sizes: Vec<Expr> = dims.iter().map(|d| Expr::from(*d)).collect();
    let strides = row_major(&sizes).iter().map(|e| walk.b.index(e.as_const().expect("static"))).collect();
    walk.place(memref, Memory { base, element, strides, thread, private: !shared, writable: true });
    Ok(())
}
