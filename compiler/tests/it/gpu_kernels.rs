//! Hand-written loop kernels through PTX: accepted by ptxas, in registers, with wide accesses.

use melior::Context;
use melior::ir::Module;
use std::cell::RefCell;
use std::path::Path;
use strata_compiler::driver::pass::{Failure, Pass, PassCx};
use strata_compiler::gpu::codegen::{CompiledKernel, compile_kernels};
use strata_compiler::gpu::{loop_to_gpu, math_to_nvvm, ptxas};
use strata_compiler::target::Target;

pub fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lit-tests/loop-samples").join(name);
    std::fs::read_to_string(path).expect("a sample")
}

pub fn run_pass<'c>(
    context: &'c Context,
    module: &Module<'c>,
    pass: &Pass,
    target: &str,
) -> Result<(), Failure> {
    let options = pass.options.iter().map(|o| (o.name.to_owned(), o.default.to_owned())).collect();
    let target: Target = target.parse().expect("a target");
    let cx = PassCx { context, target, options, stats: RefCell::default() };
    (pass.run)(&cx, module)?;
    use melior::ir::operation::OperationLike;
    assert!(
        module.as_operation().verify(),
        "{} leaves an invalid module:\n{}",
        pass.name,
        module.as_operation()
    );
    Ok(())
}

fn compile(source: &str, chip: &str) -> Result<Vec<CompiledKernel>, Failure> {
    let context = strata_dialects::register::context();
    let module = Module::parse(&context, source).expect("the sample parses");
    let target = format!("nvptx:{chip}");
    run_pass(&context, &module, &loop_to_gpu::PASS, &target)?;
    run_pass(&context, &module, &math_to_nvvm::PASS, &target)?;
    if std::env::var_os("STRATA_TEST_PRINT").is_some() {
        println!("{}", module.as_operation());
    }
    compile_kernels(&context, &module, chip)
}

/// Compiles a sample for both chips, and has ptxas check it.
fn check(name: &str, wide_loads: usize, wide_stores: usize) {
    for chip in ["sm_80", "sm_90a"] {
        let kernels = compile(&sample(name), chip).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(kernels.len(), 1);
        let ptx = &kernels[0].ptx;
        if let Some(folder) = std::env::var_os("STRATA_TEST_PRINT") {
            std::fs::write(Path::new(&folder).join(format!("{name}.{chip}.ptx")), ptx).expect("written");
        }
        assert_eq!(ptx.matches("ld.global.nc.v4").count(), wide_loads, "{chip}\n{ptx}");
        assert_eq!(ptx.matches("st.global.v4").count(), wide_stores, "{chip}\n{ptx}");
        assert!(!ptx.contains(".local"), "local memory: {ptx}");
        // Without the assembler (no test environment) the text alone is checked.
        if let Some(ptxas) = ptxas::find() {
            let report =
                ptxas::report(&ptxas, ptx, chip).unwrap_or_else(|e| panic!("{name} {chip}: {e}\n{ptx}"));
            assert_eq!((report.spills, report.stack), (0, 0), "{name} {chip}: {report:?}");
            println!("{name} {chip}: {report:?}");
        }
    }
}

#[test]
fn softmax_keeps_its_row_in_registers() {
    check("softmax.mlir", 2, 2);
}
