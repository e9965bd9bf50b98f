// RUN: strata-opt %s --passes=decompose-composites | FileCheck %s

// CHECK-LABEL: func.func @softmax
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>
// CHECK: %[[W:.*]] = graph.cast %[[X]]
// CHECK: graph.reduce max %[[W]] dims = [1]
// CHECK: graph.sub
// CHECK: %[[E:.*]] = graph.exp
// CHECK: graph.reduce sum %[[E]] dims = [1]
// CHECK: %[[D:.*]] = graph.div
// CHECK: graph.cast %[[D]] : (tensor<4x8xf32>) -> tensor<4x8xbf16>
func.func @softmax(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = graph.softmax %x dim = 1 : tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// A symbolic count of elements is a value of its own.
// CHECK-LABEL: func.func @layer_norm
// CHECK: graph.dim <s0> : tensor<i64>
// CHECK: graph.rsqrt
// CHECK-NOT: graph.layer_norm
func.func @layer_norm(%x: tensor<4x?xf32, #graph.dims<4, s0>>) -> tensor<4x?xf32, #graph.dims<4, s0>> attributes {graph.symbols = [{name = "width"}]} {
  %0 = graph.layer_norm %x dims = 1 epsilon = 1.000000e-05 : (tensor<4x?xf32, #graph.dims<4, s0>>) -> tensor<4x?xf32, #graph.dims<4, s0>>
  return %0 : tensor<4x?xf32, #graph.dims<4, s0>>
}

// CHECK-LABEL: func.func @attention
// CHECK: graph.dot_general
// CHECK: graph.compare le
// CHECK: graph.select
// CHECK: graph.exp
// CHECK: graph.dot_general
// CHECK-NOT: graph.attention
func.func @attention(%q: tensor<2x3x5x4xf32>, %k: tensor<2x3x5x4xf32>, %v: tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32> {
  %0 = graph.attention %q, %k, %v scale = 5.000000e-01 causal = true : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  return %0 : tensor<2x3x5x4xf32>
}
