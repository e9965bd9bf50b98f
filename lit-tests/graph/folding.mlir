// What canonicalization folds: constants, ops that change nothing; what it leaves alone.
// RUN: strata-opt %s --passes=canonicalize | FileCheck %s

// CHECK-LABEL: func.func @constants
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<[5.000000e+00, 7.000000e+00]>
// CHECK-NEXT: return %[[C]]
func.func @constants() -> tensor<2xf32> {
  %a = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = graph.constant dense<[4.0, 5.0]> : tensor<2xf32>
  %c = graph.add %a, %b : tensor<2xf32>
  return %c : tensor<2xf32>
}

// CHECK-LABEL: func.func @reduced
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<6>
// CHECK-NEXT: return %[[C]]
func.func @reduced() -> tensor<i64> {
  %c = graph.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %s = graph.reduce sum %c dims = [0] : (tensor<4xi64>) -> tensor<i64>
  return %s : tensor<i64>
}

// CHECK-LABEL: func.func @identities(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @identities(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %a = graph.cast %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = graph.broadcast %x dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = graph.reshape %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %d = graph.transpose %x permutation = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %e = graph.reduce sum %x dims = [] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a, %b, %c, %d, %e : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// Repeating a constant would make it larger.
// CHECK-LABEL: func.func @repeated
// CHECK: graph.constant
// CHECK-NEXT: graph.broadcast
func.func @repeated() -> tensor<64xf32> {
  %a = graph.constant dense<1.0> : tensor<f32>
  %b = graph.broadcast %a dims = [] : (tensor<f32>) -> tensor<64xf32>
  return %b : tensor<64xf32>
}

// Constant indices that are inside, counted from the front; what is outside is reported when the program runs.
// CHECK-LABEL: func.func @constant_indices
// CHECK-DAG: %[[I:.*]] = graph.constant dense<[3, 0]>
// CHECK-DAG: %[[O:.*]] = graph.constant dense<[-1, 0]>
// CHECK-DAG: %[[C:.*]] = graph.check_index %[[O]] below <4> wrap = false
// CHECK: return %[[I]], %[[C]]
func.func @constant_indices() -> (tensor<2xi64>, tensor<2xi64>) {
  %i = graph.constant dense<[-1, 0]> : tensor<2xi64>
  %a = graph.check_index %i below #graph.dims<4> wrap = true "out of range" : tensor<2xi64>
  %b = graph.check_index %i below #graph.dims<4> wrap = false "out of range" : tensor<2xi64>
  return %a, %b : tensor<2xi64>, tensor<2xi64>
}
