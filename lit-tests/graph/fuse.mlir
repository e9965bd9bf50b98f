// RUN: strata-opt %s --split-input-file --passes=decompose-composites,fuse | FileCheck %s
// RUN: strata-opt %s --split-input-file --passes=decompose-composites,fuse{enable=false} | FileCheck %s --check-prefix=APART

// Prologue, softmax and epilogue are one kernel.
// CHECK-LABEL: func.func @scaled_softmax
// CHECK-NOT: graph.group = 1
// CHECK: return
// APART-LABEL: func.func @scaled_softmax
// APART: graph.group = 1
func.func @scaled_softmax(%x: tensor<4x8xf32>, %s: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.mul %x, %s : tensor<4x8xf32>
  %1 = graph.softmax %0 dim = 1 : tensor<4x8xf32>
  %2 = graph.exp %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// What a library computes stays out; a transposition that it reads through strides does too.
// CHECK-LABEL: func.func @linear_relu
// CHECK: graph.transpose %{{.*}} permutation = [1, 0] :
// CHECK: graph.dot_general {{.*}} :
// CHECK: graph.max {{.*}} {graph.group = 0 : i64}
func.func @linear_relu(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %zero: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = graph.transpose %w permutation = [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %1 = graph.dot_general %x, %0 batch = [] x [] contracting = [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %2 = graph.max %1, %zero : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// -----

// The sum is returned and normalised: one kernel with two results.
// CHECK-LABEL: func.func @residual
// CHECK: graph.add {{.*}} {graph.group = 0 : i64}
// CHECK-NOT: graph.group = 1
// CHECK: return
func.func @residual(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = graph.add %x, %y : tensor<4x8xf32>
  %1 = graph.layer_norm %0 dims = 1 epsilon = 1.000000e-05 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Reductions over different dimensions are two kernels.
// CHECK-LABEL: func.func @two_ways
// CHECK: graph.reduce sum {{.*}} {graph.group = 0 : i64}
// CHECK: graph.reduce sum {{.*}} {graph.group = 1 : i64}
func.func @two_ways(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %0 = graph.reduce sum %x dims = [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %1 = graph.reduce sum %x dims = [0] : (tensor<4x8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<4xf32>, tensor<8xf32>
}

// -----

// A causal mask is computed in each kernel that uses it: it costs less than reading it.
// CHECK-LABEL: func.func @mask_of_two
// CHECK-COUNT-2: graph.compare
func.func @mask_of_two(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %z = graph.constant dense<0.0> : tensor<f32>
  %i = graph.iota dim = 0 : tensor<4x8xi64>
  %j = graph.iota dim = 1 : tensor<4x8xi64>
  %m = graph.compare le %j, %i : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi1>
  %zeros = graph.broadcast %z dims = [] : (tensor<f32>) -> tensor<4x8xf32>
  %0 = graph.select %m, %x, %zeros : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.dot_general %0, %w batch = [] x [] contracting = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = graph.select %m, %1, %y : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// A scatter's updates and indices are computed in its kernel; what it changes comes from a kernel of its own, and what reads the
// result is another. So is a running sum.
// CHECK-LABEL: func.func @scattered_sum
// CHECK: graph.neg {{.*}} {graph.group = 0 : i64}
// CHECK: graph.exp {{.*}} {graph.group = 1 : i64}
// CHECK: graph.scatter add {{.*}} {graph.group = 1 : i64}
// CHECK: graph.sqrt {{.*}} {graph.group = 2 : i64}
// CHECK: graph.scan sum {{.*}} {graph.group = 3 : i64}
func.func @scattered_sum(%x: tensor<6x5xf32>, %i: tensor<3xi64>, %u: tensor<3x5xf32>) -> tensor<6x5xf32> {
  %0 = graph.neg %x : tensor<6x5xf32>
  %1 = graph.exp %u : tensor<3x5xf32>
  %2 = graph.scatter add %1 into %0 at %i dim = 0 : (tensor<6x5xf32>, tensor<3xi64>, tensor<3x5xf32>) -> tensor<6x5xf32>
  %3 = graph.sqrt %2 : tensor<6x5xf32>
  %4 = graph.scan sum %3 dim = 1 : tensor<6x5xf32>
  return %4 : tensor<6x5xf32>
}

// -----

// What is sorted is computed in the sort's kernel, but a reduction is not, and neither is what reads the results.
// CHECK-LABEL: func.func @sorted
// CHECK: graph.reduce max {{.*}} {graph.group = 0 : i64}
// CHECK: graph.sub {{.*}} {graph.group = 1 : i64}
// CHECK: graph.sort {{.*}} {graph.group = 1 : i64}
// CHECK: graph.slice {{.*}} {graph.group = 2 : i64}
// CHECK: graph.neg {{.*}} {graph.group = 2 : i64}
func.func @sorted(%x: tensor<6x5xf32>) -> tensor<6x2xf32> {
  %0 = graph.reduce max %x dims = [1] : (tensor<6x5xf32>) -> tensor<6xf32>
  %1 = graph.broadcast %0 dims = [0] : (tensor<6xf32>) -> tensor<6x5xf32>
  %2 = graph.sub %x, %1 : tensor<6x5xf32>
  %3, %4 = graph.sort %2 dim = 1 descending = false : (tensor<6x5xf32>) -> (tensor<6x5xf32>, tensor<6x5xi64>)
  %5 = graph.slice %3 from <0, 0> to <6, 2> by [1, 1] : (tensor<6x5xf32>) -> tensor<6x2xf32>
  %6 = graph.neg %5 : tensor<6x2xf32>
  return %6 : tensor<6x2xf32>
}

// -----

// What two kernels need and is cheap to compute from one tensor in memory is computed in both: the difference is not written, and the largest
// elements are a further result of the kernel of the sums.
// CHECK-LABEL: func.func @log_softmax
// CHECK: graph.reduce max {{.*}} {graph.group = 0 : i64
// CHECK: graph.sub {{.*}} {graph.group = 0 : i64}
// CHECK: graph.reduce sum {{.*}} {graph.group = 0 : i64
// CHECK: graph.sub %arg0, {{.*}} {graph.group = 1 : i64}
// CHECK: graph.sub {{.*}} {graph.group = 1 : i64}
func.func @log_softmax(%x: tensor<64x32xf32>) -> tensor<32x64xf32> {
  %0 = graph.reduce max %x dims = [1] : (tensor<64x32xf32>) -> tensor<64xf32>
  %1 = graph.broadcast %0 dims = [0] : (tensor<64xf32>) -> tensor<64x32xf32>
  %2 = graph.sub %x, %1 : tensor<64x32xf32>
  %3 = graph.exp %2 : tensor<64x32xf32>
  %4 = graph.reduce sum %3 dims = [1] : (tensor<64x32xf32>) -> tensor<64xf32>
  %5 = graph.log %4 : tensor<64xf32>
  %6 = graph.transpose %2 permutation = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %7 = graph.broadcast %5 dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
  %8 = graph.sub %6, %7 : tensor<32x64xf32>
  return %8 : tensor<32x64xf32>
}
