//! What is easier said in LLVM IR than through MLIR's C interface.

use inkwell::attributes::AttributeLoc;
use inkwell::module::Module;
use inkwell::targets::TargetMachine;
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

/// Says to every function for which processor it is compiled; LLVM's optimiser asks the
/// function, not the target machine, how wide vectors may be.
pub fn set_processor(module: &Module<'_>, machine: &TargetMachine) {
    let context = module.get_context();
    let cpu = machine.get_cpu().to_string();
    let features = machine.get_feature_string().to_string_lossy().into_owned();
    for function in module.get_functions() {
        for (key, value) in
            [("target-cpu", cpu.as_str()), ("target-features", &features), ("prefer-vector-width", "512")]
        {
            if key != "prefer-vector-width" || features.contains("avx512") || cpu == "x86-64-v4" {
                function.add_attribute(AttributeLoc::Function, context.create_string_attribute(key, value));
            }
        }
    }
}
