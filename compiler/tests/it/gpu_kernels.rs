//! Loop kernels through PTX: accepted by ptxas, in registers, with wide accesses.

use crate::support::{run_pass, run_pass_with, sample};
use melior::ir::Module;
use std::path::Path;
use strata_compiler::driver::pass::Failure;
use strata_compiler::gpu::codegen::{CompiledKernel, compile_kernels};
use strata_compiler::gpu::{loop_to_gpu, math_to_nvvm, ptxas};

fn compile(source: &str, chip: &str) -> Result<Vec<CompiledKernel>, Failure> {
    compile_with(source, chip, "default")
}

fn compile_with(source: &str, chip: &str, numerics: &str) -> Result<Vec<CompiledKernel>, Failure> {
    let context = strata_dialects::register::context();
    let module = Module::parse(&context, source).expect("the kernel parses");
    let target = format!("nvptx:{chip}");
    run_pass(&context, &module, &loop_to_gpu::PASS, &target)?;
    run_pass_with(&context, &module, &math_to_nvvm::PASS, &target, &[("numerics", numerics)])?;
    compile_kernels(&context, &module, chip)
}

/// Compiles a kernel for both chips, and has ptxas check it.
fn check(name: &str, source: &str, wide_loads: usize, wide_stores: usize) {
    for chip in ["sm_80", "sm_90a"] {
        let kernels = compile(source, chip).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(kernels.len(), 1);
        let ptx = &kernels[0].ptx;
        if let Some(folder) = std::env::var_os("STRATA_TEST_PRINT") {
            std::fs::write(Path::new(&folder).join(format!("{name}.{chip}.ptx")), ptx).expect("written");
        }
        assert!(!ptx.contains(".local"), "local memory: {ptx}");
        // Without the assembler (no test environment) the text alone is checked.
        if let Some(ptxas) = ptxas::find() {
            let report =
                ptxas::report(&ptxas, ptx, chip).unwrap_or_else(|e| panic!("{name} {chip}: {e}\n{ptx}"));
            println!("{name} {chip}: {report:?}");
            assert_eq!((report.spills, report.stack), (0, 0), "{name} {chip}: {report:?}");
        }
        assert_eq!(ptx.matches("ld.global.nc.v4").count(), wide_loads, "{name} {chip}\n{ptx}");
        assert_eq!(ptx.matches("st.global.v4").count(), wide_stores, "{name} {chip}\n{ptx}");
    }
}

/// What the emitter writes for this schedule, from its snapshots.
fn emitted(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/loops/tests/snapshots");
    let text = std::fs::read_to_string(folder.join(format!("strata_compiler__loops__tests__{name}.snap")))
        .expect("a snapshot");
    text[text.find("module {").expect("a module")..].to_owned()
}

#[test]
fn softmax_keeps_its_row_in_registers() {
    check("softmax", &sample("softmax.mlir"), 2, 2);
}

#[test]
fn layernorm_reads_rows_and_parameters_in_wide_loads() {
    check("layernorm", &sample("layernorm.mlir"), 2 + 8, 2);
}

#[test]
fn pointwise_kernels_are_one_vector_a_thread() {
    check("pointwise", &sample("pointwise.mlir"), 3, 1);
}

#[test]
fn column_sums_use_shared_memory() {
    // LLVM unrolls the loop over rows twice.
    check("column_sum", &sample("column_sum.mlir"), 2, 0);
}

#[test]
fn emitted_kernels_compile() {
    check("emitted_softmax", &emitted("softmax_gpu"), 4, 4);
    check("emitted_layernorm", &emitted("layernorm_gpu"), 12, 4);
    check("emitted_gelu", &emitted("bias_gelu_residual_gpu"), 6, 2);
    check("emitted_sum", &emitted("sum_rows_gpu"), 4, 0);
}

/// A pointwise f32 or f64 kernel of one op.
fn one_op(ty: &str, op: &str) -> String {
    format!(
        "func.func @f(%x: memref<?x{ty}> {{loop.dims = #graph.dims<s0>}}, %y: memref<?x{ty}> {{loop.dims = #graph.dims<s0>, loop.out}}, %n: index)
            attributes {{loop.kernel, loop.target = \"gpu\", loop.block = 128 : i64, loop.grid = #graph.dims<(s0 + 127) floordiv 128>}} {{
          %c1 = arith.constant 1 : index
          %blocks = affine.apply affine_map<()[s0] -> (s0 ceildiv 128)>()[%n]
          scf.forall (%b) in (%blocks) {{
            scf.forall (%t) in (128) {{
              %i = affine.apply affine_map<(d0, d1) -> (d0 * 128 + d1)>(%b, %t)
              %in = arith.cmpi slt, %i, %n : index
              scf.if %in {{
                %a = memref.load %x[%i] : memref<?x{ty}>
                %r = {op} : {ty}
                memref.store %r, %y[%i] : memref<?x{ty}>
              }}
            }} {{mapping = [#gpu.thread<linear_dim_0>]}}
          }} {{mapping = [#gpu.block<x>]}}
          return
        }}"
    )
}

/// Every function in both float types and numerics: LLVM selects it, ptxas accepts it.
#[test]
fn every_function_has_gpu_code() {
    for ty in ["f32", "f64"] {
        for function in strata_compiler::math::FUNCTIONS {
            let op = match *function {
                "math.atan2" | "math.powf" | "math.copysign" => format!("{function} %a, %a"),
                "math.fma" => format!("{function} %a, %a, %a"),
                _ => format!("{function} %a"),
            };
            accepted(&one_op(ty, &op));
        }
        for op in ["arith.remf", "arith.divf", "arith.maximumf", "arith.minimumf"] {
            accepted(&one_op(ty, &format!("{op} %a, %a")));
        }
    }
    for ty in ["i8", "i16", "i32", "i64"] {
        accepted(&one_op(ty, "math.ipowi %a, %a"));
        accepted(&one_op(ty, "math.absi %a"));
        accepted(&one_op(ty, "arith.divsi %a, %a"));
    }
}

fn accepted(source: &str) {
    for (chip, numerics) in [("sm_80", "default"), ("sm_90a", "strict")] {
        let kernels = compile_with(source, chip, numerics).unwrap_or_else(|e| panic!("{e}\n{source}"));
        if let Some(ptxas) = ptxas::find() {
            ptxas::report(&ptxas, &kernels[0].ptx, chip)
                .unwrap_or_else(|e| panic!("{e}\n{source}\n{}", kernels[0].ptx));
        }
    }
}

#[test]
fn what_does_not_fit_is_a_diagnostic() {
    let text = sample("softmax.mlir");
    for (from, to, message) in [
        ("loop.block = 256", "loop.block = 128", "private array whose first dimension"),
        ("loop.block = 256", "loop.block = 250", "loop.block is 250"),
        ("{loop.out}", "", "only reads"),
        ("loop.grid = #graph.dims<16384>", "loop.grid = #graph.dims<16384, 2>", "loop.grid has 2 entries"),
        (
            "%v[%t, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>\n        %p",
            "%v[%c0, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>\n        %p",
            "not the thread",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let error = compile(&text.replace(from, to), "sm_90a").expect_err(message).to_string();
        assert!(error.contains(message), "{error}");
    }
    let error = compile(&one_op("f16", "math.exp %a"), "sm_90a").expect_err("f16").to_string();
    assert!(error.contains("math.exp"), "{error}");
}

/// A second step that overwrites what a first one of other threads still reads waits; one that touches other memory does not.
#[test]
fn barriers_stand_where_threads_share() {
    let source = r#"
      func.func @f(%x: memref<256xf32>, %y: memref<256xf32> {loop.out}) attributes {loop.kernel, loop.target = "gpu", loop.block = 256 : i64, loop.grid = #graph.dims<1>} {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c4 = arith.constant 4 : index
        scf.forall (%b) in (1) {
          %s = memref.alloca() : memref<256xf32, #gpu.address_space<workgroup>>
          scf.for %i = %c0 to %c4 step %c1 {
            scf.forall (%t) in (256) {
              %a = memref.load %x[%t] : memref<256xf32>
              memref.store %a, %s[%t] : memref<256xf32, #gpu.address_space<workgroup>>
            } {mapping = [#gpu.thread<linear_dim_0>]}
            scf.forall (%t) in (256) {
              %o = affine.apply affine_map<(d0) -> (255 - d0)>(%t)
              %a = memref.load %s[%o] : memref<256xf32, #gpu.address_space<workgroup>>
              memref.store %a, %y[%t] : memref<256xf32>
            } {mapping = [#gpu.thread<linear_dim_0>]}
          }
        } {mapping = [#gpu.block<x>]}
        return
      }"#;
    let context = strata_dialects::register::context();
    let module = Module::parse(&context, source).expect("it parses");
    run_pass(&context, &module, &loop_to_gpu::PASS, "nvptx:sm_90a").expect("it lowers");
    let text = module.as_operation().to_string();
    let inside = &text[text.find("scf.for").expect("a loop")..];
    assert_eq!(inside.matches("gpu.barrier").count(), 2, "before the write and before the read:\n{text}");
    assert_eq!(text.matches("gpu.barrier").count(), 2);
}

/// A row a warp: the reduction stays inside the warp, without shared memory and barriers; symbolic rows need 64-bit addresses.
#[test]
fn warp_reductions_need_no_barrier() {
    let source = r#"
      func.func @f(%x: memref<?x256xf32> {loop.dims = #graph.dims<s0, 256>}, %y: memref<?xf32> {loop.dims = #graph.dims<s0>, loop.out}, %n: index)
          attributes {loop.kernel, loop.target = "gpu", loop.block = 128 : i64, loop.grid = #graph.dims<s0 ceildiv 4>} {
        %c0 = arith.constant 0 : index
        %blocks = affine.apply affine_map<()[s0] -> (s0 ceildiv 4)>()[%n]
        scf.forall (%b) in (%blocks) {
          scf.forall (%w) in (4) {
            %row = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)>(%b, %w)
            %in = arith.cmpi slt, %row, %n : index
            %s = memref.alloca() : memref<32xf32, #gpu.address_space<private>>
            scf.forall (%l) in (32) {
              %zero = arith.constant 0.0 : f32
              %sum = scf.if %in -> (f32) {
                %col = affine.apply affine_map<(d0) -> (d0 * 8)>(%l)
                %v = vector.load %x[%row, %col] {alignment = 16 : i64} : memref<?x256xf32>, vector<8xf32>
                %r = vector.reduction <add>, %v fastmath<reassoc> : vector<8xf32> into f32
                scf.yield %r : f32
              } else {
                scf.yield %zero : f32
              }
              memref.store %sum, %s[%l] : memref<32xf32, #gpu.address_space<private>>
            } {mapping = [#gpu.lane<linear_dim_0>]}
            loop.all_reduce add %s : memref<32xf32, #gpu.address_space<private>>
            scf.forall (%l) in (32) {
              %first = arith.cmpi eq, %l, %c0 : index
              %store = arith.andi %first, %in : i1
              scf.if %store {
                %sum = memref.load %s[%l] : memref<32xf32, #gpu.address_space<private>>
                memref.store %sum, %y[%row] : memref<?xf32>
              }
            } {mapping = [#gpu.lane<linear_dim_0>]}
          } {mapping = [#gpu.warp<linear_dim_0>]}
        } {mapping = [#gpu.block<x>]}
        return
      }"#;
    check("warp_rows", source, 2, 0);
    // A known largest size proves that 32 bits are enough.
    let bounded = |max: &str| {
        source.replace(
            "loop.kernel,",
            &format!("loop.kernel, graph.symbols = [{{name = \"n\", max = {max}}}],"),
        )
    };
    for (text, bits) in [(source.to_owned(), 64), (bounded("4096"), 32), (bounded("16777216"), 64)] {
        let context = strata_dialects::register::context();
        let module = Module::parse(&context, &text).expect("it parses");
        run_pass(&context, &module, &loop_to_gpu::PASS, "nvptx:sm_90a").expect("it lowers");
        let lowered = module.as_operation().to_string();
        assert!(lowered.contains(&format!("loop.index_bits = {bits} : i64")), "{lowered}");
    }
    let kernel = &compile(source, "sm_90a").expect("it compiles")[0];
    assert_eq!(kernel.ptx.matches("shfl.sync.bfly").count(), 5);
    assert!(!kernel.ptx.contains("bar.sync") && !kernel.ptx.contains(".shared"));
    assert_eq!((kernel.meta.grid[0].to_string(), kernel.meta.block), ("(s0 + 3) floordiv 4".to_owned(), 128));
}

/// Every kind of reduction on every type that threads may exchange.
#[test]
fn reductions_exist_for_every_type() {
    for (ty, kinds) in [
        ("f32", &["add", "mul", "max", "min"][..]),
        ("f64", &["add", "mul", "max", "min"]),
        ("bf16", &["max"]),
        ("f16", &["add", "max"]),
        ("i64", &["add", "mul", "max", "min", "and", "or"]),
        ("i32", &["add", "mul", "max", "min", "and", "or"]),
        ("i16", &["add", "mul", "max", "min", "and", "or"]),
        ("i8", &["add", "max", "and"]),
        ("i1", &["and", "or"]),
    ] {
        for kind in kinds {
            accepted(&format!(
                "func.func @f(%x: memref<256x2x{ty}>, %y: memref<256x2x{ty}> {{loop.out}})
                    attributes {{loop.kernel, loop.target = \"gpu\", loop.block = 256 : i64, loop.grid = #graph.dims<1>}} {{
                  %c0 = arith.constant 0 : index
                  %c1 = arith.constant 1 : index
                  %c2 = arith.constant 2 : index
                  scf.forall (%b) in (1) {{
                    %p = memref.alloca() : memref<256x2x{ty}, #gpu.address_space<private>>
                    scf.forall (%t) in (256) {{
                      scf.for %k = %c0 to %c2 step %c1 {{
                        %a = memref.load %x[%t, %k] : memref<256x2x{ty}>
                        memref.store %a, %p[%t, %k] : memref<256x2x{ty}, #gpu.address_space<private>>
                      }}
                    }} {{mapping = [#gpu.thread<linear_dim_0>]}}
                    loop.all_reduce {kind} %p : memref<256x2x{ty}, #gpu.address_space<private>>
                    scf.forall (%t) in (256) {{
                      scf.for %k = %c0 to %c2 step %c1 {{
                        %a = memref.load %p[%t, %k] : memref<256x2x{ty}, #gpu.address_space<private>>
                        memref.store %a, %y[%t, %k] : memref<256x2x{ty}>
                      }}
                    }} {{mapping = [#gpu.thread<linear_dim_0>]}}
                  }} {{mapping = [#gpu.block<x>]}}
                  return
                }}"
            ));
        }
    }
}

/// More shared memory than a kernel may have statically is asked for at the launch.
#[test]
fn much_shared_memory_is_dynamic() {
    let source = r#"
      func.func @f(%x: memref<256xf32>, %y: memref<256xf32> {loop.out}) attributes {loop.kernel, loop.target = "gpu", loop.block = 256 : i64, loop.grid = #graph.dims<1>} {
        scf.forall (%b) in (1) {
          %s = memref.alloca() : memref<64x256xf32, #gpu.address_space<workgroup>>
          scf.forall (%t) in (256) {
            %a = memref.load %x[%t] : memref<256xf32>
            memref.store %a, %s[%t, %t] : memref<64x256xf32, #gpu.address_space<workgroup>>
          } {mapping = [#gpu.thread<linear_dim_0>]}
          scf.forall (%t) in (256) {
            %o = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%t)
            %a = memref.load %s[%o, %t] : memref<64x256xf32, #gpu.address_space<workgroup>>
            memref.store %a, %y[%t] : memref<256xf32>
          } {mapping = [#gpu.thread<linear_dim_0>]}
        } {mapping = [#gpu.block<x>]}
        return
      }"#;
    let source = source.replace("%s[%t, %t]", "%s[%b, %t]");
    let kernel = &compile(&source, "sm_90a").expect("it compiles")[0];
    assert_eq!(kernel.meta.shared_bytes, 65536);
    assert!(kernel.ptx.contains(".extern .shared"), "{}", kernel.ptx);
    accepted(&source);
}
