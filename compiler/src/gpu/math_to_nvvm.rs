//! `math-to-nvvm`: elementary functions become hardware instructions and short polynomials, so that kernels need no device library.

use crate::driver::pass::{Failure, Level, Pass, PassCx, PassOption};
use crate::ir::{name, ops, replace};
use crate::kernel::{Builder, Val};
use crate::math::{self, Emit, Hardware};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, Module, RegionLike, ValueLike};
use strata_dialects::build::{definition, element_type, is_vector, lanes, vector_of};

/// The pass.
pub static PASS: Pass = Pass {
    name: "math-to-nvvm",
    summary: "turn elementary functions of GPU kernels into hardware instructions and polynomials",
    from: Level::Llvm,
    to: Level::Llvm,
    exact: false,
    options: &[PassOption {
        name: "numerics",
        default: "default",
        help: "default: exp by one ex2 instruction, divisions within 2 ulp; strict: about 2 ulp everywhere, divisions rounded",
    }],
    run,
};

fn run<'c>(cx: &PassCx<'c>, module: &Module<'c>) -> Result<(), Failure> {
    let strict = cx.strict()?;
    // SAFETY: the body lives as long as the module.
    let body: BlockRef<'c, 'c> = unsafe { BlockRef::from_raw(module.body().to_raw()) };
    for op in ops(body) {
        if name(&op) == "gpu.module" {
            walk(cx, op, Hardware::Nvptx { strict })?;
        }
    }
    Ok(())
}

fn walk<'c>(cx: &PassCx<'c>, op: OperationRef<'c, 'c>, hw: Hardware) -> Result<(), Failure> {
    for r in 0..op.region_count() {
        let mut block = op.region(r).expect("in range").first_block();
        while let Some(b) = block {
            // SAFETY: handles into the module, which outlives the pass.
            let here: BlockRef<'c, 'c> = unsafe { BlockRef::from_raw(b.to_raw()) };
            for inner in ops(here) {
                walk(cx, inner, hw)?;
                rewrite(cx, inner, hw)?;
            }
            block = here.next_in_region();
        }
    }
    Ok(())
}

fn rewrite<'c>(cx: &PassCx<'c>, op: OperationRef<'c, 'c>, hw: Hardware) -> Result<(), Failure> {
    let which = name(&op);
    let b = Builder::before(cx.context, op);
    if op.result_count() != 1 || op.operand_count() == 0 {
        return Ok(());
    }
    let operands: Vec<Val<'c>> = op.operands().collect();
    let emit = Emit { b, hw, ty: op.result(0).expect("one result").r#type() };
    let new = match which {
        "vector.reduction" => math::reduction(&emit, op),
        "arith.extf" => bf16_to_f32(&emit, operands[0]),
        "arith.divf" if element_type(emit.ty) == b.ty("f32") && hw != (Hardware::Nvptx { strict: true }) => {
            Some(quotient(&emit, operands[0], operands[1]))
        }
        "arith.remf" => Some(math::remainder(&emit, operands[0], operands[1])),
        "arith.maximumf" | "arith.minimumf" if emit.double() => {
            Some(double_extremum(&emit, which, &operands))
        }
        _ if which.starts_with("math.") => Some(math::expand(&emit, which, &operands).map_err(|m| {
            Failure::new(op.location(), m).next("compute it in f32 or f64, or keep it out of GPU kernels")
        })?),
        _ => None,
    };
    if let Some(v) = new {
        cx.count("expanded", 1);
        replace(op, &[v]);
    }
    Ok(())
}

/// A quotient within 2 ulp. All elements by one number: times its reciprocal, which is rounded once.
fn quotient<'c>(e: &Emit<'c>, x: Val<'c>, y: Val<'c>) -> Val<'c> {
    if let Some(op) = definition(y)
        && name(&op) == "vector.broadcast"
        && let Ok(scalar) = op.operand(0)
        && !is_vector(scalar.r#type())
    {
        let one = e.b.float(1.0, scalar.r#type());
        let inverse = e.b.value("arith.divf", &[one, scalar], scalar.r#type(), &[]);
        let all = e.b.value("vector.broadcast", &[inverse], e.ty, &[]);
        return e.mul(x, all);
    }
    e.div(x, y)
}

/// bf16 is the upper half of f32. Written as shifts and masks of pairs, which is cheaper than a conversion per element.
fn bf16_to_f32<'c>(e: &Emit<'c>, v: Val<'c>) -> Option<Val<'c>> {
    let b = &e.b;
    if element_type(v.r#type()) != b.ty("bf16") || element_type(e.ty) != b.ty("f32") {
        return None;
    }
    let n = lanes(e.ty);
    if !is_vector(e.ty) || n % 2 != 0 {
        let raw = b.value("arith.bitcast", &[v], e.like("i16"), &[]);
        let wide = b.value("arith.extui", &[raw], e.like("i32"), &[]);
        return Some(e.of_bits(e.int("shli", wide, 16)));
    }
    let (pair, half) = (vector_of(n / 2, b.ty("i32")), vector_of(n / 2, b.ty("f32")));
    let words = b.value("vector.bitcast", &[v], pair, &[]);
    let low = b.value("arith.shli", &[words, b.int(16, pair)], pair, &[]);
    let high = b.value("arith.andi", &[words, b.int(-65536, pair)], pair, &[]);
    let low = b.value("arith.bitcast", &[low], half, &[]);
    let high = b.value("arith.bitcast", &[high], half, &[]);
    Some(b.value("vector.interleave", &[low, high], e.ty, &[]))
}

/// There is no NaN-propagating f64 instruction.
fn double_extremum<'c>(e: &Emit<'c>, which: &str, operands: &[Val<'c>]) -> Val<'c> {
    use crate::math::Cmp;
    let (x, y) = (operands[0], operands[1]);
    let maximum = which == "arith.maximumf";
    // Equal numbers may be zeros of different sign: and (or) of the bits is the larger (smaller) one.
    let zeros = e.of_bits(e.ints(if maximum { "andi" } else { "ori" }, e.bits(x), e.bits(y)));
    let first = e.cmp(if maximum { Cmp::Gt } else { Cmp::Lt }, x, y);
    let chosen = e.select(first, x, y);
    let chosen = e.select(e.cmp(Cmp::Eq, x, y), zeros, chosen);
    e.select(e.cmp(Cmp::Nan, x, y), e.add(x, y), chosen)
}
