// RUN: strata-opt %s --target=nvptx:sm_90a --passes=loop-to-gpu,canonicalize,cse --split-input-file | FileCheck %s

// Foralls become ids, the private array an alloca, the reduction shuffles inside the warp, one value a warp through shared memory,
// one barrier, and shuffles over the warps' values.
// CHECK-LABEL: gpu.module @sum
// CHECK-SAME: loop.block = 128 : i64, loop.grid = #graph.dims<64>, loop.index_bits = 32 : i64, loop.shared_bytes = 0 : i64
// CHECK: llvm.mlir.global internal @sum_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<32 x i8>
// CHECK: gpu.func @sum(%[[X:.*]]: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %[[Y:.*]]: !llvm.ptr<1> {llvm.noalias}) kernel
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>
// CHECK: llvm.alloca {{.*}} x !llvm.array<1 x f32>
// CHECK: gpu.thread_id x upper_bound 128
// CHECK: gpu.block_id x upper_bound 64
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK: gpu.barrier
// CHECK-COUNT-2: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK-NOT: gpu.barrier
// CHECK: gpu.return
func.func @sum(%x: memref<64x512xf32>, %y: memref<64xf32> {loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 128 : i64, loop.grid = #graph.dims<64>} {
  %c0 = arith.constant 0 : index
  scf.forall (%row) in (64) {
    %s = memref.alloca() : memref<128x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (128) {
      %col = affine.apply affine_map<(d0) -> (d0 * 4)>(%t)
      %v = vector.load %x[%row, %col] {alignment = 16 : i64} : memref<64x512xf32>, vector<4xf32>
      %r = vector.reduction <add>, %v : vector<4xf32> into f32
      memref.store %r, %s[%t, %c0] : memref<128x1xf32, #gpu.address_space<private>>
    } {mapping = [#gpu.thread<linear_dim_0>]}
    loop.all_reduce add %s : memref<128x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (128) {
      %first = arith.cmpi eq, %t, %c0 : index
      scf.if %first {
        %r = memref.load %s[%t, %c0] : memref<128x1xf32, #gpu.address_space<private>>
        memref.store %r, %y[%row] : memref<64xf32>
      }
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}

// -----

// What one step writes to shared memory and the next reads waits; the write of the next round waits for that read.
// CHECK-LABEL: gpu.module @rounds
// CHECK: scf.for
// CHECK: gpu.barrier
// CHECK: llvm.store {{.*}} !llvm.ptr<3>
// CHECK: gpu.barrier
// CHECK: llvm.load {{.*}} !llvm.ptr<3>
// CHECK-NOT: gpu.barrier
func.func @rounds(%x: memref<256xf32>, %y: memref<256xf32> {loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 256 : i64, loop.grid = #graph.dims<1>} {
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
}

// -----

// Sizes that are symbols: 64-bit index arithmetic, strides from the symbol argument.
// CHECK-LABEL: gpu.module @symbols
// CHECK-SAME: loop.grid = #graph.dims<s0>, loop.index_bits = 64 : i64
// CHECK: gpu.func @symbols(%{{.*}}: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %{{.*}}: !llvm.ptr<1> {llvm.noalias}, %[[S0:.*]]: i64, %[[S1:.*]]: i64)
// CHECK-DAG: arith.index_cast %[[S1]] : i64 to index
// CHECK: arith.muli {{.*}} overflow<nsw> : index
func.func @symbols(%x: memref<?x?xi1> {loop.dims = #graph.dims<s0, s1>}, %y: memref<?x?xi1> {loop.dims = #graph.dims<s0, s1>, loop.out}, %s0: index, %s1: index)
    attributes {loop.kernel, loop.target = "gpu", loop.block = 32 : i64, loop.grid = #graph.dims<s0>} {
  scf.forall (%row) in (%s0) {
    scf.forall (%t) in (32) {
      %in = arith.cmpi slt, %t, %s1 : index
      scf.if %in {
        // A truth value is a byte.
        // CHECK: llvm.load {{.*}} -> i8
        // CHECK: arith.trunci
        %a = memref.load %x[%row, %t] : memref<?x?xi1>
        memref.store %a, %y[%row, %t] : memref<?x?xi1>
      }
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}
