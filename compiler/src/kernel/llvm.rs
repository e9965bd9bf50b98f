//! What is easier said in LLVM IR than through MLIR's C interface.

use crate::cpu::processor::Processor;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Module;
use inkwell::values::{AsValueRef, InstructionOpcode};

/// Marks every address computation as in bounds: kernels compute no other addresses.
pub fn mark_in_bounds(module: &Module<'_>) {
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

/// Says to every function for which processor it is compiled; LLVM's optimiser asks the function, not the target machine, how wide
/// vectors may be.
pub fn set_processor(module: &Module<'_>, processor: &Processor) {
    let context = module.get_context();
    let mut all = vec![("target-cpu", processor.level.as_str()), ("target-features", &processor.features)];
    if !processor.tune.is_empty() {
        all.push(("tune-cpu", &processor.tune));
    }
    if processor.wide() {
        all.push(("prefer-vector-width", "512"));
    }
    for function in module.get_functions() {
        for (key, value) in &all {
            function.add_attribute(AttributeLoc::Function, context.create_string_attribute(key, value));
        }
    }
}
