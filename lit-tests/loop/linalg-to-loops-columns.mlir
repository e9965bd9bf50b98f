// Columns: vectors along what is kept, groups of threads on rows of their own, results through shared memory, and the last of the blocks that share
// a column combines what they left.
// RUN: strata-opt %s --target=nvptx:sm_90a --compile-to=loop | FileCheck %s
// RUN: strata-translate %s --to=plan --target=nvptx:sm_90a | FileCheck %s --check-prefix=PLAN

// CHECK: func.func private @k0(%arg0: memref<16384x4096xbf16>, %arg1: memref<4096xbf16> {loop.out}, %arg2: memref<32x4096xf32> {loop.out, loop.scratch}, %arg3: memref<1024xi32> {loop.out, loop.scratch, loop.tickets})
// CHECK-SAME: loop.grid = #graph.dims<32, 16>
// CHECK: scf.forall (%[[PART:.*]], %[[STRIPE:.*]]) in (32, 16)
// CHECK: memref.alloca() : memref<8x256xf32, #gpu.address_space<workgroup>>
// CHECK: scf.for
// CHECK-COUNT-8: vector.load %arg0{{.*}} {alignment = 16 : i64} : memref<16384x4096xbf16>, vector<8xbf16>
// CHECK: vector.store {{.*}} : memref<8x256xf32, #gpu.address_space<workgroup>>, vector<8xf32>
// CHECK: memref.store {{.*}}, %arg2[%[[PART]], {{.*}}] : memref<32x4096xf32>
// CHECK: %[[LAST:.*]] = loop.arrive %arg3[%[[STRIPE]]] of %c32 : memref<1024xi32>
// CHECK: scf.if %[[LAST]]
// CHECK: vector.load %arg2
// CHECK: memref.store {{.*}}, %arg1

// All kernels of a call count with the same tickets, which start as zeros.
// PLAN: buffer b[[ZERO:[0-9]+]] : i32[1024] in constants
// PLAN: copy b[[ZERO]] -> b[[TICKETS:[0-9]+]]
// PLAN: launch k0(b0) -> (b1, b{{[0-9]+}}, b[[TICKETS]])
// PLAN: launch k1({{.*}}) -> (b{{[0-9]+}}, b{{[0-9]+}}, b[[TICKETS]])
func.func @sums(%x: tensor<16384x4096xbf16>) -> (tensor<4096xbf16>, tensor<f32>) {
  %y = graph.reduce sum %x dims = [0] : (tensor<16384x4096xbf16>) -> tensor<4096xbf16>
  %w = graph.cast %x : (tensor<16384x4096xbf16>) -> tensor<16384x4096xf32>
  %z = graph.reduce sum %w dims = [0, 1] : (tensor<16384x4096xf32>) -> tensor<f32>
  return %y, %z : tensor<4096xbf16>, tensor<f32>
}
