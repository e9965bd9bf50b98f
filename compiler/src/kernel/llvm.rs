//! What is easier said in LLVM IR than through MLIR's C interface.

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
