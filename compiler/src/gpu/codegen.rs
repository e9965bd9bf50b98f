//! `gpu.module` → LLVM IR → PTX.

use super::legal;
use crate::driver::pass::Failure;
use crate::ir::{name, ops};
use crate::kernel::llvm::{self, Machine, Output};
use crate::kernel::metadata::KernelMeta;
use crate::kernel::upstream;
use inkwell::targets::{CodeModel, RelocMode};
use melior::Context;
use melior::ir::attribute::IntegerAttribute;
use melior::ir::operation::{OperationLike, OperationRef};
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
    let kernel =
        |op| Ok(CompiledKernel { meta: metadata(op)?, ptx: compile(context, op, chip, Output::Assembly)? });
    modules.map(kernel).collect()
}

/// The LLVM IR that [`compile_kernels`] makes PTX of, optimised, as text: one LLVM module a kernel.
pub fn llvm_ir<'c>(context: &'c Context, module: &Module<'c>, chip: &str) -> Result<Vec<String>, Failure> {
    // SAFETY: the body lives as long as the module.
    let body: BlockRef<'c, '_> = unsafe { BlockRef::from_raw(module.body().to_raw()) };
    let modules = ops(body).into_iter().filter(|op| name(op) == "gpu.module");
    modules.map(|op| compile(context, op, chip, Output::Ir)).collect()
}

/// One kernel as text: PTX or LLVM IR.
fn compile<'c>(
    context: &'c Context,
    source: OperationRef<'c, '_>,
    chip: &str,
    output: Output,
) -> Result<String, Failure> {
    // In a module of its own, which passes and the verifier expect around it.
    let scratch = Module::new(source.location());
    let copy = llvm::copy_into(&scratch, source);
    let index_bits = number(source, "loop.index_bits").unwrap_or(64);
    lower_to_llvm(context, scratch.as_operation(), index_bits)?;
    legal::check(copy)?;
    let text = llvm::compile(copy, &machine(chip, output)).map_err(|m| Failure::new(source.location(), m))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
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
        // They end in assertions, which say themselves what failed.
        checks: vec![],
    })
}

fn machine(chip: &str, output: Output) -> Machine<'_> {
    Machine {
        triple: "nvptx64-nvidia-cuda",
        cpu: chip,
        features: "+ptx83",
        reloc: RelocMode::Default,
        code_model: CodeModel::Default,
        attributes: Vec::new(),
        slp: false,
        output,
    }
}
