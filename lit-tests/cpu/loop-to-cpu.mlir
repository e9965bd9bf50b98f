// RUN: strata-opt %s --target=cpu:x86-64-v3 --passes=loop-to-cpu | FileCheck %s

// The body takes pointers that do not alias; the entry has the kernel ABI.
// CHECK: llvm.func internal @add.body(%{{.*}}: !llvm.ptr {llvm.noalias, llvm.readonly}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr {llvm.noalias})
// CHECK-SAME: no_inline
// CHECK-DAG: %[[B:.*]] = arith.index_cast %[[BEGIN]] : i64 to index
// CHECK-DAG: %[[E:.*]] = arith.index_cast %[[END]] : i64 to index
// CHECK: scf.for %{{.*}} = %[[B]] to %[[E]]
// CHECK: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK: llvm.store
// CHECK: llvm.return
// CHECK: llvm.func @add(%[[BUFFERS:.*]]: !llvm.ptr, %[[SYMBOLS:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr) attributes {loop.grid = #graph.dims<s0 floordiv 8>}
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

// A check compares without a sign, so that what is negative is outside; where one fails, the smallest number of a failed check is kept and
// the index is 0. Lanes are checked together, shorter indices in 64 bits. Equal checks have one number.
// CHECK: llvm.func internal @checked.body
// CHECK: %[[I:.*]] = llvm.load {{.*}} -> i64
// CHECK: %[[OUT:.*]] = arith.cmpi uge, %[[I]], %{{.*}} : i64
// CHECK: scf.if %[[OUT]]
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK-NEXT: llvm.atomicrmw umin %{{.*}}, %[[ZERO]] monotonic
// CHECK: arith.select %[[OUT]], %{{.*}}, %[[I]] : i64
// CHECK: %[[W:.*]] = arith.extsi %{{.*}} : vector<4xi32> to vector<4xi64>
// CHECK: arith.cmpi slt, %[[W]]
// CHECK: %[[OUTS:.*]] = arith.cmpi uge, {{.*}} : vector<4xi64>
// CHECK: %[[ANY:.*]] = vector.reduction <or>, %[[OUTS]] : vector<4xi1> into i1
// CHECK: scf.if %[[ANY]]
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1 : i64
// CHECK-NEXT: llvm.atomicrmw umin %{{.*}}, %[[ONE]] monotonic
// CHECK: arith.trunci {{.*}} : vector<4xi64> to vector<4xi32>
// CHECK: llvm.func @checked(
// CHECK-SAME: loop.checks = ["first", "model.py:3:0", "second", ""]
func.func @checked(%i: memref<16xi64>, %j: memref<16xi32>, %y: memref<16xi64> {loop.out}, %z: memref<16xi32> {loop.out}, %n: index)
    attributes {loop.kernel, loop.target = "cpu", loop.grid = #graph.dims<4>} {
  %c4 = arith.constant 4 : index
  scf.forall (%t) in (4) {
    %a = memref.load %i[%t] : memref<16xi64>
    %b = loop.check_index %a below %n wrap = false "first" : i64 loc("model.py":3:0)
    memref.store %b, %y[%t] : memref<16xi64>
    %at = arith.muli %t, %c4 : index
    %v = vector.load %j[%at] : memref<16xi32>, vector<4xi32>
    %w = loop.check_index %v below %n wrap = true "second" : vector<4xi32> loc(unknown)
    vector.store %w, %z[%at] : memref<16xi32>, vector<4xi32>
    %c = memref.load %i[%at] : memref<16xi64>
    %d = loop.check_index %c below %n wrap = false "first" : i64 loc("model.py":3:0)
    memref.store %d, %y[%at] : memref<16xi64>
  } {mapping = [#loop.task]}
  return
}
