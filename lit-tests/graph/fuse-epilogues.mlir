// RUN: strata-opt %s --passes=fuse-epilogues | FileCheck %s
// RUN: strata-opt %s --passes=fuse-epilogues{numerics=strict} | FileCheck %s --check-prefix=KEPT
// RUN: strata-opt %s --passes=fuse-epilogues{libraries=none} | FileCheck %s --check-prefix=KEPT
// RUN: strata-opt %s --passes=decompose-composites,fuse-epilogues | FileCheck %s
// RUN: strata-opt %s --passes=fuse-epilogues,decompose-composites,fuse-epilogues | FileCheck %s
// RUN: strata-opt %s --passes=fuse-epilogues,decompose-composites --check-semantics=3 -o /dev/null

// KEPT-NOT: graph.linear

// CHECK-LABEL: func.func @layer
// CHECK-NEXT: %[[Y:.*]] = graph.linear %{{.*}}, %{{.*}} bias %{{.*}} batch = [] x [] contracting = [1] x [1] : (tensor<4x8xbf16>, tensor<6x8xbf16>, tensor<6xbf16>) -> tensor<4x6xbf16>
// CHECK-NEXT: return %[[Y]]
func.func @layer(%x: tensor<4x8xbf16>, %w: tensor<6x8xbf16>, %v: tensor<6xbf16>) -> tensor<4x6xbf16> {
  %0 = graph.dot_general %x, %w batch = [] x [] contracting = [1] x [1] : (tensor<4x8xbf16>, tensor<6x8xbf16>) -> tensor<4x6xbf16>
  %1 = graph.broadcast %v dims = [1] : (tensor<6xbf16>) -> tensor<4x6xbf16>
  %2 = graph.add %0, %1 : tensor<4x6xbf16>
  return %2 : tensor<4x6xbf16>
}

// The vector may come first, and the product may be a stack of them.
// CHECK-LABEL: func.func @stack
// CHECK: graph.linear %{{.*}}, %{{.*}} bias %{{.*}} batch = [0] x [0]
func.func @stack(%x: tensor<2x4x8xf32>, %w: tensor<2x8x6xf32>, %v: tensor<6xf32>) -> tensor<2x4x6xf32> {
  %0 = graph.dot_general %x, %w batch = [0] x [0] contracting = [2] x [1] : (tensor<2x4x8xf32>, tensor<2x8x6xf32>) -> tensor<2x4x6xf32>
  %1 = graph.broadcast %v dims = [2] : (tensor<6xf32>) -> tensor<2x4x6xf32>
  %2 = graph.add %1, %0 : tensor<2x4x6xf32>
  return %2 : tensor<2x4x6xf32>
}

// The product is read twice, or the vector runs along another dimension: nothing to fuse.
// CHECK-LABEL: func.func @read_twice
// CHECK-NOT: graph.linear
func.func @read_twice(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %v: tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = graph.dot_general %x, %w batch = [] x [] contracting = [1] x [1] : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
  %1 = graph.broadcast %v dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
  %2 = graph.add %0, %1 : tensor<4x6xf32>
  return %0, %2 : tensor<4x6xf32>, tensor<4x6xf32>
}
// A single number repeated along the dimension is a broadcast too, and not a vector.
// CHECK-LABEL: func.func @one_number
// CHECK-NOT: graph.linear
func.func @one_number(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %v: tensor<1xf32>) -> tensor<4x6xf32> {
  %0 = graph.dot_general %x, %w batch = [] x [] contracting = [1] x [1] : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
  %1 = graph.broadcast %v dims = [1] : (tensor<1xf32>) -> tensor<4x6xf32>
  %2 = graph.add %0, %1 : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}
// CHECK-LABEL: func.func @along_rows
// CHECK-NOT: graph.linear
func.func @along_rows(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %v: tensor<4xf32>) -> tensor<4x6xf32> {
  %0 = graph.dot_general %x, %w batch = [] x [] contracting = [1] x [1] : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
  %1 = graph.broadcast %v dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
  %2 = graph.add %0, %1 : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}
