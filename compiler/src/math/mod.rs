//! Elementary functions in `arith`, shared by the GPU and CPU back ends. `docs/math.md` states method and error of each.

mod angle;
mod emit;
mod exponential;
mod reduction;
mod remainder;
mod rounding;
mod tables;
mod trigonometric;

pub use emit::{Cmp, Emit, Hardware};
pub use reduction::reduction;
pub use remainder::remainder;

use crate::kernel::Val;
use crate::kernel::walk::bytes_of;
use strata_dialects::build::element_type;

/// Every op that [`expand`] knows for f32 and f64.
pub const FUNCTIONS: &[&str] = &[
    "math.absf",
    "math.atan2",
    "math.ceil",
    "math.cos",
    "math.erf",
    "math.exp",
    "math.exp2",
    "math.expm1",
    "math.floor",
    "math.fma",
    "math.log",
    "math.log10",
    "math.log1p",
    "math.log2",
    "math.powf",
    "math.roundeven",
    "math.rsqrt",
    "math.sin",
    "math.sqrt",
    "math.tanh",
    "math.trunc",
    "math.copysign",
];

/// The value of an op of the `math` dialect on `operands`, for results of type `e.ty`.
pub fn expand<'c>(e: &Emit<'c>, op: &str, operands: &[Val<'c>]) -> Result<Val<'c>, String> {
    let element = element_type(e.ty);
    let x = operands[0];
    match op {
        "math.absi" => return Ok(rounding::absi(e, x)),
        "math.ipowi" => return Ok(rounding::ipowi(e, x, operands[1], bytes_of(element) * 8)),
        _ if element != e.b.ty("f32") && element != e.b.ty("f64") => {
            return Err(format!("no expansion of {op} for {}", e.ty));
        }
        _ => {}
    }
    let gpu = e.hw.is_gpu();
    let rounds = gpu || e.hw == (Hardware::Cpu { fma: true });
    Ok(match op {
        "math.absf" => e.abs(x),
        "math.atan2" => angle::atan2(e, x, operands[1]),
        "math.copysign" => e.with_sign(e.abs(x), operands[1]),
        "math.cos" => trigonometric::sin_cos(e, x, 1),
        "math.erf" => exponential::erf(e, x),
        "math.exp" => exponential::exp(e, x),
        "math.exp2" => exponential::exp2(e, x),
        "math.expm1" => exponential::expm1(e, x),
        "math.fma" => e.fma(x, operands[1], operands[2]),
        "math.log" => exponential::log(e, x),
        "math.log10" => e.mul(exponential::log(e, x), e.c(std::f64::consts::LOG10_E)),
        "math.log1p" => exponential::log1p(e, x),
        "math.log2" => e.mul(exponential::log(e, x), e.c(std::f64::consts::LOG2_E)),
        "math.powf" => exponential::powf(e, x, operands[1]),
        "math.rsqrt" if gpu && !e.double() => e.intrinsic("llvm.nvvm.rsqrt.approx.f", &[x]),
        "math.rsqrt" => e.div(e.c(1.0), e.intrinsic("llvm.sqrt", &[x])),
        "math.sin" => trigonometric::sin_cos(e, x, 0),
        "math.sqrt" => e.intrinsic("llvm.sqrt", &[x]),
        "math.tanh" => exponential::tanh(e, x),
        // Processors with fused multiply-add round in one instruction, as GPUs do.
        "math.ceil" if rounds => e.intrinsic("llvm.ceil", &[x]),
        "math.floor" if rounds => e.intrinsic("llvm.floor", &[x]),
        "math.roundeven" if rounds => e.intrinsic("llvm.rint", &[x]),
        "math.trunc" if rounds => e.intrinsic("llvm.trunc", &[x]),
        "math.ceil" => rounding::ceil(e, x),
        "math.floor" => rounding::floor(e, x),
        "math.roundeven" => rounding::round_even(e, x),
        "math.trunc" => rounding::trunc(e, x),
        _ => return Err(format!("no expansion of {op}")),
    })
}
