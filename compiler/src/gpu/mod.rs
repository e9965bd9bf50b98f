//! Loop level to PTX.

mod arrive;
mod assertions;
mod barriers;
pub mod codegen;
mod grid;
mod legal;
pub mod loop_to_gpu;
pub mod math_to_nvvm;
pub mod ptxas;
mod reduce;
mod shared;

use crate::driver::pass::{Failure, PassCx};
use crate::target::Target;
use melior::Context;
use melior::ir::Module;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Compiles the GPU kernels of a loop-level module: every function with `loop.kernel` and `loop.target = "gpu"`, in order. The
/// functions are lowered in place; `numerics` is `default` or `strict`.
pub fn compile<'c>(
    context: &'c Context,
    module: &Module<'c>,
    chip: &str,
    numerics: &str,
) -> Result<Vec<codegen::CompiledKernel>, Failure> {
    let cx = |options| PassCx {
        context,
        target: Target::Nvptx { chip: chip.to_owned() },
        options,
        stats: RefCell::default(),
        rewrites: Default::default(),
    };
    (loop_to_gpu::PASS.run)(&cx(BTreeMap::new()), module)?;
    (math_to_nvvm::PASS.run)(&cx(BTreeMap::from([("numerics".to_owned(), numerics.to_owned())])), module)?;
    codegen::compile_kernels(context, module, chip)
}
