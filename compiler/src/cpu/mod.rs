//! Loop level to position-independent x86-64 objects.

pub mod codegen;
pub mod expand_math;
mod legal;
pub mod loop_to_cpu;
mod narrow;
mod narrow_moves;
pub mod processor;

use crate::driver::pass::{Failure, PassCx};
use crate::target::Target;
use melior::Context;
use melior::ir::Module;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Compiles the CPU kernels of a loop-level module into one object: every function with `loop.kernel` and `loop.target = "cpu"`, in
/// order. The functions are lowered in place.
pub fn compile<'c>(
    context: &'c Context,
    module: &Module<'c>,
    target: &Target,
) -> Result<codegen::CompiledObject, Failure> {
    let options = BTreeMap::from([("emulate".to_owned(), "none".to_owned())]);
    let cx = PassCx {
        context,
        target: target.clone(),
        options,
        stats: RefCell::default(),
        rewrites: Default::default(),
    };
    (loop_to_cpu::PASS.run)(&cx, module)?;
    (expand_math::PASS.run)(&cx, module)?;
    codegen::compile_object(context, module, target)
}
