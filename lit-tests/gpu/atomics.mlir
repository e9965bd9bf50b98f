// RUN: strata-opt %s --target=nvptx:sm_90a --passes=loop-to-gpu,canonicalize,cse | FileCheck %s

// Sums, minima and maxima are instructions; products a loop of compare and exchange; replacement is a store.
// CHECK-LABEL: gpu.module @all
// CHECK: llvm.atomicrmw fadd {{.*}} monotonic {alignment = 4 : i64} : !llvm.ptr<1>, f32
// CHECK: llvm.atomicrmw fmaximum
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK: %[[OLD:.*]] = llvm.load {{.*}} : !llvm.ptr<1> -> i32
// CHECK: scf.while (%[[SEEN:.*]] = %[[OLD]])
// CHECK: arith.mulf
// CHECK: llvm.cmpxchg {{.*}} monotonic monotonic {alignment = 4 : i64} : !llvm.ptr<1>, i32
// CHECK: scf.condition
func.func @all(%x: memref<128xf32>, %y: memref<4xf32> {loop.init = 0 : i64, loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 128 : i64, loop.grid = #graph.dims<1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  scf.forall (%b) in (1) {
    scf.forall (%t) in (128) {
      %v = memref.load %x[%t] : memref<128xf32>
      %0 = memref.atomic_rmw addf %v, %y[%c0] : (f32, memref<4xf32>) -> f32
      %1 = memref.atomic_rmw maximumf %v, %y[%c1] : (f32, memref<4xf32>) -> f32
      %2 = memref.atomic_rmw assign %v, %y[%c2] : (f32, memref<4xf32>) -> f32
      %3 = memref.atomic_rmw mulf %v, %y[%c3] : (f32, memref<4xf32>) -> f32
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}
