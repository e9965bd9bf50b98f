// RUN: strata-opt %s --target=nvptx:sm_90a --passes=loop-to-gpu | FileCheck %s

// A check is a comparison and a branch that is not taken, to the driver's function for failed assertions: message, file, line, kernel.
// CHECK-LABEL: gpu.module @picked
// CHECK: %[[I:.*]] = llvm.load {{.*}} -> i64
// CHECK: %[[OUT:.*]] = arith.cmpi uge, %[[I]], %{{.*}} : i64
// CHECK-NEXT: scf.if %[[OUT]] {
// CHECK-NEXT: %[[M:.*]] = llvm.mlir.addressof @picked_text0 : !llvm.ptr<1>
// CHECK-NEXT: %[[MESSAGE:.*]] = llvm.addrspacecast %[[M]]
// CHECK: llvm.mlir.addressof @picked_text1
// CHECK-NEXT: %[[FILE:.*]] = llvm.addrspacecast
// CHECK: %[[LINE:.*]] = arith.constant 7 : i32
// CHECK: llvm.mlir.addressof @picked_text2
// CHECK-NEXT: %[[KERNEL:.*]] = llvm.addrspacecast
// CHECK: llvm.call @__assertfail(%[[MESSAGE]], %[[FILE]], %[[LINE]], %[[KERNEL]], %{{.*}})
// CHECK: }
// Behind it the index is inside: nothing is clamped.
// CHECK-NEXT: arith.index_cast %[[I]] : i64 to index
// CHECK: llvm.func @__assertfail({{.*}}) attributes {{.*}}"noreturn"
// CHECK: @picked_text0("aten.embedding: an index is out of range\00") {addr_space = 1 : i32}
// CHECK: @picked_text1("model.py\00")
// CHECK: @picked_text2("picked\00")
func.func @picked(%w: memref<?x4xf32> {loop.dims = #graph.dims<s0, 4>}, %i: memref<128xi64>, %y: memref<128x4xf32> {loop.out}, %rows: index)
    attributes {loop.kernel, loop.target = "gpu", loop.block = 128 : i64, loop.grid = #graph.dims<1>} {
  %c0 = arith.constant 0 : index
  scf.forall (%b) in (1) {
    scf.forall (%t) in (128) {
      %v = memref.load %i[%t] : memref<128xi64>
      %c = loop.check_index %v below %rows wrap = false "aten.embedding: an index is out of range" : i64 loc("model.py":7:12)
      %at = arith.index_cast %c : i64 to index
      %x = vector.load %w[%at, %c0] : memref<?x4xf32>, vector<4xf32>
      vector.store %x, %y[%t, %c0] : memref<128x4xf32>, vector<4xf32>
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}
