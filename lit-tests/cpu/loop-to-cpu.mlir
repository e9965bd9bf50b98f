// RUN: strata-opt %s --target=cpu:x86-64-v3 --passes=loop-to-cpu | FileCheck %s

// The body takes pointers that do not alias; the entry has the kernel ABI.
// CHECK: llvm.func internal @add.body(%{{.*}}: !llvm.ptr {llvm.noalias, llvm.readonly}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK-SAME: no_inline
// CHECK-DAG: %[[B:.*]] = arith.index_cast %[[BEGIN]] : i64 to index
// CHECK-DAG: %[[E:.*]] = arith.index_cast %[[END]] : i64 to index
// CHECK: scf.for %{{.*}} = %[[B]] to %[[E]]
// CHECK: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK: llvm.store
// CHECK: llvm.return
// CHECK: llvm.func @add(%[[BUFFERS:.*]]: !llvm.ptr, %[[SYMBOLS:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64) attributes {loop.grid = #graph.dims<s0 floordiv 8>}
// CHECK: llvm.getelementptr %[[BUFFERS]]
// CHECK: llvm.getelementptr %[[SYMBOLS]]
// CHECK: llvm.call @add.body
func.func @add(%x: memref<?xf32> {loop.dims = #graph.dims<s0>}, %y: memref<?xf32> {loop.dims = #graph.dims<s0>, loop.out}, %n: index)
    attributes {loop.kernel, loop.target = "cpu", loop.grid = #graph.dims<s0 floordiv 8>} {
  %tasks = affine.apply affine_map<()[s0] -> (s0 floordiv 8)>()[%n]
  scf.forall (%t) in (%tasks) {
    %i = affine.apply affine_map<(d0) -> (d0 * 8)>(%t)
    %a = vector.load %x[%i] : memref<?xf32>, vector<8xf32>
    %r = arith.addf %a, %a : vector<8xf32>
    vector.store %r, %y[%i] : memref<?xf32>, vector<8xf32>
  } {mapping = [#loop.task]}
  return
}
