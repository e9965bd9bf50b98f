//! Passes on text, and CPU kernels called in this process.

use melior::Context;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use std::cell::RefCell;
use std::path::Path;
use strata_compiler::cpu::codegen::{CompiledObject, compile_object};
use strata_compiler::cpu::{expand_math, loop_to_cpu};
use strata_compiler::driver::pass::{Failure, Pass, PassCx};
use strata_compiler::target::Target;
use strata_runtime::device::cpu::elf::LoadedObject;
use strata_runtime::device::cpu::{KernelFn, NO_CHECK_FAILED};

/// A hand-written loop kernel.
pub fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lit-tests/loop-samples").join(name);
    std::fs::read_to_string(path).expect("a sample")
}

/// Runs a pass with its default options and verifies the module.
pub fn run_pass<'c>(
    context: &'c Context,
    module: &Module<'c>,
    pass: &Pass,
    target: &str,
) -> Result<(), Failure> {
    run_pass_with(context, module, pass, target, &[])
}

/// Runs a pass with options and verifies the module.
pub fn run_pass_with<'c>(
    context: &'c Context,
    module: &Module<'c>,
    pass: &Pass,
    target: &str,
    set: &[(&str, &str)],
) -> Result<(), Failure> {
    let mut options: std::collections::BTreeMap<String, String> =
        pass.options.iter().map(|o| (o.name.to_owned(), o.default.to_owned())).collect();
    options.extend(set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    let target: Target = target.parse().expect("a target");
    let cx = PassCx { context, target, options, stats: RefCell::default(), rewrites: Default::default() };
    (pass.run)(&cx, module)?;
    assert!(
        module.as_operation().verify(),
        "{} leaves an invalid module:\n{}",
        pass.name,
        module.as_operation()
    );
    Ok(())
}

/// Compiles loop-level text for a CPU target.
pub fn compile_cpu(source: &str, target: &str) -> Result<CompiledObject, Failure> {
    compile_cpu_with(source, target, "none")
}

/// The same with the formulas of another target.
pub fn compile_cpu_with(source: &str, target: &str, emulate: &str) -> Result<CompiledObject, Failure> {
    let context = strata_dialects::register::context();
    let module = Module::parse(&context, source).expect("the kernel parses");
    run_pass(&context, &module, &loop_to_cpu::PASS, target)?;
    run_pass_with(&context, &module, &expand_math::PASS, target, &[("emulate", emulate)])?;
    compile_object(&context, &module, &target.parse().expect("a target"))
}

/// A compiled and loaded kernel.
pub struct Kernel {
    object: LoadedObject,
    name: String,
}

impl Kernel {
    /// Compiles and loads the first kernel of `source`.
    pub fn new(source: &str, target: &str) -> Self {
        Self::with(source, target, "none")
    }

    /// The same with the formulas of another target.
    pub fn with(source: &str, target: &str, emulate: &str) -> Self {
        let compiled = compile_cpu_with(source, target, emulate).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let name = compiled.kernels[0].name.clone();
        Self { object: LoadedObject::load(&compiled.object).expect("the object loads"), name }
    }

    /// Calls tasks `begin..end`, in which no check may fail.
    pub fn call(&self, buffers: &[*mut u8], symbols: &[i64], begin: i64, end: i64) {
        let failed = self.status(buffers, symbols, begin, end);
        assert_eq!(failed, NO_CHECK_FAILED, "a check failed");
    }

    /// Calls tasks `begin..end`, and gives the number of the first check that failed.
    pub fn status(&self, buffers: &[*mut u8], symbols: &[i64], begin: i64, end: i64) -> u64 {
        let address = self.object.function(&self.name).expect("the kernel is there");
        // SAFETY: the object was compiled with this ABI; the tests pass buffers of the sizes that the kernel's types say.
        unsafe {
            let entry: KernelFn = std::mem::transmute(address);
            let mut status = NO_CHECK_FAILED;
            entry(buffers.as_ptr(), symbols.as_ptr(), begin, end, &mut status);
            status
        }
    }
}
