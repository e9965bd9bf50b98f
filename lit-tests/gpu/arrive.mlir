// The last of several blocks to arrive reads what the others wrote: two barriers, and an increment that wraps, releases and acquires.
// RUN: strata-opt %s --passes=loop-to-gpu --target=nvptx:sm_90a | FileCheck %s

// CHECK-LABEL: gpu.func @total
// CHECK-SAME: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %{{.*}}: !llvm.ptr<1> {llvm.noalias}, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>)
// CHECK: gpu.barrier
// CHECK: scf.if
// CHECK: llvm.fence syncscope("device") acq_rel
// CHECK-NEXT: %[[OLD:.*]] = llvm.atomicrmw uinc_wrap %{{.*}}, %{{.*}} syncscope("device") monotonic {alignment = 4 : i64}
// CHECK-NEXT: llvm.fence syncscope("device") acq_rel
// CHECK: llvm.store %[[OLD]]
// CHECK: gpu.barrier
// CHECK: %[[BEFORE:.*]] = llvm.load
// CHECK: %[[LAST:.*]] = arith.cmpi eq, %[[BEFORE]]
// CHECK: scf.if %[[LAST]]

func.func @total(%x: memref<128xf32>, %y: memref<1xf32> {loop.out}, %parts: memref<4xf32> {loop.out, loop.scratch},
                 %tickets: memref<1xi32> {loop.out, loop.scratch, loop.tickets})
    attributes {loop.kernel, loop.target = "gpu", loop.grid = #graph.dims<4>, loop.block = 32 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  scf.forall (%b) in (4) {
    %p = memref.alloca() : memref<32x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (32) {
      %o = arith.muli %b, %c32 : index
      %i = arith.addi %o, %t : index
      %v = memref.load %x[%i] : memref<128xf32>
      memref.store %v, %p[%t, %c0] : memref<32x1xf32, #gpu.address_space<private>>
    } {mapping = [#gpu.thread<linear_dim_0>]}
    loop.all_reduce add %p : memref<32x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (32) {
      %first = arith.cmpi eq, %t, %c0 : index
      scf.if %first {
        %v = memref.load %p[%t, %c0] : memref<32x1xf32, #gpu.address_space<private>>
        memref.store %v, %parts[%b] : memref<4xf32>
      }
    } {mapping = [#gpu.thread<linear_dim_0>]}
    %last = loop.arrive %tickets[%c0] of %c4 : memref<1xi32>
    scf.if %last {
      scf.forall (%t) in (32) {
        %first = arith.cmpi eq, %t, %c0 : index
        scf.if %first {
          %zero = arith.constant 0.0 : f32
          %sum = scf.for %k = %c0 to %c4 step %c1 iter_args(%s = %zero) -> f32 {
            %v = memref.load %parts[%k] : memref<4xf32>
            %n = arith.addf %s, %v : f32
            scf.yield %n : f32
          }
          memref.store %sum, %y[%c0] : memref<1xf32>
        }
      } {mapping = [#gpu.thread<linear_dim_0>]}
    }
  } {mapping = [#gpu.block<x>]}
  return
}
