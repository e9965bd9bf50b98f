// Long rows: the largest element and the sum of exponentials in one pass, in which the row goes into shared memory, from where it is read again.
// RUN: strata-opt %s --target=nvptx:sm_90a --compile-to=loop | FileCheck %s
// RUN: strata-opt %s --target=nvptx:sm_90a --passes=decompose-composites,fuse,outline-kernels,graph-to-linalg{numerics=strict},cse,linalg-to-loops | FileCheck %s --check-prefix=STRICT

// CHECK: %[[ROW:.*]] = memref.alloca() : memref<32768xbf16, #gpu.address_space<workgroup>>
// CHECK: scf.for
// CHECK-COUNT-4: vector.load %arg0
// CHECK-COUNT-4: vector.store {{.*}}, %[[ROW]]
// CHECK-COUNT-5: math.exp
// CHECK: loop.all_reduce max
// CHECK: math.exp
// CHECK: loop.all_reduce add
// CHECK: scf.for
// CHECK-NOT: vector.load %arg0
// CHECK-COUNT-4: vector.load %[[ROW]]
// CHECK-COUNT-4: math.exp

// Strict numerics add what the program says.
// STRICT: loop.all_reduce max
// STRICT: scf.for
// STRICT: loop.all_reduce add
func.func @softmax(%x: tensor<2048x32768xbf16>) -> tensor<2048x32768xbf16> {
  %y = graph.softmax %x dim = 1 : tensor<2048x32768xbf16>
  return %y : tensor<2048x32768xbf16>
}
