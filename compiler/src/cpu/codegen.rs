//! `llvm.func`s → LLVM IR → position-independent x86-64 object.

use super::legal;
use super::processor::Processor;
use crate::driver::pass::Failure;
use crate::ir::{name, ops, symbol_name};
use crate::kernel::check;
use crate::kernel::llvm::{self, Machine, Output};
use crate::kernel::metadata::KernelMeta;
use crate::kernel::upstream;
use crate::target::Target;
use inkwell::targets::{CodeModel, RelocMode};
use melior::Context;
use melior::ir::operation::{OperationLike, OperationRef};
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
    let fail = |m: String| Failure::new(module.as_operation().location(), m);
    let (scratch, kernels) = lowered(context, module)?;
    let processor = Processor::of(target).map_err(fail)?;
    let object = emit(&scratch, &processor, Output::Object).map_err(fail)?;
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
    let text = emit(&scratch, &Processor::of(target).map_err(fail)?, Output::Ir).map_err(fail)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn emit(module: &Module<'_>, processor: &Processor, output: Output) -> Result<Vec<u8>, String> {
    // SAFETY: borrowed while the module lives.
    let whole = unsafe { OperationRef::from_raw(module.as_operation().to_raw()) };
    llvm::compile(whole, &machine(processor, output))
}

/// The `llvm.func`s of a module in a module of their own, in the LLVM dialect throughout.
fn lowered<'c>(context: &'c Context, module: &Module<'c>) -> Result<(Module<'c>, Vec<KernelMeta>), Failure> {
    let scratch = Module::new(module.as_operation().location());
    let mut kernels = Vec::new();
    // SAFETY: the body lives as long as the module; copies are owned by `scratch`.
    let body: BlockRef<'c, '_> = unsafe { BlockRef::from_raw(module.body().to_raw()) };
    for op in ops(body).into_iter().filter(|op| name(op) == "llvm.func") {
        if let Some(grid) = op.attribute("loop.grid").ok().and_then(dims_of) {
            let (name, checks) = (symbol_name(&op), check::of(op));
            kernels.push(KernelMeta { name, grid, block: 1, shared_bytes: 0, checks });
        }
        let copy = llvm::copy_into(&scratch, op);
        for own in ["loop.grid", check::CHECKS] {
            // SAFETY: a live op; the attributes are the compiler's own.
            unsafe {
                mlir_sys::mlirOperationRemoveAttributeByName(
                    copy.to_raw(),
                    melior::StringRef::new(own).to_raw(),
                );
            }
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

fn machine(processor: &Processor, output: Output) -> Machine<'_> {
    let mut attributes =
        vec![("target-cpu", processor.level.as_str()), ("target-features", processor.features.as_str())];
    if !processor.tune.is_empty() {
        attributes.push(("tune-cpu", &processor.tune));
    }
    if processor.wide() {
        attributes.push(("prefer-vector-width", "512"));
    }
    Machine {
        triple: "x86_64-unknown-linux-gnu",
        cpu: &processor.level,
        features: &processor.features,
        reloc: RelocMode::PIC,
        code_model: CodeModel::Small,
        attributes,
        slp: true,
        output,
    }
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
