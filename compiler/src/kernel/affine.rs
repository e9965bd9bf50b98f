//! `affine.apply`, `affine.min`, `affine.max` and size expressions as index arithmetic.

use crate::kernel::{Builder, Val};
use melior::ir::operation::OperationLike;
use melior::ir::{AffineExpr, Attribute, AttributeLike, ValueLike};
use strata_dialects::build::{const_of, definition};
use strata_runtime::sym::{Atom, Expr};

/// The value of an affine expression over dimensions and symbols.
pub fn emit<'c>(b: &Builder<'c>, e: AffineExpr<'c>, dims: &[Val<'c>], symbols: &[Val<'c>]) -> Val<'c> {
    if e.is_constant() {
        return b.index(e.constant_value());
    }
    if e.is_dim() {
        return dims[e.dim_position()];
    }
    if e.is_symbol() {
        return symbols[e.symbol_position()];
    }
    let x = emit(b, e.lhs(), dims, symbols);
    let y = emit(b, e.rhs(), dims, symbols);
    match () {
        () if e.is_add() => b.add(x, y),
        () if e.is_mul() => b.mul(x, y),
        () if e.is_floor_div() => floor_div(b, x, y),
        () if e.is_ceil_div() => {
            let round = b.add(x, b.add(y, b.index(-1)));
            floor_div(b, round, y)
        }
        () => modulo(b, x, y),
    }
}

/// The results of the affine map in attribute `map`, on operands that are dimensions first, then symbols.
pub fn emit_map<'c>(b: &Builder<'c>, map: Attribute<'c>, operands: &[Val<'c>]) -> Vec<Val<'c>> {
    // SAFETY: affine ops carry an affine map attribute; indices stay below the number of results.
    unsafe {
        let raw = mlir_sys::mlirAffineMapAttrGetValue(map.to_raw());
        let dims = mlir_sys::mlirAffineMapGetNumDims(raw) as usize;
        (0..mlir_sys::mlirAffineMapGetNumResults(raw))
            .map(|i| {
                let e = AffineExpr::from_raw(mlir_sys::mlirAffineMapGetResult(raw, i));
                emit(b, e, &operands[..dims], &operands[dims..])
            })
            .collect()
    }
}

/// The value of a size expression over the symbols' values.
pub fn emit_expr<'c>(b: &Builder<'c>, e: &Expr, symbols: &[Val<'c>]) -> Val<'c> {
    let mut sum = b.index(0);
    for (atoms, coefficient) in e.terms() {
        let mut term = b.index(coefficient);
        for atom in atoms {
            let v = match atom {
                Atom::Sym(s) => symbols[s.0 as usize],
                Atom::FloorDiv(x, y) => floor_div(b, emit_expr(b, x, symbols), emit_expr(b, y, symbols)),
                Atom::Mod(x, y) => modulo(b, emit_expr(b, x, symbols), emit_expr(b, y, symbols)),
                Atom::Min(x, y) | Atom::Max(x, y) => {
                    let (x, y) = (emit_expr(b, x, symbols), emit_expr(b, y, symbols));
                    let op = if matches!(atom, Atom::Min(..)) { "arith.minsi" } else { "arith.maxsi" };
                    b.value(op, &[x, y], x.r#type(), &[])
                }
            };
            term = b.mul(v, term);
        }
        sum = b.add(sum, term);
    }
    sum
}

/// Floor division by a positive number. Where the dividend is known not to be negative, the unsigned division.
pub fn floor_div<'c>(b: &Builder<'c>, x: Val<'c>, y: Val<'c>) -> Val<'c> {
    match (const_of(x), const_of(y)) {
        (Some(x), Some(y)) if y > 0 => return b.index(x.div_euclid(y)),
        (_, Some(1)) => return x,
        _ => {}
    }
    if not_negative(x, 16) {
        return b.value("arith.divui", &[x, y], x.r#type(), &[]);
    }
    let quotient = b.value("arith.divsi", &[x, y], x.r#type(), &[]);
    let remainder = b.value("arith.remsi", &[x, y], x.r#type(), &[]);
    let below = b.cmpi(2, remainder, b.int(0, x.r#type()));
    let less = b.value("arith.addi", &[quotient, b.int(-1, x.r#type())], x.r#type(), &[]);
    b.select(below, less, quotient)
}

/// Division rounded up, by a positive number.
pub fn ceil_div<'c>(b: &Builder<'c>, x: Val<'c>, y: Val<'c>) -> Val<'c> {
    let minus_one = b.int(-1, x.r#type());
    let last = b.value("arith.addi", &[y, minus_one], x.r#type(), &[]);
    let sum = b.value("arith.addi", &[x, last], x.r#type(), &[]);
    floor_div(b, sum, y)
}

/// Remainder in `[0, y)` for a positive `y`.
pub fn modulo<'c>(b: &Builder<'c>, x: Val<'c>, y: Val<'c>) -> Val<'c> {
    if let (Some(x), Some(y)) = (const_of(x), const_of(y))
        && y > 0
    {
        return b.index(x.rem_euclid(y));
    }
    if not_negative(x, 16) {
        return b.value("arith.remui", &[x, y], x.r#type(), &[]);
    }
    let r = b.value("arith.remsi", &[x, y], x.r#type(), &[]);
    let negative = b.cmpi(2, r, b.index(0));
    let shifted = b.add(r, y);
    b.select(negative, shifted, r)
}

/// Whether an index is certainly ≥ 0. Looks `depth` ops back.
pub fn not_negative(v: Val<'_>, depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    if let Some(c) = const_of(v) {
        return c >= 0;
    }
    let Some(op) = definition(v) else {
        return loop_index_not_negative(v, depth);
    };
    let operand = |i: usize| op.operand(i).is_ok_and(|v| not_negative(v, depth - 1));
    match crate::ir::name(&op) {
        "gpu.block_id" | "gpu.thread_id" => true,
        // The symbols of a kernel, which are sizes and strides.
        "arith.index_cast" => op.operand(0).is_ok_and(|v| v.is_block_argument()),
        "arith.addi" | "arith.muli" => operand(0) && operand(1),
        "arith.divui" | "arith.remui" => operand(0),
        "arith.minsi" | "arith.minui" => operand(0) && operand(1),
        "arith.maxsi" => operand(0) || operand(1),
        "arith.select" => operand(1) && operand(2),
        _ => false,
    }
}

/// The induction variable of a loop that starts at a number ≥ 0 and steps upwards.
fn loop_index_not_negative(v: Val<'_>, depth: usize) -> bool {
    // SAFETY: queries on a live block argument; null parents are checked.
    unsafe {
        let block = mlir_sys::mlirBlockArgumentGetOwner(v.to_raw());
        let parent = mlir_sys::mlirBlockGetParentOperation(block);
        if parent.ptr.is_null() || mlir_sys::mlirBlockArgumentGetArgNumber(v.to_raw()) != 0 {
            return false;
        }
        let op = melior::ir::operation::OperationRef::from_raw(parent);
        crate::ir::name(&op) == "scf.for" && op.operand(0).is_ok_and(|low| not_negative(low, depth - 1))
    }
}
