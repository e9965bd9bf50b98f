// RUN: strata-opt %s --target=nvptx:sm_90a --passes=linalg-to-loops | FileCheck %s
// RUN: strata-opt %s --target=cpu:x86-64-v3 --passes=linalg-to-loops | FileCheck %s --check-prefix=CPU
// RUN: strata-opt %s --target=nvptx:sm_90a --passes=linalg-to-loops --check-semantics -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: strata-opt %s --target=cpu:x86-64-v3 --passes=linalg-to-loops --check-semantics -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAME
// SAME: check-semantics: {{[0-9]+}} comparisons, 0 skipped

// A thread an update on the GPU, changed atomically in a buffer that holds the operand before; on the CPU a task owns its columns and
// goes through the indices in order.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: loop.init = 0 : i64, loop.out
// CHECK: arith.cmpi slt
// CHECK: scf.if
// CHECK: memref.atomic_rmw addf
// CPU-LABEL: func.func @rows
// CPU-SAME: loop.init = 0 : i64, loop.out
// CPU: scf.for
// CPU: memref.load {{.*}} : memref<40xi64>
// CPU: scf.for
// CPU: arith.addf
// CPU-NOT: atomic_rmw
func.func @rows(%x: tensor<100x8xf32>, %i: tensor<40xi64>, %u: tensor<40x8xf32>) -> tensor<100x8xf32> {
  %0 = loop.scatter add %u into %x at %i dim = 0 : (tensor<40x8xf32>, tensor<100x8xf32>, tensor<40xi64>) -> tensor<100x8xf32>
  return %0 : tensor<100x8xf32>
}

// A block a row: totals of pieces in shared memory, then each piece again. bf16 is added up in f32.
// CHECK-LABEL: func.func @running
// CHECK-SAME: loop.block = 64 : i64, loop.grid = #graph.dims<3>
// CHECK: memref.alloca() : memref<64xf32, #gpu.address_space<workgroup>>
// CHECK: scf.forall ({{.*}}) in (64)
// CHECK: arith.addf {{.*}} : f32
// CHECK: scf.forall ({{.*}}) in (64)
// CHECK: memref.load {{.*}} : memref<64xf32, #gpu.address_space<workgroup>>
// CHECK: arith.truncf
// CPU-LABEL: func.func @running
// CPU: scf.for {{.*}} iter_args
// CPU: arith.truncf
func.func @running(%x: tensor<3x1000xbf16>) -> tensor<3x1000xbf16> {
  %0 = loop.scan add %x dim = 1 : (tensor<3x1000xbf16>) -> tensor<3x1000xbf16>
  return %0 : tensor<3x1000xbf16>
}

// Checked indices need no condition; but on the CPU, where the kernel goes on after a failed check with the index 0, a dimension that
// may have no elements does.
// CHECK-LABEL: func.func @checked
// CHECK: %[[I:.*]] = loop.check_index
// CHECK-NOT: scf.if
// CHECK: memref.atomic_rmw addf
// CPU-LABEL: func.func @checked
// CPU: loop.check_index
// CPU: %[[SOME:.*]] = arith.cmpi sge, %arg4, %c1
// CPU: scf.if %[[SOME]]
// CPU: arith.addf
func.func @checked(%x: tensor<?x8xf32> {loop.dims = #graph.dims<s0, 8>}, %i: tensor<64xi64>, %u: tensor<64x8xf32>, %n: index)
    -> (tensor<?x8xf32> {loop.dims = #graph.dims<s0, 8>}) attributes {graph.symbols = [{name = "rows"}]} {
  %e = tensor.empty() : tensor<64xi64>
  %c = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%i : tensor<64xi64>) outs(%e : tensor<64xi64>) {
  ^bb0(%a: i64, %b: i64):
    %0 = loop.check_index %a below %n wrap = false "out of range" : i64
    linalg.yield %0 : i64
  } -> tensor<64xi64>
  %0 = loop.scatter add %u into %x at %c dim = 0 in_bounds : (tensor<64x8xf32>, tensor<?x8xf32>, tensor<64xi64>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
