//! Elementary functions in `arith`, shared by the GPU and CPU back ends. `docs/math.md` states method and error of each.

mod emit;
mod reduction;

pub use emit::{Cmp, Emit, Hardware};
pub use reduction::reduction;

use crate::kernel::builder::{Val, element_type};

/// The value of `math.<op>` on `operands`, for results of type `e.ty`.
pub fn expand<'c>(e: &Emit<'c>, op: &str, operands: &[Val<'c>]) -> Result<Val<'c>, String> {
    let element = element_type(e.ty);
    if element != e.b.ty("f32") && element != e.b.ty("f64") {
        return Err(format!("no expansion of {op} for {}", e.ty));
    }
    let x = operands[0];
    Ok(match op {
        "math.exp" if matches!(e.hw, Hardware::Nvptx { strict: false }) && !e.double() => {
            e.intrinsic("llvm.nvvm.ex2.approx.ftz.f", &[e.mul(x, e.c(std::f64::consts::LOG2_E))])
        }
        "math.fma" => e.fma(x, operands[1], operands[2]),
        "math.absf" => e.abs(x),
        "math.rsqrt" if matches!(e.hw, Hardware::Nvptx { .. }) && !e.double() => {
            e.intrinsic("llvm.nvvm.rsqrt.approx.f", &[x])
        }
        _ => return Err(format!("no expansion of {op}")),
    })
}
