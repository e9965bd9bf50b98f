//! `llvm.func`s → LLVM IR → position-independent x86-64 object.

use super::legal;
use super::processor::Processor;
use crate::driver::pass::Failure;
use crate::ir::{name, ops, symbol_name};
use crate::kernel::metadata::KernelMeta;
use crate::kernel::upstream;
use crate::target::Target;
use inkwell::OptimizationLevel;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, TargetMachine, TargetTriple};
use melior::Context;
use melior::ir::operation::{Operation, OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, Module};
use object::{Object, ObjectSymbol};
use serde::{Deserialize, Serialize};
use strata_dialects::affine::dims_of;

/// The kernels of a module as one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledObject {
    /// The ELF relocatable object.
    pub object: Vec<u8>,
    /// Its kernels, in the module's order.
    pub kernels: Vec<KernelMeta>,
    /// What it needs of the processor, for the image in the artifact.
    pub target: String,
}

/// What an object may call; the loader resolves these.
const EXTERNALS: [&str; 3] = ["memcpy", "memmove", "memset"];

/// Compiles the `llvm.func`s of `module` for a CPU. The module itself stays as it is.
pub fn compile_object<'c>(
    context: &'c Context,
    module: &Module<'c>,
    target: &Target,
) -> Result<CompiledObject, Failure> {
    let location = module.as_operation().location();
    let (scratch, kernels) = lowered(context, module)?;
    let fail = |m: String| Failure::new(location, m);
    let processor = Processor::of(target).map_err(fail)?;
    let machine = machine(&processor).map_err(fail)?;
    let llvm_context = inkwell::context::Context::create();
    let llvm = optimised(&llvm_context, &scratch, &machine, &processor).map_err(fail)?;
    let object = machine
        .write_to_memory_buffer(&llvm, FileType::Object)
        .map_err(|e| fail(format!("LLVM could not write the object: {e}")))?
        .as_slice()
        .to_vec();
    let foreign = undefined(&object).map_err(fail)?;
    if !foreign.is_empty() {
        return Err(fail(format!("the object would call {}", foreign.join(", ")))
            .next("an op of the kernel has no code of its own for this processor; choose --target=cpu:x86-64-v3 or compute in f32"));
    }
    Ok(CompiledObject { object, kernels, target: processor.image_target() })
}

/// The LLVM IR that [`compile_object`] selects instructions for, optimised, as text.
pub fn llvm_ir<'c>(context: &'c Context, module: &Module<'c>, target: &Target) -> Result<String, Failure> {
    let fail = |m: String| Failure::new(module.as_operation().location(), m);
    let (scratch, _) = lowered(context, module)?;
    let processor = Processor::of(target).map_err(fail)?;
    let machine = machine(&processor).map_err(fail)?;
    let llvm_context = inkwell::context::Context::create();
    let llvm = optimised(&llvm_context, &scratch, &machine, &processor).map_err(fail)?;
    Ok(llvm.print_to_string().to_string())
}

/// The `llvm.func`s of a module in a module of their own, in the LLVM dialect throughout.
fn lowered<'c>(context: &'c Context, module: &Module<'c>) -> Result<(Module<'c>, Vec<KernelMeta>), Failure> {
    let scratch = Module::new(module.as_operation().location());
    let mut kernels = Vec::new();
    // SAFETY: the body lives as long as the module; copies are owned by `scratch`.
    let body: BlockRef<'c, '_> = unsafe { BlockRef::from_raw(module.body().to_raw()) };
    for op in ops(body).into_iter().filter(|op| name(op) == "llvm.func") {
        if let Some(grid) = op.attribute("loop.grid").ok().and_then(dims_of) {
            kernels.push(KernelMeta { name: symbol_name(&op), grid, block: 1, shared_bytes: 0 });
        }
        // SAFETY: see above.
        let copy = unsafe {
            scratch.body().append_operation(Operation::from_raw(mlir_sys::mlirOperationClone(op.to_raw())))
        };
        // SAFETY: a live op; the attribute is the compiler's own.
        unsafe {
            mlir_sys::mlirOperationRemoveAttributeByName(
                copy.to_raw(),
                melior::StringRef::new("loop.grid").to_raw(),
            );
        }
    }
    // SAFETY: borrowed while `scratch` lives.
    let whole = unsafe { OperationRef::from_raw(scratch.as_operation().to_raw()) };
    upstream::run(context, whole, "builtin.module", LOWER)?;
    legal::check(whole)?;
    Ok((scratch, kernels))
}

/// Upstream conversions to the LLVM dialect.
pub const LOWER: &str = "canonicalize,cse,convert-scf-to-cf,convert-vector-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,\
                         convert-ub-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts,canonicalize,cse";

fn machine(processor: &Processor) -> Result<TargetMachine, String> {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| inkwell::targets::Target::initialize_x86(&InitializationConfig::default()));
    let triple = TargetTriple::create("x86_64-unknown-linux-gnu");
    inkwell::targets::Target::from_triple(&triple)
        .map_err(|e| e.to_string())?
        .create_target_machine(
            &triple,
            &processor.level,
            &processor.features,
            OptimizationLevel::Aggressive,
            RelocMode::PIC,
            CodeModel::Small,
        )
        .ok_or_else(|| format!("LLVM has no target machine for {}", processor.level))
}

fn optimised<'l>(
    context: &'l inkwell::context::Context,
    module: &Module<'_>,
    machine: &TargetMachine,
    processor: &Processor,
) -> Result<inkwell::module::Module<'l>, String> {
    // SAFETY: a module in the LLVM dialect; the result is owned by the new LLVM module, null is checked.
    let llvm = unsafe {
        let raw = mlir_sys::mlirTranslateModuleToLLVMIR(module.as_operation().to_raw(), context.raw() as _);
        if raw.is_null() {
            return Err("translation to LLVM IR failed".into());
        }
        inkwell::module::Module::new(raw as _)
    };
    llvm.set_triple(&machine.get_triple());
    llvm.set_data_layout(&machine.get_target_data().get_data_layout());
    crate::kernel::llvm::mark_in_bounds(&llvm);
    crate::kernel::llvm::set_processor(&llvm, processor);
    llvm.verify().map_err(|e| format!("invalid LLVM IR: {e}"))?;
    let options = PassBuilderOptions::create();
    options.set_loop_vectorization(true);
    options.set_loop_slp_vectorization(true);
    options.set_loop_unrolling(true);
    llvm.run_passes("default<O3>", machine, options).map_err(|e| format!("LLVM passes failed: {e}"))?;
    Ok(llvm)
}

/// Symbols that the object needs beyond what the loader has.
fn undefined(object: &[u8]) -> Result<Vec<String>, String> {
    let file =
        object::File::parse(object).map_err(|e| format!("LLVM wrote an object that does not parse: {e}"))?;
    let mut names: Vec<String> = file
        .symbols()
        .filter(ObjectSymbol::is_undefined)
        .filter_map(|s| s.name().ok().map(str::to_owned))
        .filter(|n| !n.is_empty() && n != "_GLOBAL_OFFSET_TABLE_" && !EXTERNALS.contains(&n.as_str()))
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}
