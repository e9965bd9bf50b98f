//! Registration: one list of dialects, interfaces and passes, for development and shipping.

use melior::Context;
use melior::dialect::DialectRegistry;
use mlir_sys::*;
use std::sync::Once;

unsafe extern "C" {
    fn strataRegisterGraphDialect(registry: MlirDialectRegistry);
    fn strataRegisterLoopDialect(registry: MlirDialectRegistry);
    fn strataRegisterInterfaces(registry: MlirDialectRegistry);
}

/// Adds every dialect that the compiler uses, with the interfaces its passes need, to `registry`.
pub fn register(registry: &DialectRegistry) {
    // SAFETY: handles of dialects are static; the registry is alive.
    unsafe {
        for handle in [
            mlirGetDialectHandle__affine__(),
            mlirGetDialectHandle__arith__(),
            mlirGetDialectHandle__bufferization__(),
            mlirGetDialectHandle__cf__(),
            mlirGetDialectHandle__dlti__(),
            mlirGetDialectHandle__func__(),
            mlirGetDialectHandle__gpu__(),
            mlirGetDialectHandle__index__(),
            mlirGetDialectHandle__linalg__(),
            mlirGetDialectHandle__llvm__(),
            mlirGetDialectHandle__math__(),
            mlirGetDialectHandle__memref__(),
            mlirGetDialectHandle__nvgpu__(),
            mlirGetDialectHandle__nvvm__(),
            mlirGetDialectHandle__scf__(),
            mlirGetDialectHandle__tensor__(),
            mlirGetDialectHandle__transform__(),
            mlirGetDialectHandle__ub__(),
            mlirGetDialectHandle__vector__(),
        ] {
            mlirDialectHandleInsertDialect(handle, registry.to_raw());
        }
        strataRegisterInterfaces(registry.to_raw());
        strataRegisterGraphDialect(registry.to_raw());
        strataRegisterLoopDialect(registry.to_raw());
    }
}

/// Registers the upstream passes that pipelines may name. Once a process.
pub fn register_passes() {
    static ONCE: Once = Once::new();
    // SAFETY: registration functions without arguments, each called once.
    ONCE.call_once(|| unsafe {
        mlirRegisterTransformsPasses();
        mlirRegisterAffinePasses();
        mlirRegisterArithPasses();
        mlirRegisterBufferizationPasses();
        mlirRegisterLinalgPasses();
        mlirRegisterMathPasses();
        mlirRegisterMemRefPasses();
        mlirRegisterNVGPUPasses();
        mlirRegisterSCFPasses();
        mlirRegisterVectorPasses();
        mlirRegisterGPUGpuKernelOutliningPass();
        mlirRegisterGPUGpuEliminateBarriers();
        mlirRegisterConversionArithToLLVMConversionPass();
        mlirRegisterConversionConvertControlFlowToLLVMPass();
        mlirRegisterConversionConvertFuncToLLVMPass();
        mlirRegisterConversionConvertGpuOpsToNVVMOps();
        mlirRegisterConversionConvertIndexToLLVMPass();
        mlirRegisterConversionConvertMathToLLVMPass();
        mlirRegisterConversionConvertNVGPUToNVVMPass();
        mlirRegisterConversionConvertNVVMToLLVMPass();
        mlirRegisterConversionConvertVectorToLLVMPass();
        mlirRegisterConversionConvertVectorToSCF();
        mlirRegisterConversionFinalizeMemRefToLLVMConversionPass();
        mlirRegisterConversionLowerAffinePass();
        mlirRegisterConversionReconcileUnrealizedCastsPass();
        mlirRegisterConversionSCFToControlFlowPass();
        mlirRegisterConversionUBToLLVMConversionPass();
    });
}

/// A context with every dialect loaded and no threads of its own: the compiler is parallel over kernels, each with its context.
pub fn context() -> Context {
    register_passes();
    let registry = DialectRegistry::new();
    register(&registry);
    let context = Context::new_with_threading(false);
    context.append_dialect_registry(&registry);
    context.load_all_available_dialects();
    context
}
