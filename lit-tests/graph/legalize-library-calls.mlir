// RUN: strata-opt %s --passes=legalize-library-calls | FileCheck %s

// The batch dimension stands last: no strides make this one batched product.
// CHECK-LABEL: func.func @batch_last
// CHECK: graph.transpose %{{.*}} permutation = [2, 0, 1]
// CHECK: graph.transpose %{{.*}} permutation = [2, 1, 0]
// CHECK: graph.dot_general %{{.*}}, %{{.*}} batch = [0] x [0] contracting = [2] x [2]
func.func @batch_last(%a: tensor<4x5x6xf32>, %b: tensor<5x7x6xf32>) -> tensor<6x4x7xf32> {
  %0 = graph.dot_general %a, %b batch = [2] x [2] contracting = [1] x [0] : (tensor<4x5x6xf32>, tensor<5x7x6xf32>) -> tensor<6x4x7xf32>
  return %0 : tensor<6x4x7xf32>
}

// A transposed weight is read through strides: nothing to do.
// CHECK-LABEL: func.func @linear
// CHECK-NOT: graph.transpose
func.func @linear(%a: tensor<2x4x5xf32>, %b: tensor<7x5xf32>) -> tensor<2x4x7xf32> {
  %0 = graph.dot_general %a, %b batch = [] x [] contracting = [2] x [1] : (tensor<2x4x5xf32>, tensor<7x5xf32>) -> tensor<2x4x7xf32>
  return %0 : tensor<2x4x7xf32>
}

// CHECK-LABEL: func.func @unequal_padding
// CHECK: graph.pad %{{.*}} with %{{.*}} low <0, 0, 1, 0> high <0, 0, 2, 0>
// CHECK: graph.convolution {{.*}} low = [0, 0] high = [0, 0]
func.func @unequal_padding(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x9x6xf32> {
  %0 = graph.convolution %x, %w strides = [1, 1] low = [1, 0] high = [2, 0] dilation = [1, 1] groups = 1 : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x9x6xf32>
  return %0 : tensor<1x4x9x6xf32>
}
