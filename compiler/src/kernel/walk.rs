//! Copies a loop-level function body op by op, with memrefs replaced by pointers and index arithmetic.
//!
//! What differs between targets (foralls, allocations, collectives) is the [`Target`]'s.

use super::affine::{ceil_div, emit_map, floor_div};
use crate::driver::pass::Failure;
use crate::ir::{name, ops};
use crate::kernel::{Builder, Val};
use melior::Context;
use melior::ir::attribute::{IntegerAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{
    Attribute, Block, BlockLike, BlockRef, Region, RegionLike, Type, TypeLike, Value, ValueLike,
};
use mlir_sys::MlirOperation;
use std::collections::HashMap;
use strata_dialects::build::{const_of, definition, element_type, lanes, with_element};

/// Where a memref's elements lie.
#[derive(Clone)]
pub struct Memory<'c> {
    /// Pointer to element 0.
    pub base: Val<'c>,
    /// Element type as the IR sees it.
    pub element: Type<'c>,
    /// Distance of neighbours in elements, as `index` values, for the dimensions that are not dropped.
    pub strides: Vec<Val<'c>>,
    /// The thread, where the leading dimension stands for it and is dropped; the only leading index that may be used.
    pub thread: Option<Val<'c>>,
    /// A thread's own array, which should end in registers.
    pub private: bool,
    /// Whether the kernel may store to it.
    pub writable: bool,
}

impl Memory<'_> {
    fn dropped(&self) -> usize {
        usize::from(self.thread.is_some())
    }
}

/// What a target lowers itself.
pub trait Target<'c>: Sized {
    /// Lowers `op` and says so, or leaves it to the walk.
    fn lower(walk: &mut Walk<'c, Self>, op: OperationRef<'c, 'c>) -> Result<bool, Failure>;
}

/// The state of a copy.
pub struct Walk<'c, T> {
    /// The module's context.
    pub context: &'c Context,
    /// Where new ops go.
    pub b: Builder<'c>,
    /// Width of index arithmetic that reaches pointers.
    pub index_bits: u32,
    /// The target's own state.
    pub target: T,
    values: HashMap<usize, Val<'c>>,
    memory: HashMap<usize, Memory<'c>>,
}

/// Full unrolling stops at this many copied ops.
const UNROLL_LIMIT: usize = 8192;

impl<'c, T: Target<'c>> Walk<'c, T> {
    /// An empty copy that appends through `b`.
    pub fn new(context: &'c Context, b: Builder<'c>, index_bits: u32, target: T) -> Self {
        Self { context, b, index_bits, target, values: HashMap::new(), memory: HashMap::new() }
    }

    /// What a value of the source became.
    pub fn get(&self, source: Value<'c, '_>) -> Val<'c> {
        self.values[&(source.to_raw().ptr as usize)]
    }

    /// Says what a value of the source becomes.
    pub fn set(&mut self, source: Value<'c, '_>, value: Val<'c>) {
        self.values.insert(source.to_raw().ptr as usize, value);
    }

    /// Says where a memref of the source lies.
    pub fn place(&mut self, source: Value<'c, '_>, memory: Memory<'c>) {
        self.memory.insert(source.to_raw().ptr as usize, memory);
    }

    /// Where a memref of the source lies.
    pub fn memory(&self, op: &OperationRef<'c, '_>, source: Value<'c, '_>) -> Result<Memory<'c>, Failure> {
        self.memory.get(&(source.to_raw().ptr as usize)).cloned().ok_or_else(|| {
            Failure::new(
                op.location(),
                format!("{} uses a memref that is neither an argument nor an alloca", name(op)),
            )
        })
    }

    /// Copies every op of a block.
    pub fn block(&mut self, source: BlockRef<'c, '_>) -> Result<(), Failure> {
        for op in ops(source) {
            // SAFETY: the source module outlives the walk.
            self.op(unsafe { OperationRef::from_raw(op.to_raw()) })?;
        }
        Ok(())
    }

    /// The operands of an op, copied.
    pub fn operands(&self, op: OperationRef<'c, 'c>) -> Vec<Val<'c>> {
        op.operands().map(|v| self.get(v)).collect()
    }

    fn op(&mut self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        self.b = self.b.at(op.location());
        if T::lower(self, op)? {
            return Ok(());
        }
        match name(&op) {
            "affine.apply" => {
                let operands = self.operands(op);
                let v = emit_map(&self.b, op.attribute("map").expect("an affine map"), &operands)[0];
                self.set(op.result(0).expect("one result").into(), v);
                Ok(())
            }
            which @ ("affine.min" | "affine.max") => {
                let operands = self.operands(op);
                let all = emit_map(&self.b, op.attribute("map").expect("an affine map"), &operands);
                let combine = if which == "affine.min" { "arith.minsi" } else { "arith.maxsi" };
                let v = all.into_iter().reduce(|a, c| self.b.value(combine, &[a, c], a.r#type(), &[]));
                self.set(op.result(0).expect("one result").into(), v.expect("a map with results"));
                Ok(())
            }
            // Index arithmetic divides by sizes, which are positive; on other integers LLVM's own division does.
            which @ ("arith.floordivsi" | "arith.ceildivsi" | "arith.ceildivui")
                if op.result(0).is_ok_and(|r| r.r#type() == Type::index(self.context)) =>
            {
                let operands = self.operands(op);
                let divide = if which == "arith.floordivsi" { floor_div } else { ceil_div };
                let v = divide(&self.b, operands[0], operands[1]);
                self.set(op.result(0).expect("one result").into(), v);
                Ok(())
            }
            "vector.load" | "memref.load" => self.load(op),
            "vector.store" | "memref.store" => self.store(op),
            "memref.atomic_rmw" => self.atomic(op),
            "scf.for" if self.should_unroll(op) => self.unroll(op),
            "scf.for" | "scf.if" | "scf.while" | "scf.index_switch" => self.with_regions(op),
            other if other.starts_with("memref.") || op.region_count() > 0 => Err(unsupported(op)),
            other => match other.split_once('.') {
                Some(("arith" | "math" | "vector" | "scf" | "ub", _)) => {
                    self.copy(op);
                    Ok(())
                }
                _ => Err(unsupported(op)),
            },
        }
    }

    /// Copies an op without regions.
    fn copy(&mut self, op: OperationRef<'c, 'c>) {
        let operands = self.operands(op);
        // SAFETY: the clone is detached and gets as many operands as it has.
        let new = unsafe {
            let raw = mlir_sys::mlirOperationClone(op.to_raw());
            for (i, v) in operands.iter().enumerate() {
                mlir_sys::mlirOperationSetOperand(raw, i as isize, v.to_raw());
            }
            self.b.insert(melior::ir::Operation::from_raw(raw))
        };
        // Index arithmetic of the loop level does not wrap; saying so lets addresses fold.
        if matches!(name(&op), "arith.addi" | "arith.muli" | "arith.subi")
            && operands[0].r#type() == Type::index(self.context)
        {
            set_attribute(new.to_raw(), "overflowFlags", self.b.attr("#arith.overflow<nsw>"));
        }
        for i in 0..op.result_count() {
            self.set(op.result(i).expect("in range").into(), strata_dialects::build::result_of(new, i));
        }
    }

    /// Copies an op with regions, and what is in them.
    fn with_regions(&mut self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        let mut regions = Vec::new();
        let mut pairs: Vec<(BlockRef<'c, 'c>, BlockRef<'c, 'c>)> = Vec::new();
        for r in 0..op.region_count() {
            let region = Region::new();
            let mut source = op.region(r).expect("in range").first_block();
            while let Some(block) = source {
                let arguments: Vec<_> = (0..block.argument_count())
                    .map(|i| (block.argument(i).expect("in range").r#type(), op.location()))
                    .collect();
                pairs.push((super::kept(block), super::kept(region.append_block(Block::new(&arguments)))));
                source = block.next_in_region();
            }
            regions.push(region);
        }
        let operands = self.operands(op);
        let results: Vec<_> =
            (0..op.result_count()).map(|i| op.result(i).expect("in range").r#type()).collect();
        let attributes = attributes(op);
        let attributes: Vec<_> = attributes.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        let new = self.b.op(name(&op), &operands, &results, &attributes, regions);
        let outside = self.b;
        for (source, target) in pairs {
            for i in 0..source.argument_count() {
                let argument = target.argument(i).expect("as many as the source").into();
                self.set(source.argument(i).expect("in range").into(), argument);
            }
            self.b = Builder::at_end(self.context, target, op.location());
            self.block(source)?;
        }
        self.b = outside;
        for i in 0..op.result_count() {
            self.set(op.result(i).expect("in range").into(), strata_dialects::build::result_of(new, i));
        }
        Ok(())
    }

    fn bounds(&self, op: OperationRef<'c, 'c>) -> Option<(i64, i64, i64)> {
        let bound = |i| op.operand(i).ok().and_then(|v| const_of(self.get(v)));
        let (low, high, step) = (bound(0)?, bound(1)?, bound(2)?);
        (step > 0).then_some((low, high, step))
    }

    /// Whether a loop must be unrolled so that a private array it indexes can live in registers.
    fn should_unroll(&self, op: OperationRef<'c, 'c>) -> bool {
        let Some((low, high, step)) = self.bounds(op) else { return false };
        let body = crate::ir::body(&op).expect("a loop has a body");
        let trips = usize::try_from((high - low + step - 1) / step).unwrap_or(0);
        let iv: Value = body.argument(0).expect("an induction variable").into();
        trips * count(body) <= UNROLL_LIMIT && self.indexes_private(body, iv)
    }

    fn indexes_private(&self, block: BlockRef<'c, '_>, iv: Value<'c, '_>) -> bool {
        ops(block).into_iter().any(|op| {
            let memref = match name(&op) {
                "vector.load" | "memref.load" => 0,
                "vector.store" | "memref.store" => 1,
                _ => {
                    return (0..op.region_count()).any(|r| {
                        op.region(r)
                            .expect("in range")
                            .first_block()
                            .is_some_and(|b| self.indexes_private(b, iv))
                    });
                }
            };
            let source = op.operand(memref).expect("a memref");
            self.memory.get(&(source.to_raw().ptr as usize)).is_some_and(|m| {
                m.private
                    && (memref + 1 + m.dropped()..op.operand_count())
                        .any(|i| depends_on(op.operand(i).expect("in range"), iv))
            })
        })
    }

    fn unroll(&mut self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        let (low, high, step) = self.bounds(op).expect("checked before");
        let body = crate::ir::body(&op).expect("a loop has a body");
        let mut carried: Vec<Val<'c>> =
            (3..op.operand_count()).map(|i| self.get(op.operand(i).expect("in range"))).collect();
        let iv_type = body.argument(0).expect("an induction variable").r#type();
        let mut at = low;
        while at < high {
            let iv = self.b.int(at, iv_type);
            self.set(body.argument(0).expect("in range").into(), iv);
            for (i, v) in carried.iter().enumerate() {
                self.set(body.argument(i + 1).expect("in range").into(), *v);
            }
            for inner in ops(body) {
                if name(&inner) == "scf.yield" {
                    carried = inner.operands().map(|v| self.get(v)).collect();
                } else {
                    // SAFETY: the source module outlives the walk.
                    self.op(unsafe { OperationRef::from_raw(inner.to_raw()) })?;
                }
            }
            at += step;
        }
        for (i, v) in carried.into_iter().enumerate() {
            self.set(op.result(i).expect("in range").into(), v);
        }
        Ok(())
    }

    /// Pointer to the element that `op` names by its operands from `first` on.
    fn address(&mut self, op: OperationRef<'c, 'c>, first: usize) -> Result<(Val<'c>, Memory<'c>), Failure> {
        let memory = self.memory(&op, op.operand(first).expect("a memref"))?;
        let indices: Vec<_> = (first + 1 + memory.dropped()..op.operand_count())
            .map(|i| self.get(op.operand(i).expect("in range")))
            .collect();
        if let Some(thread) = memory.thread
            && op.operand(first + 1).map(|i| self.get(i).to_raw().ptr) != Ok(thread.to_raw().ptr)
        {
            return Err(Failure::new(
                op.location(),
                "the first index of a private array is not the thread of the enclosing forall",
            )
            .next("exchange values between threads through shared memory or loop.all_reduce"));
        }
        if name(&op).starts_with("vector.") && memory.strides.last().is_some_and(|s| const_of(*s) != Some(1))
        {
            return Err(Failure::new(
                op.location(),
                format!("{} along a dimension that is not contiguous", name(&op)),
            )
            .next("load and store elements one by one there"));
        }
        let b = self.b;
        let mut sum = b.index(0);
        for (i, s) in indices.iter().zip(&memory.strides) {
            sum = b.add(sum, b.mul(*i, *s));
        }
        Ok((pointer(&b, &memory, sum, self.index_bits), memory))
    }

    fn load(&mut self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        let result: Value = op.result(0).expect("one result").into();
        let ty = result.r#type();
        let (pointer, memory) = self.address(op, 0)?;
        let stored = storage(&self.b, ty);
        let align = self.b.i64_attr(alignment(op).unwrap_or_else(|| bytes_of(element_type(memory.element))));
        let mut v = self.b.value("llvm.load", &[pointer], stored, &[("alignment", align)]);
        if stored != ty {
            v = self.b.value("arith.trunci", &[v], ty, &[]);
        }
        self.set(result, v);
        Ok(())
    }

    fn atomic(&mut self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        let value = self.get(op.operand(0).expect("a value"));
        let (pointer, memory) = self.address(op, 1)?;
        writable(op, &memory)?;
        super::atomic::lower(&self.b, op, value, pointer)
    }

    fn store(&mut self, op: OperationRef<'c, 'c>) -> Result<(), Failure> {
        let mut v = self.get(op.operand(0).expect("a value"));
        let (pointer, memory) = self.address(op, 1)?;
        writable(op, &memory)?;
        let stored = storage(&self.b, v.r#type());
        if stored != v.r#type() {
            v = self.b.value("arith.extui", &[v], stored, &[]);
        }
        let align = self.b.i64_attr(alignment(op).unwrap_or_else(|| bytes_of(element_type(memory.element))));
        self.b.op("llvm.store", &[v, pointer], &[], &[("alignment", align)], vec![]);
        Ok(())
    }
}

/// Refuses to change what a kernel only reads.
fn writable(op: OperationRef<'_, '_>, memory: &Memory<'_>) -> Result<(), Failure> {
    if memory.writable {
        return Ok(());
    }
    Err(Failure::new(op.location(), "a store to a buffer that the kernel only reads")
        .next("mark the argument with loop.out"))
}

/// Pointer to element `index` of `memory`. That it is in bounds cannot be said through MLIR's C interface; it is added in LLVM IR.
pub fn pointer<'c>(b: &Builder<'c>, memory: &Memory<'c>, index: Val<'c>, index_bits: u32) -> Val<'c> {
    let element: Attribute = TypeAttribute::new(storage(b, memory.element)).into();
    let pointer = memory.base.r#type();
    if let Some(c) = const_of(index)
        && let Ok(c) = i32::try_from(c)
    {
        let constant = b.attr(&format!("array<i32: {c}>"));
        let attributes = [("elem_type", element), ("rawConstantIndices", constant)];
        return b.value("llvm.getelementptr", &[memory.base], pointer, &attributes);
    }
    let integer = b.ty(if index_bits == 32 { "i32" } else { "i64" });
    let cast = b.value("arith.index_cast", &[index], integer, &[]);
    let dynamic = b.attr("array<i32: -2147483648>");
    let attributes = [("elem_type", element), ("rawConstantIndices", dynamic)];
    b.value("llvm.getelementptr", &[memory.base, cast], pointer, &attributes)
}

/// The type that a value has in memory: a byte for `i1`.
pub fn storage<'c>(b: &Builder<'c>, ty: Type<'c>) -> Type<'c> {
    if element_type(ty) == b.ty("i1") { with_element(ty, b.ty("i8")) } else { ty }
}

/// Bytes of a scalar or vector in memory.
pub fn bytes_of(ty: Type<'_>) -> i64 {
    // SAFETY: kinds are checked before widths are asked for.
    unsafe {
        let raw = element_type(ty).to_raw();
        let bits = if mlir_sys::mlirTypeIsAFloat(raw) {
            mlir_sys::mlirFloatTypeGetWidth(raw)
        } else if mlir_sys::mlirTypeIsAInteger(raw) {
            mlir_sys::mlirIntegerTypeGetWidth(raw)
        } else {
            64
        };
        i64::from(bits.div_ceil(8)) * lanes(ty)
    }
}

/// The attribute dictionary of an op, inherent attributes included.
pub fn attributes<'c>(op: OperationRef<'c, '_>) -> Vec<(String, Attribute<'c>)> {
    // SAFETY: indices stay below the number of attributes.
    unsafe {
        (0..mlir_sys::mlirOperationGetNumAttributes(op.to_raw()))
            .map(|i| {
                let named = mlir_sys::mlirOperationGetAttribute(op.to_raw(), i);
                let key = mlir_sys::mlirIdentifierStr(named.name);
                let key = std::slice::from_raw_parts(key.data.cast::<u8>(), key.length);
                (String::from_utf8_lossy(key).into_owned(), Attribute::from_raw(named.attribute))
            })
            .collect()
    }
}

fn alignment(op: OperationRef<'_, '_>) -> Option<i64> {
    IntegerAttribute::try_from(op.attribute("alignment").ok()?).ok().map(|a| a.value())
}

/// Sets an attribute of an op.
pub fn set_attribute(op: MlirOperation, name: &str, value: Attribute<'_>) {
    use melior::ir::AttributeLike;
    // SAFETY: a live op and an attribute of its context.
    unsafe {
        mlir_sys::mlirOperationSetAttributeByName(op, melior::StringRef::new(name).to_raw(), value.to_raw());
    }
}

fn unsupported(op: OperationRef<'_, '_>) -> Failure {
    Failure::new(op.location(), format!("{} is not part of the loop level", name(&op)))
        .next("see the table of loop constructs in ARCHITECTURE.md")
}

/// The ops of a block and of what it holds.
fn count(block: BlockRef<'_, '_>) -> usize {
    ops(block)
        .into_iter()
        .map(|op| {
            1 + (0..op.region_count())
                .filter_map(|r| op.region(r).ok()?.first_block().map(count))
                .sum::<usize>()
        })
        .sum()
}

/// Whether a value is computed from `iv`.
fn depends_on<'c>(value: Value<'c, '_>, iv: Value<'c, '_>) -> bool {
    if value.to_raw().ptr == iv.to_raw().ptr {
        return true;
    }
    definition(value).is_some_and(|op| op.operands().any(|v| depends_on(v, iv)))
}
