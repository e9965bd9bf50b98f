//! From the LLVM dialect to assembly or an object: one way for every back end, with what differs as data.

use inkwell::OptimizationLevel;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple,
};
use inkwell::values::{AsValueRef, InstructionOpcode};
use melior::ir::BlockLike;
use melior::ir::operation::{Operation, OperationRef};

/// What LLVM makes code for, and in which form.
pub struct Machine<'a> {
    /// The target triple.
    pub triple: &'static str,
    /// LLVM's name of the processor.
    pub cpu: &'a str,
    /// Features beyond it, as LLVM writes them: `+avx2,+fma`.
    pub features: &'a str,
    /// How code refers to symbols.
    pub reloc: RelocMode,
    /// How far apart code and data may lie.
    pub code_model: CodeModel,
    /// Attributes of every function: LLVM's optimiser asks the function, not the target machine, how wide vectors may be.
    pub attributes: Vec<(&'static str, &'a str)>,
    /// Whether LLVM makes vectors of straight-line scalar code.
    pub slp: bool,
    /// What comes out.
    pub output: Output,
}

/// What [`compile`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// LLVM IR after LLVM's pipeline, as text.
    Ir,
    /// Assembly as text: PTX for a GPU.
    Assembly,
    /// A relocatable object.
    Object,
}

/// Puts a copy of `op` at the end of `module`.
pub fn copy_into<'c, 'a>(
    module: &'a melior::ir::Module<'c>,
    op: OperationRef<'c, '_>,
) -> OperationRef<'c, 'a> {
    // SAFETY: a live op; the module owns the copy from here on.
    unsafe { module.body().append_operation(Operation::from_raw(mlir_sys::mlirOperationClone(op.to_raw()))) }
}

/// Compiles a module in the LLVM dialect: translation, LLVM's pipeline, machine code.
pub fn compile(module: OperationRef<'_, '_>, machine: &Machine<'_>) -> Result<Vec<u8>, String> {
    let target = target_machine(machine)?;
    let context = inkwell::context::Context::create();
    // SAFETY: a module in the LLVM dialect; the result is owned by the new LLVM module, null is checked.
    let llvm = unsafe {
        let raw = mlir_sys::mlirTranslateModuleToLLVMIR(module.to_raw(), context.raw() as _);
        if raw.is_null() {
            return Err("translation to LLVM IR failed".into());
        }
        Module::new(raw as _)
    };
    llvm.set_triple(&target.get_triple());
    llvm.set_data_layout(&target.get_target_data().get_data_layout());
    mark_in_bounds(&llvm);
    for function in llvm.get_functions() {
        for (key, value) in &machine.attributes {
            let attribute = llvm.get_context().create_string_attribute(key, value);
            function.add_attribute(AttributeLoc::Function, attribute);
        }
    }
    llvm.verify().map_err(|e| format!("invalid LLVM IR: {e}"))?;
    let options = PassBuilderOptions::create();
    options.set_loop_slp_vectorization(machine.slp);
    llvm.run_passes("default<O3>", &target, options).map_err(|e| format!("LLVM passes failed: {e}"))?;
    let file = match machine.output {
        Output::Ir => return Ok(llvm.print_to_string().to_bytes().to_vec()),
        Output::Assembly => FileType::Assembly,
        Output::Object => FileType::Object,
    };
    let buffer = target
        .write_to_memory_buffer(&llvm, file)
        .map_err(|e| format!("LLVM could not write code for {}: {e}", machine.triple))?;
    let bytes = buffer.as_slice();
    Ok(if file == FileType::Assembly { bytes.strip_suffix(&[0]).unwrap_or(bytes) } else { bytes }.to_vec())
}

fn target_machine(machine: &Machine<'_>) -> Result<TargetMachine, String> {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        Target::initialize_x86(&InitializationConfig::default());
        Target::initialize_nvptx(&InitializationConfig::default());
    });
    let Machine { cpu, features, reloc, code_model, .. } = *machine;
    let triple = TargetTriple::create(machine.triple);
    Target::from_triple(&triple)
        .map_err(|e| e.to_string())?
        .create_target_machine(&triple, cpu, features, OptimizationLevel::Aggressive, reloc, code_model)
        .ok_or_else(|| format!("LLVM has no target machine for {cpu}"))
}

/// Marks every address computation as in bounds, which MLIR's C interface cannot say: kernels compute no other addresses.
fn mark_in_bounds(module: &Module<'_>) {
    for function in module.get_functions() {
        for block in function.get_basic_blocks() {
            for instruction in block.get_instructions() {
                if instruction.get_opcode() == InstructionOpcode::GetElementPtr {
                    // SAFETY: a live instruction of that opcode.
                    unsafe { llvm_sys::core::LLVMSetIsInBounds(instruction.as_value_ref(), 1) };
                }
            }
        }
    }
}
