//! What LLVM's NVPTX back end is known to select. Anything else would end the process, so it is a diagnostic here.

use super::assertions::ASSERTFAIL;
use crate::driver::pass::Failure;
use crate::ir::{name, ops};
use melior::ir::attribute::{FlatSymbolRefAttribute, StringAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::{BlockLike, RegionLike, TypeLike, ValueLike};
use strata_dialects::build::element_type;

/// Intrinsics that select for every float type in use (f16, bf16, f32, f64).
const FLOAT: &[&str] = &[
    "fabs",
    "fma",
    "fmuladd",
    "copysign",
    "maxnum",
    "minnum",
    "ceil",
    "floor",
    "trunc",
    "rint",
    "nearbyint",
    "roundeven",
];
/// Intrinsics that select for f32 and f64.
const WIDE_FLOAT: &[&str] = &["sqrt"];
/// Intrinsics that select where the hardware has them: not for f64.
const NARROW_FLOAT: &[&str] = &["maximum", "minimum"];
/// Integer intrinsics, and intrinsics without a value.
const OTHER: &[&str] = &[
    "smax",
    "smin",
    "umax",
    "umin",
    "abs",
    "ctpop",
    "ctlz",
    "cttz",
    "bitreverse",
    "bswap",
    "fshl",
    "fshr",
    "assume",
    "lifetime.start",
    "lifetime.end",
    "vector.reduce.add",
    "vector.reduce.mul",
    "vector.reduce.and",
    "vector.reduce.or",
    "vector.reduce.xor",
    "vector.reduce.smax",
    "vector.reduce.smin",
    "vector.reduce.umax",
    "vector.reduce.umin",
    "vector.reduce.fadd",
    "vector.reduce.fmul",
    "vector.reduce.fmax",
    "vector.reduce.fmin",
    "vector.interleave2",
    "vector.deinterleave2",
];

/// Checks every op of a lowered `gpu.module`.
pub fn check(op: OperationRef<'_, '_>) -> Result<(), Failure> {
    for r in 0..op.region_count() {
        let mut block = op.region(r).expect("in range").first_block();
        while let Some(b) = block {
            for inner in ops(b) {
                if !selects(inner) {
                    let types: Vec<String> = inner.operands().map(|v| v.r#type().to_string()).collect();
                    let what = call_name(inner).unwrap_or_else(|| name(&inner).to_owned());
                    return Err(Failure::new(
                        inner.location(),
                        format!("no GPU code for {what} ({})", types.join(", ")),
                    )
                    .next("run math-to-nvvm before code generation, or keep this op out of GPU kernels"));
                }
                check(inner)?;
            }
            block = b.next_in_region();
        }
    }
    Ok(())
}

fn call_name(op: OperationRef<'_, '_>) -> Option<String> {
    let callee = op.attribute("intrin").ok()?;
    StringAttribute::try_from(callee).ok().map(|s| s.value().to_owned())
}

/// The function that a call names.
fn callee(op: OperationRef<'_, '_>) -> Option<String> {
    FlatSymbolRefAttribute::try_from(op.attribute("callee").ok()?).ok().map(|s| s.value().to_owned())
}

fn selects(op: OperationRef<'_, '_>) -> bool {
    let full = name(&op);
    if full.starts_with("nvvm.") {
        return true;
    }
    let Some(rest) = full.strip_prefix("llvm.") else { return false };
    match rest {
        "call" if callee(op).as_deref() == Some(ASSERTFAIL) => true,
        "call" | "invoke" | "call_intrinsic" => call_name(op).is_some_and(|n| {
            n.starts_with("llvm.nvvm.")
                || ["llvm.sqrt", "llvm.ceil", "llvm.floor", "llvm.rint", "llvm.trunc"].contains(&n.as_str())
        }),
        _ => match rest.strip_prefix("intr.") {
            None => true,
            Some(i) => {
                let element = op.operands().next().map(|v| element_type(v.r#type()));
                let text = element.map(|t| t.to_string()).unwrap_or_default();
                OTHER.contains(&i)
                    || (element.is_some_and(|t| t.is_float() || text == "bf16")
                        && (FLOAT.contains(&i)
                            || (WIDE_FLOAT.contains(&i) && (text == "f32" || text == "f64"))
                            || (NARROW_FLOAT.contains(&i) && text != "f64")))
            }
        },
    }
}
