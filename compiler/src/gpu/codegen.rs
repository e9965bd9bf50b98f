//! `gpu.module` → LLVM IR → PTX.

use super::legal;
use crate::driver::pass::Failure;
use crate::ir::{name, ops};
use crate::kernel::metadata::KernelMeta;
use crate::kernel::upstream;
use inkwell::OptimizationLevel;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, TargetMachine, TargetTriple};
use melior::Context;
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{Operation, OperationLike, OperationRef};
use melior::ir::{BlockLike, BlockRef, Module};
use serde::{Deserialize, Serialize};
use strata_dialects::affine::dims_of;

/// A kernel as PTX text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledKernel {
    /// How it is launched.
    pub meta: KernelMeta,
    /// The text that the driver compiles.
    pub ptx: String,
}

/// Compiles every `gpu.module` of `module` for `chip` (`sm_80`, `sm_90a`). The module itself stays as it is.
pub fn compile_kernels<'c>(
    context: &'c Context,
    module: &Module<'c>,
    chip: &str,
) -> Result<Vec<CompiledKernel>, Failure> {
    // SAFETY: the body lives as long as the module.
    let body: BlockRef<'c, '_> = unsafe { BlockRef::from_raw(module.body().to_raw()) };
    let modules = ops(body).into_iter().filter(|op| name(op) == "gpu.module");
    let kernel = |op| Ok(CompiledKernel { meta: metadata(op)?, ptx: compile(context, op, chip, ptx)? });
    modules.map(kernel).collect()
}

/// The LLVM IR that [`compile_kernels`] makes PTX of, optimised, as text: one LLVM module a kernel.
pub fn llvm_ir<'c>(context: &'c Context, module: &Module<'c>, chip: &str) -> Result<Vec<String>, Failure> {
    // SAFETY: the body lives as long as the module.
    let body: BlockRef<'c, '_> = unsafe { BlockRef::from_raw(module.body().to_raw()) };
    let modules = ops(body).into_iter().filter(|op| name(op) == "gpu.module");
    let text = |llvm: &inkwell::module::Module<'_>, _: &TargetMachine| Ok(llvm.print_to_string().to_string());
    modules.map(|op| compile(context, op, chip, text)).collect()
}

/// One kernel down to optimised LLVM IR, and what `form` makes of that.
fn compile<'c>(
    context: &'c Context,
    source: OperationRef<'c, '_>,
    chip: &str,
    form: impl Fn(&inkwell::module::Module<'_>, &TargetMachine) -> Result<String, String>,
) -> Result<String, Failure> {
    // In a module of its own, which passes and the verifier expect around it.
    let scratch = Module::new(source.location());
    // SAFETY: the copy is owned by `scratch`, which lives to the end.
    let copy = unsafe {
        scratch.body().append_operation(Operation::from_raw(mlir_sys::mlirOperationClone(source.to_raw())))
    };
    let index_bits = number(source, "loop.index_bits").unwrap_or(64);
    lower_to_llvm(context, scratch.as_operation(), index_bits)?;
    legal::check(copy)?;
    let fail = |m: String| Failure::new(source.location(), m);
    let machine = machine(chip).map_err(fail)?;
    let llvm_context = inkwell::context::Context::create();
    let llvm = optimised(&llvm_context, copy, &machine).map_err(fail)?;
    form(&llvm, &machine).map_err(fail)
}

/// Upstream conversions from `gpu`, `scf`, `arith` and `vector` to the LLVM dialect, inside the `gpu.module`s of a module.
pub fn lower_to_llvm<'c>(
    context: &'c Context,
    module: OperationRef<'c, '_>,
    index_bits: i64,
) -> Result<(), Failure> {
    let passes = format!(
        "gpu.module(canonicalize,cse,convert-scf-to-cf,convert-gpu-to-nvvm{{use-bare-ptr-memref-call-conv=1 \
         index-bitwidth={index_bits}}},convert-vector-to-llvm,convert-arith-to-llvm{{index-bitwidth={index_bits}}},\
         convert-index-to-llvm{{index-bitwidth={index_bits}}},convert-ub-to-llvm{{index-bitwidth={index_bits}}},\
         convert-nvvm-to-llvm,reconcile-unrealized-casts,canonicalize,cse)"
    );
    upstream::run(context, module, "builtin.module", &passes)
}

fn number(op: OperationRef<'_, '_>, key: &str) -> Option<i64> {
    IntegerAttribute::try_from(op.attribute(key).ok()?).ok().map(|a| a.value())
}

fn metadata(module: OperationRef<'_, '_>) -> Result<KernelMeta, Failure> {
    let missing = |what: &str| {
        Failure::new(module.location(), format!("a gpu.module without {what}"))
            .next("make it with the pass loop-to-gpu")
    };
    Ok(KernelMeta {
        name: crate::ir::symbol_name(&module),
        grid: module.attribute("loop.grid").ok().and_then(dims_of).ok_or_else(|| missing("loop.grid"))?,
        block: number(module, "loop.block").ok_or_else(|| missing("loop.block"))? as u32,
        shared_bytes: number(module, "loop.shared_bytes").unwrap_or(0) as u32,
    })
}

fn machine(chip: &str) -> Result<TargetMachine, String> {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| inkwell::targets::Target::initialize_nvptx(&InitializationConfig::default()));
    let triple = TargetTriple::create("nvptx64-nvidia-cuda");
    inkwell::targets::Target::from_triple(&triple)
        .map_err(|e| e.to_string())?
        .create_target_machine(
            &triple,
            chip,
            "+ptx83",
            OptimizationLevel::Aggressive,
            RelocMode::Default,
            CodeModel::Default,
        )
        .ok_or_else(|| format!("LLVM has no target machine for {chip}"))
}

fn optimised<'l>(
    context: &'l inkwell::context::Context,
    module: OperationRef<'_, '_>,
    machine: &TargetMachine,
) -> Result<inkwell::module::Module<'l>, String> {
    // SAFETY: a module in the LLVM dialect; the result is owned by the new LLVM module, null is checked.
    let llvm = unsafe {
        let raw = mlir_sys::mlirTranslateModuleToLLVMIR(module.to_raw(), context.raw() as _);
        if raw.is_null() {
            return Err("translation to LLVM IR failed".into());
        }
        inkwell::module::Module::new(raw as _)
    };
    llvm.set_triple(&machine.get_triple());
    llvm.set_data_layout(&machine.get_target_data().get_data_layout());
    crate::kernel::llvm::mark_in_bounds(&llvm);
    llvm.verify().map_err(|e| format!("invalid LLVM IR: {e}"))?;
    let options = PassBuilderOptions::create();
    llvm.run_passes("default<O3>", machine, options).map_err(|e| format!("LLVM passes failed: {e}"))?;
    Ok(llvm)
}

fn ptx(llvm: &inkwell::module::Module<'_>, machine: &TargetMachine) -> Result<String, String> {
    let text = machine
        .write_to_memory_buffer(llvm, FileType::Assembly)
        .map_err(|e| format!("LLVM could not write PTX: {e}"))?;
    let bytes = text.as_slice();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    Ok(String::from_utf8_lossy(bytes).into_owned())
}
