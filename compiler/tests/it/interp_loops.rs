//! The loop interpreter: every construct of the level, and what it refuses.

use melior::ir::Module;
use strata_compiler::interp::{DEFAULT_BUDGET, run_function};
use strata_dialects::reference::{RefTensor, Rounding, Scalar, Values};
use strata_runtime::DType;

fn f32s(shape: &[usize], f: impl Fn(usize) -> f64) -> RefTensor {
    RefTensor::generate(DType::F32, shape, Rounding::Exact, |i| Scalar::F(f(i)))
}

fn run_with(
    text: &str,
    inputs: &[RefTensor],
    rounding: Rounding,
    budget: u64,
) -> Result<Vec<RefTensor>, String> {
    let context = strata_dialects::context();
    let module = Module::parse(&context, text).expect("parses");
    run_function(&module, "f", inputs, rounding, budget).map_err(|e| e.to_string())
}

fn run(text: &str, inputs: &[RefTensor]) -> Result<Vec<RefTensor>, String> {
    run_with(text, inputs, Rounding::Exact, DEFAULT_BUDGET)
}

#[track_caller]
fn fails(text: &str, inputs: &[RefTensor], wanted: &str) {
    let e = run(text, inputs).expect_err("refused");
    assert!(e.contains(wanted), "'{wanted}' is not in '{e}'");
}

/// A kernel with one f32 input of 8 elements and one output of 8.
fn kernel(body: &str) -> String {
    format!(
        "func.func @f(%x: memref<8xf32>, %y: memref<8xf32> {{loop.out}}) attributes {{loop.kernel}} {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c4 = arith.constant 4 : index
          %c8 = arith.constant 8 : index
          %zero = arith.constant 0.0 : f32
          {body}
          return
        }}"
    )
}

fn ramp() -> RefTensor {
    f32s(&[8], |i| i as f64)
}

#[track_caller]
fn gives(body: &str, wanted: [f64; 8]) {
    let y = run(&kernel(body), &[ramp()]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(y[0].floats(), wanted);
}

#[test]
fn loops_carry_values_and_choose() {
    gives(
        "scf.forall (%i) in (8) {
           %n = arith.addi %i, %c1 : index
           %sum, %last = scf.for %k = %c0 to %n step %c1 iter_args(%a = %zero, %b = %zero) -> (f32, f32) {
             %v = memref.load %x[%k] : memref<8xf32>
             %s = arith.addf %a, %v : f32
             scf.yield %s, %v : f32, f32
           }
           %even = arith.remui %i, %c4 : index
           %is = arith.cmpi eq, %even, %c0 : index
           %r = scf.if %is -> (f32) { scf.yield %last : f32 } else { scf.yield %sum : f32 }
           memref.store %r, %y[%i] : memref<8xf32>
         } {mapping = [#loop.task]}",
        [0.0, 1.0, 3.0, 6.0, 4.0, 15.0, 21.0, 28.0],
    );
}

#[test]
fn a_forall_has_bounds_and_steps() {
    gives(
        "scf.forall (%i, %j) = (0, 0) to (8, 2) step (4, 1) {
           %k = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 2)>(%i, %j)
           %v = vector.load %x[%k] : memref<8xf32>, vector<2xf32>
           vector.store %v, %y[%k] : memref<8xf32>, vector<2xf32>
         }",
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
    );
}

#[test]
fn vectors() {
    gives(
        "%v = vector.load %x[%c4] {alignment = 16 : i64} : memref<8xf32>, vector<4xf32>
         %b = vector.broadcast %zero : f32 to vector<4xf32>
         %e = vector.extract %v[2] : f32 from vector<4xf32>
         %d = vector.extract %v[%c1] : f32 from vector<4xf32>
         %w = vector.insert %d, %b[0] : f32 into vector<4xf32>
         %w2 = vector.insert %e, %w[%c1] : f32 into vector<4xf32>
         %s = vector.shuffle %v, %w2 [3, 4, 5, 0] : vector<4xf32>, vector<4xf32>
         %f = vector.fma %v, %v, %s : vector<4xf32>
         vector.store %f, %y[%c0] : memref<8xf32>, vector<4xf32>
         %r = vector.reduction <add>, %v, %zero : vector<4xf32> into f32
         %m = vector.reduction <maximumf>, %v : vector<4xf32> into f32
         %all = vector.from_elements %r, %m, %e, %d : vector<4xf32>
         vector.store %all, %y[%c4] : memref<8xf32>, vector<4xf32>",
        [23.0, 30.0, 42.0, 53.0, 22.0, 7.0, 6.0, 5.0],
    );
}

#[test]
fn masks_leave_lanes_out() {
    gives(
        "%c6 = arith.constant 6 : index
         %m = vector.create_mask %c1 : vector<4xi1>
         %minus = arith.constant dense<-1.0> : vector<4xf32>
         %v = vector.maskedload %x[%c6], %m, %minus : memref<8xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
         vector.store %v, %y[%c0] : memref<8xf32>, vector<4xf32>
         %t = vector.transfer_read %x[%c6], %zero : memref<8xf32>, vector<4xf32>
         vector.store %t, %y[%c4] : memref<8xf32>, vector<4xf32>
         %m2 = vector.constant_mask [2] : vector<4xi1>
         %steps = vector.step : vector<4xindex>
         %ints = arith.index_cast %steps : vector<4xindex> to vector<4xi32>
         %floats = arith.sitofp %ints : vector<4xi32> to vector<4xf32>
         vector.maskedstore %y[%c4], %m2, %floats : memref<8xf32>, vector<4xi1>, vector<4xf32>
         vector.transfer_write %floats, %y[%c6] : vector<4xf32>, memref<8xf32>",
        [6.0, -1.0, -1.0, -1.0, 0.0, 1.0, 0.0, 1.0],
    );
}

#[test]
fn views_share_memory() {
    gives(
        "%r = memref.reinterpret_cast %y to offset: [%c1], sizes: [2, %c4], strides: [4, 1] : memref<8xf32> to memref<2x?xf32, strided<[4, 1], offset: ?>>
         %p = memref.subview %x[%c4] [4] [1] : memref<8xf32> to memref<4xf32, strided<[1], offset: ?>>
         %n = memref.dim %p, %c0 : memref<4xf32, strided<[1], offset: ?>>
         scf.for %i = %c0 to %n step %c1 {
           %v = memref.load %p[%i] : memref<4xf32, strided<[1], offset: ?>>
           memref.store %v, %r[%c0, %i] : memref<2x?xf32, strided<[4, 1], offset: ?>>
         }
         memref.store %zero, %y[%c0] : memref<8xf32>
         %e = memref.expand_shape %y [[0, 1]] output_shape [4, 2] : memref<8xf32> into memref<4x2xf32>
         %s = memref.subview %e[3, 0] [1, 2] [1, 1] : memref<4x2xf32> to memref<2xf32, strided<[1], offset: 6>>
         memref.store %zero, %s[%c0] : memref<2xf32, strided<[1], offset: 6>>
         memref.store %zero, %s[%c1] : memref<2xf32, strided<[1], offset: 6>>
         %k = arith.constant 5 : index
         memref.store %zero, %y[%k] : memref<8xf32>",
        [0.0, 4.0, 5.0, 6.0, 7.0, 0.0, 0.0, 0.0],
    );
}

#[test]
fn atomics_and_private_arrays() {
    gives(
        "%a = memref.alloca() : memref<1xf32>
         memref.store %zero, %a[%c0] : memref<1xf32>
         scf.forall (%i) in (8) {
           %v = memref.load %x[%i] : memref<8xf32>
           %o = memref.atomic_rmw addf %v, %a[%c0] : (f32, memref<1xf32>) -> f32
         }
         %s = memref.load %a[%c0] : memref<1xf32>
         %w = vector.broadcast %s : f32 to vector<8xf32>
         vector.store %w, %y[%c0] : memref<8xf32>, vector<8xf32>",
        [28.0; 8],
    );
}

fn all_reduce(threads: usize, kind: &str) -> String {
    format!(
        "func.func @f(%x: memref<{threads}xf32>, %y: memref<{threads}xf32> {{loop.out}}) attributes {{loop.kernel}} {{
           %c0 = arith.constant 0 : index
           scf.forall (%b) in (1) {{
             %r = memref.alloca() : memref<{threads}x1xf32, #gpu.address_space<private>>
             scf.forall (%t) in ({threads}) {{
               %v = memref.load %x[%t] : memref<{threads}xf32>
               memref.store %v, %r[%t, %c0] : memref<{threads}x1xf32, #gpu.address_space<private>>
             }} {{mapping = [#gpu.thread<linear_dim_0>]}}
             loop.all_reduce {kind} %r : memref<{threads}x1xf32, #gpu.address_space<private>>
             scf.forall (%t) in ({threads}) {{
               %v = memref.load %r[%t, %c0] : memref<{threads}x1xf32, #gpu.address_space<private>>
               memref.store %v, %y[%t] : memref<{threads}xf32>
             }} {{mapping = [#gpu.thread<linear_dim_0>]}}
           }} {{mapping = [#gpu.block<x>]}}
           return
         }}"
    )
}

/// The documented order, written down independently: within groups of 32, then across the groups.
fn butterfly(values: &[f32]) -> f32 {
    let tree = |v: &[f32]| {
        let mut v = v.to_vec();
        while v.len() > 1 {
            let half = v.len() / 2;
            v = (0..half).map(|i| v[i] + v[i + half]).collect();
        }
        v[0]
    };
    let warps: Vec<f32> = values.chunks(32).map(tree).collect();
    tree(&warps)
}

#[test]
fn all_reduce_adds_in_butterfly_order() {
    for threads in [32, 64, 256] {
        let x = f32s(&[threads], |i| 1.0 / (1.0 + (i * 37 % 101) as f64));
        let values: Vec<f32> = x.floats().iter().map(|&v| v as f32).collect();
        let y = run(&all_reduce(threads, "add"), std::slice::from_ref(&x)).expect("runs");
        assert_eq!(y[0].floats(), vec![butterfly(&values) as f64; threads]);
        let y = run(&all_reduce(threads, "max"), &[x]).expect("runs");
        assert_eq!(y[0].floats(), vec![1.0; threads]);
    }
}

#[test]
fn symbols_and_strides_come_with_the_arguments() {
    let text = "func.func @f(%x: memref<?x4xf32, strided<[?, 1]>> {loop.dims = #graph.dims<s0, 4>, loop.strides = #graph.dims<s0 * 2, 1>},
                    %y: memref<?xf32> {loop.dims = #graph.dims<s0 * 4>, loop.out}, %s0: index)
                  attributes {loop.kernel, graph.symbols = [{name = \"n\", max = 9}]} {
          %c0 = arith.constant 0 : index
          scf.forall (%i, %j) in (%s0, 4) {
            %v = memref.load %x[%i, %j] : memref<?x4xf32, strided<[?, 1]>>
            %k = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)>(%i, %j)
            memref.store %v, %y[%k] : memref<?xf32>
          }
          return
        }";
    let y = run(text, &[f32s(&[3, 4], |i| i as f64)]).expect("runs");
    assert_eq!(y[0], f32s(&[12], |i| i as f64));
    // No element at all is fine.
    assert_eq!(run(text, &[f32s(&[0, 4], |_| 0.0)]).expect("runs")[0].shape, [0]);
    let e = run(text, &[f32s(&[10, 4], |_| 0.0)]).expect_err("n is at most 9");
    assert!(e.contains("symbol 'n' is 10"), "{e}");
}

#[test]
fn narrow_floats_round_in_their_type_or_not_at_all() {
    let text = "func.func @f(%x: memref<1xbf16>, %y: memref<1xbf16> {loop.out}) attributes {loop.kernel} {
          %c0 = arith.constant 0 : index
          %a = memref.load %x[%c0] : memref<1xbf16>
          %f = arith.extf %a : bf16 to f32
          %e = math.exp %f fastmath<contract> : f32
          %r = arith.truncf %e : f32 to bf16
          memref.store %r, %y[%c0] : memref<1xbf16>
          return
        }";
    let x = RefTensor { dtype: DType::BF16, shape: vec![1], values: Values::Float(vec![1.0]) };
    let exact = run(text, std::slice::from_ref(&x)).expect("runs");
    assert_eq!(exact[0].floats(), [2.71875]);
    let float64 = run_with(text, &[x], Rounding::Float64, 100).expect("runs");
    assert_eq!(float64[0].floats(), [1f64.exp()]);
}

#[test]
fn accesses_outside_are_errors_with_a_location() {
    let e = run(
        &kernel("%v = vector.load %x[%c8] : memref<8xf32>, vector<4xf32> loc(\"k.mlir\":3:9)"),
        &[ramp()],
    )
    .expect_err("outside");
    assert_eq!(e, "k.mlir:3:9: accesses elements 8 to 11 of dimension 0 of size 8");
    fails(
        &kernel("%k = arith.subi %c0, %c1 : index\n memref.store %zero, %y[%k] : memref<8xf32>"),
        &[ramp()],
        "accesses element -1 of dimension 0 of size 8",
    );
    fails(
        &kernel("%m = vector.constant_mask [3] : vector<4xi1>\n %z = arith.constant dense<0.0> : vector<4xf32>\n %k = arith.constant 6 : index
                 %v = vector.maskedload %x[%k], %m, %z : memref<8xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>"),
        &[ramp()],
        "lane 2 accesses element 8",
    );
}

#[test]
fn what_was_never_written_is_not_read() {
    fails(
        &kernel("%a = memref.alloca() : memref<4xf32>\n %v = memref.load %a[%c1] : memref<4xf32>"),
        &[ramp()],
        "never written",
    );
    // An alloca in a loop starts without values every time.
    fails(
        &kernel(
            "scf.for %i = %c0 to %c4 step %c1 {
               %a = memref.alloca() : memref<1xf32>
               %first = arith.cmpi eq, %i, %c0 : index
               scf.if %first { memref.store %zero, %a[%c0] : memref<1xf32> }
               %v = memref.load %a[%c0] : memref<1xf32>
             }",
        ),
        &[ramp()],
        "never written",
    );
    fails(&kernel("memref.store %zero, %y[%c0] : memref<8xf32>"), &[ramp()], "result 0 is not complete");
}

#[test]
fn iterations_of_a_forall_do_not_depend_on_each_other() {
    // Reads what an earlier iteration wrote: in order it works, on threads it does not.
    fails(
        &kernel(
            "memref.store %zero, %y[%c0] : memref<8xf32>
             scf.forall (%i) in (7) {
               %v = memref.load %y[%i] : memref<8xf32>
               %k = arith.addi %i, %c1 : index
               memref.store %v, %y[%k] : memref<8xf32>
             }",
        ),
        &[ramp()],
        "without a barrier",
    );
    fails(
        &kernel(
            "scf.forall (%i) in (8) {
               %v = memref.load %x[%i] : memref<8xf32>
               memref.store %v, %y[%c0] : memref<8xf32>
             }",
        ),
        &[ramp()],
        "wrote another value",
    );
    // Two foralls, one after the other, are in order; so is the same value from everywhere.
    gives(
        "%s = memref.alloca() : memref<8xf32, #gpu.address_space<workgroup>>
         scf.forall (%i) in (8) {
           %v = memref.load %x[%i] : memref<8xf32>
           memref.store %v, %s[%i] : memref<8xf32, #gpu.address_space<workgroup>>
           memref.store %zero, %y[%c0] : memref<8xf32>
         }
         scf.forall (%i) in (8) {
           %c7 = arith.constant 7 : index
           %k = arith.subi %c7, %i : index
           %v = memref.load %s[%k] : memref<8xf32, #gpu.address_space<workgroup>>
           memref.store %v, %y[%i] : memref<8xf32>
         }",
        [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0],
    );
}

#[test]
fn budgets_and_unknown_ops() {
    let long = kernel("%n = arith.constant 1000000 : index\n scf.for %i = %c0 to %n step %c1 { }");
    let e = run_with(&long, &[ramp()], Rounding::Exact, 1000).expect_err("too long");
    assert!(e.contains("budget"), "{e}");
    fails(
        &kernel("%t = memref.transpose %x (d0) -> (d0) : memref<8xf32> to memref<8xf32, strided<[1]>>"),
        &[ramp()],
        "'memref.transpose' is not an op of the loop level",
    );
    fails(&kernel("%d = arith.divsi %c1, %c0 : index"), &[ramp()], "undefined");
}
