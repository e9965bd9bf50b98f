// A long reduction with few results is one of its parts and one of theirs, on the CPU; sums of narrow floats stay in f32 between.
// RUN: strata-opt %s --passes=split-reductions | FileCheck %s
// RUN: strata-opt %s --passes=split-reductions --target=nvptx:sm_90a | FileCheck %s --check-prefix=GPU
// RUN: strata-opt %s --passes=split-reductions --check-semantics=2 -o /dev/null

// GPU-NOT: graph.reshape

// CHECK-LABEL: func.func @mean
// CHECK: %[[W:.*]] = graph.cast %arg0 : (tensor<2x512x512xbf16>) -> tensor<2x512x512xf32>
// CHECK: %[[P:.*]] = graph.reshape %[[W]] : (tensor<2x512x512xf32>) -> tensor<2x32x8192xf32>
// CHECK: %[[S:.*]] = graph.reduce sum %[[P]] dims = [2] : (tensor<2x32x8192xf32>) -> tensor<2x32xf32>
// CHECK: %[[T:.*]] = graph.reduce sum %[[S]] dims = [1] : (tensor<2x32xf32>) -> tensor<2xf32>
// CHECK: graph.cast %[[T]] : (tensor<2xf32>) -> tensor<2xbf16>
func.func @mean(%x: tensor<2x512x512xbf16>) -> tensor<2xbf16> {
  %0 = graph.reduce sum %x dims = [1, 2] : (tensor<2x512x512xbf16>) -> tensor<2xbf16>
  return %0 : tensor<2xbf16>
}

// Enough results, columns, too short, no equal parts of whole vectors: nothing to gain.
// CHECK-LABEL: func.func @kept
// CHECK-NOT: graph.reshape
func.func @kept(%x: tensor<64x65536xf32>, %y: tensor<65536x4xf32>, %z: tensor<8192xf32>, %w: tensor<65537xi64>)
    -> (tensor<64xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>) {
  %0 = graph.reduce max %x dims = [1] : (tensor<64x65536xf32>) -> tensor<64xf32>
  %1 = graph.reduce sum %y dims = [0] : (tensor<65536x4xf32>) -> tensor<4xf32>
  %2 = graph.reduce sum %z dims = [0] : (tensor<8192xf32>) -> tensor<f32>
  %3 = graph.reduce sum %w dims = [0] : (tensor<65537xi64>) -> tensor<i64>
  return %0, %1, %2, %3 : tensor<64xf32>, tensor<4xf32>, tensor<f32>, tensor<i64>
}
