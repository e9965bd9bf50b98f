//! The signature of a loop-level function: buffers with their strides, then symbols.

use crate::driver::pass::Failure;
use crate::ir::{body, symbol_name};
use melior::ir::attribute::{ArrayAttribute, IntegerAttribute, StringAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{Attribute, AttributeLike, BlockLike, BlockRef, Type, TypeLike, Value, ValueLike};
use strata_dialects::affine::dims_of;
use strata_dialects::build::element_type;
use strata_runtime::sym::{Atom, Expr};

/// A buffer argument.
pub struct BufferArg<'c> {
    /// Its number among the function's arguments.
    pub argument: usize,
    /// Element type as stored.
    pub element: Type<'c>,
    /// Sizes over the function's symbols.
    pub dims: Vec<Expr>,
    /// Distance of neighbours along each dimension, in elements.
    pub strides: Vec<Expr>,
    /// Whether the kernel writes it (`loop.out`).
    pub out: bool,
    /// Whether it is memory of the kernel's own, no result (`loop.scratch`).
    pub scratch: bool,
    /// Whether it is scratch memory that is 0 when the kernel starts, and again when it ends ([`TICKETS`]).
    pub tickets: bool,
}

/// The attribute of an argument that holds the tickets of `loop.arrive`.
pub const TICKETS: &str = "loop.tickets";

/// What a loop-level function takes and how it is launched.
pub struct Signature<'c> {
    /// Its name.
    pub name: String,
    /// Buffers, in order.
    pub buffers: Vec<BufferArg<'c>>,
    /// Argument numbers of the symbols, in order.
    pub symbols: Vec<usize>,
    /// Trip counts of the outermost forall.
    pub grid: Vec<Expr>,
    /// Threads a block; 1 where the function says nothing.
    pub block: u32,
    /// The largest value of each symbol of which one is known: those of `graph.symbols`.
    largest: Vec<i64>,
}

/// The loop-level functions (`loop.kernel`) for `target` (`gpu`, `cpu`) of a module.
pub fn kernels<'c>(module: &melior::ir::Module<'c>, target: &str) -> Vec<OperationRef<'c, 'c>> {
    // SAFETY: the module outlives the pass that asked.
    let body: BlockRef<'c, 'c> = unsafe { BlockRef::from_raw(module.body().to_raw()) };
    crate::ir::ops(body)
        .into_iter()
        .filter(|f| crate::ir::name(f) == "func.func" && f.has_attribute("loop.kernel"))
        .filter(|f| string(f, "loop.target").as_deref() == Some(target))
        .collect()
}

fn string(op: &OperationRef<'_, '_>, name: &str) -> Option<String> {
    StringAttribute::try_from(op.attribute(name).ok()?).ok().map(|s| s.value().to_owned())
}

/// An attribute of the `i`-th argument of a function.
pub fn argument_attribute<'c>(func: &OperationRef<'c, '_>, i: usize, name: &str) -> Option<Attribute<'c>> {
    let all = ArrayAttribute::try_from(func.attribute("arg_attrs").ok()?).ok()?;
    let dictionary = all.element(i).ok()?;
    // SAFETY: argument attributes are dictionaries; null is checked.
    unsafe {
        let raw = mlir_sys::mlirDictionaryAttrGetElementByName(
            dictionary.to_raw(),
            melior::StringRef::new(name).to_raw(),
        );
        (!raw.ptr.is_null()).then(|| Attribute::from_raw(raw))
    }
}

impl<'c> Signature<'c> {
    /// Reads the signature of `func`.
    pub fn read(func: OperationRef<'c, 'c>) -> Result<Self, Failure> {
        let name = symbol_name(&func);
        let fail = |m: String| Failure::new(func.location(), format!("kernel {name}: {m}"));
        let block = body(&func).ok_or_else(|| fail("it has no body".into()))?;
        let ty = func
            .attribute("function_type")
            .ok()
            .and_then(|a| TypeAttribute::try_from(a).ok())
            .ok_or_else(|| fail("it has no function type".into()))?
            .value();
        // SAFETY: a function op's type is a function type.
        if unsafe { mlir_sys::mlirFunctionTypeGetNumResults(ty.to_raw()) } != 0 {
            return Err(fail("it returns values".into())
                .next("results of a kernel are buffer arguments with the attribute loop.out"));
        }
        let (mut buffers, mut symbols) = (Vec::new(), Vec::new());
        for i in 0..block.argument_count() {
            let argument: Value = block.argument(i).expect("in range").into();
            // SAFETY: a query on a valid type.
            if unsafe { mlir_sys::mlirTypeIsAMemRef(argument.r#type().to_raw()) } {
                if !symbols.is_empty() {
                    return Err(fail(format!("buffer argument {i} follows a symbol"))
                        .next("put the buffers first, then one index per symbol"));
                }
                buffers.push(buffer(&func, i, argument.r#type()).map_err(fail)?);
            // SAFETY: a query on a valid type.
            } else if unsafe { mlir_sys::mlirTypeIsAIndex(argument.r#type().to_raw()) } {
                symbols.push(i);
            } else {
                return Err(fail(format!(
                    "argument {i} is neither a memref nor an index: {}",
                    argument.r#type()
                )));
            }
        }
        let grid = match func.attribute("loop.grid") {
            Ok(a) => dims_of(a).ok_or_else(|| fail("loop.grid is not a #graph.dims<…>".into()))?,
            Err(_) => return Err(fail("it has no attribute loop.grid".into())),
        };
        let threads = match func.attribute("loop.block") {
            Ok(a) => {
                IntegerAttribute::try_from(a).map_err(|_| fail("loop.block is not a number".into()))?.value()
            }
            Err(_) => 1,
        };
        if !(1..=1024).contains(&threads) {
            return Err(fail(format!("loop.block is {threads}")).next("a block has 1 to 1024 threads"));
        }
        let count = symbols.len() as u32;
        for e in buffers.iter().flat_map(|b| b.dims.iter().chain(&b.strides)).chain(&grid) {
            if let Some(s) = e.symbols().iter().find(|s| s.0 >= count) {
                return Err(fail(format!("symbol s{} is used, but there are {count} symbol arguments", s.0)));
            }
        }
        let largest =
            crate::interp::symbols::symbols_of(&func).map_err(fail)?.iter().map(|f| f.symbol.max).collect();
        Ok(Self { name, buffers, symbols, grid, block: threads as u32, largest })
    }

    /// Whether element numbers of every buffer fit 31 bits, so that index arithmetic may have 32 bits. Symbols count with the largest
    /// value that `graph.symbols` allows, which the runtime checks.
    pub fn fits_32_bits(&self) -> bool {
        const LIMIT: i64 = i32::MAX as i64;
        let span = |b: &BufferArg<'_>| -> Option<i64> {
            let mut last: i64 = 0;
            for (d, s) in b.dims.iter().zip(&b.strides) {
                last = last.checked_add(self.upper(d)?.checked_mul(self.upper(s)?)?)?;
            }
            Some(last)
        };
        // One vector more than the last element may be computed as an address behind a guard.
        self.buffers.iter().all(|b| span(b).is_some_and(|n| n < LIMIT - 65536))
            && self.grid.iter().all(|e| self.upper(e).is_some_and(|n| n < LIMIT))
    }

    /// An upper bound of a size; `None` where none is known.
    fn upper(&self, e: &Expr) -> Option<i64> {
        let mut sum: i64 = 0;
        for (atoms, coefficient) in e.terms() {
            // Sizes and their parts are not negative, so what is taken away only makes the value smaller.
            if coefficient < 0 && !atoms.is_empty() {
                continue;
            }
            let mut term = coefficient;
            for atom in atoms {
                let bound = match atom {
                    Atom::Sym(s) => *self.largest.get(s.0 as usize)?,
                    Atom::FloorDiv(a, b) => self.upper(a)? / b.as_const().filter(|b| *b > 0)?,
                    Atom::Mod(_, b) => self.upper(b)?,
                    Atom::Min(a, b) => self.upper(a)?.min(self.upper(b)?),
                    Atom::Max(a, b) => self.upper(a)?.max(self.upper(b)?),
                };
                term = term.checked_mul(bound.max(0))?;
            }
            sum = sum.checked_add(term)?;
        }
        Some(sum)
    }
}

fn buffer<'c>(func: &OperationRef<'c, '_>, i: usize, ty: Type<'c>) -> Result<BufferArg<'c>, String> {
    let attribute = |name: &str| argument_attribute(func, i, name);
    let dims = match attribute("loop.dims") {
        Some(a) => dims_of(a).ok_or(format!("loop.dims of argument {i} is not a #graph.dims<…>"))?,
        None => static_dims(ty)
            .ok_or(format!("argument {i} has dynamic sizes but no attribute loop.dims: {ty}"))?,
    };
    let rank = dims.len();
    let strides = match attribute("loop.strides") {
        Some(a) => dims_of(a).ok_or(format!("loop.strides of argument {i} is not a #graph.dims<…>"))?,
        None => layout_strides(ty, rank)?.unwrap_or_else(|| row_major(&dims)),
    };
    // SAFETY: the caller checked that it is a memref, so shaped.
    let expected = unsafe { mlir_sys::mlirShapedTypeGetRank(ty.to_raw()) } as usize;
    if expected != rank || strides.len() != rank {
        return Err(format!(
            "argument {i} has rank {expected}, its loop.dims {rank}, its strides {}",
            strides.len()
        ));
    }
    Ok(BufferArg {
        argument: i,
        element: element_type(ty),
        dims,
        strides,
        out: attribute("loop.out").is_some(),
        scratch: attribute("loop.scratch").is_some(),
        tickets: attribute(TICKETS).is_some(),
    })
}

/// Sizes of a static memref.
pub fn static_dims(ty: Type<'_>) -> Option<Vec<Expr>> {
    // SAFETY: `ty` is shaped; indices stay below its rank.
    unsafe {
        (0..mlir_sys::mlirShapedTypeGetRank(ty.to_raw()) as isize)
            .map(|i| {
                (!mlir_sys::mlirShapedTypeIsDynamicDim(ty.to_raw(), i))
                    .then(|| Expr::from(mlir_sys::mlirShapedTypeGetDimSize(ty.to_raw(), i)))
            })
            .collect()
    }
}

/// Strides of a strided layout; `None` for the identity layout.
fn layout_strides(ty: Type<'_>, rank: usize) -> Result<Option<Vec<Expr>>, String> {
    // SAFETY: `ty` is a memref of that rank.
    unsafe {
        let layout = mlir_sys::mlirMemRefTypeGetLayout(ty.to_raw());
        if !mlir_sys::mlirAttributeIsAStridedLayout(layout) {
            return Ok(None);
        }
        let (mut strides, mut offset) = (vec![0i64; rank], 0i64);
        mlir_sys::mlirMemRefTypeGetStridesAndOffset(ty.to_raw(), strides.as_mut_ptr(), &mut offset);
        let dynamic = mlir_sys::mlirShapedTypeGetDynamicStrideOrOffset();
        if strides.contains(&dynamic) {
            return Err(format!("a buffer of type {ty} needs the attribute loop.strides"));
        }
        Ok(Some(strides.into_iter().map(Expr::from).collect()))
    }
}

/// Strides of contiguous row-major memory.
pub fn row_major(dims: &[Expr]) -> Vec<Expr> {
    let mut strides = vec![Expr::from(1); dims.len()];
    for i in (0..dims.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1].clone() * dims[i + 1].clone();
    }
    strides
}
