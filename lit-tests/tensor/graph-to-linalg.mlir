// RUN: strata-opt %s --passes=graph-to-linalg | FileCheck %s

// A pointwise op: the broadcast is in the indexing map, the constant in the body, bf16 rounds at the end.
// CHECK: func.func @bias_relu(%arg0: tensor<?x128xbf16> {loop.dims = #graph.dims<s0, 128>}, %arg1: tensor<128xbf16> {loop.dims = #graph.dims<128>}, %arg2: index)
// CHECK: tensor.empty(%arg2) : tensor<?x128xbf16>
// CHECK: linalg.generic
// CHECK: iterator_types = ["parallel", "parallel"]
// CHECK: arith.extf
// CHECK: arith.addf
// CHECK: arith.truncf
// CHECK: linalg.generic
// CHECK: arith.constant 0.000000e+00 : bf16
// CHECK: arith.maximumf
// CHECK: return
// CHECK-NOT: graph.add
func.func @bias_relu(%x: tensor<?x128xbf16, #graph.dims<s0, 128>>, %b: tensor<128xbf16>) -> tensor<?x128xbf16, #graph.dims<s0, 128>>
    attributes {graph.symbols = [{name = "batch", min = 1, max = 64}]} {
  %0 = graph.broadcast %b dims = [1] : (tensor<128xbf16>) -> tensor<?x128xbf16, #graph.dims<s0, 128>>
  %1 = graph.add %x, %0 : tensor<?x128xbf16, #graph.dims<s0, 128>>
  %2 = graph.constant dense<0.0> : tensor<bf16>
  %3 = graph.broadcast %2 dims = [] : (tensor<bf16>) -> tensor<?x128xbf16, #graph.dims<s0, 128>>
  %4 = graph.max %1, %3 : tensor<?x128xbf16, #graph.dims<s0, 128>>
  return %4 : tensor<?x128xbf16, #graph.dims<s0, 128>>
}

// A sum is kept in f32 and rounded once.
// CHECK: func.func @row_sum
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: linalg.fill
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: arith.truncf
func.func @row_sum(%x: tensor<4x?xf16, #graph.dims<4, s0>>) -> tensor<4xf16>
    attributes {graph.symbols = [{name = "length"}]} {
  %0 = graph.reduce sum %x dims = [1] : (tensor<4x?xf16, #graph.dims<4, s0>>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// Sizes are computed from the symbols; equal sizes once.
// CHECK: func.func @views
// CHECK: affine.apply
// CHECK: tensor.expand_shape
// CHECK: iterator_types = ["parallel", "parallel", "parallel"]
// CHECK: tensor.extract_slice
// CHECK: tensor.pad
// CHECK: tensor.concat dim(1)
func.func @views(%x: tensor<?x6xf32, #graph.dims<s0 * 2, 6>>) -> tensor<2x?x3xf32, #graph.dims<2, s0 * 4 + 3, 3>>
    attributes {graph.symbols = [{name = "n"}]} {
  %0 = graph.reshape %x : (tensor<?x6xf32, #graph.dims<s0 * 2, 6>>) -> tensor<?x2x3xf32, #graph.dims<s0 * 2, 2, 3>>
  %1 = graph.transpose %0 permutation = [1, 0, 2] : (tensor<?x2x3xf32, #graph.dims<s0 * 2, 2, 3>>) -> tensor<2x?x3xf32, #graph.dims<2, s0 * 2, 3>>
  %2 = graph.slice %1 from #graph.dims<0, 0, 0> to #graph.dims<2, s0 * 2, 3> by [1, 1, 1] : (tensor<2x?x3xf32, #graph.dims<2, s0 * 2, 3>>) -> tensor<2x?x3xf32, #graph.dims<2, s0 * 2, 3>>
  %3 = graph.constant dense<1.0> : tensor<f32>
  %4 = graph.pad %2 with %3 low #graph.dims<0, 1, 0> high <0, 2, 0> : (tensor<2x?x3xf32, #graph.dims<2, s0 * 2, 3>>, tensor<f32>) -> tensor<2x?x3xf32, #graph.dims<2, s0 * 2 + 3, 3>>
  %5 = graph.concat %4, %1 dim = 1 : (tensor<2x?x3xf32, #graph.dims<2, s0 * 2 + 3, 3>>, tensor<2x?x3xf32, #graph.dims<2, s0 * 2, 3>>) -> tensor<2x?x3xf32, #graph.dims<2, s0 * 4 + 3, 3>>
  return %5 : tensor<2x?x3xf32, #graph.dims<2, s0 * 4 + 3, 3>>
}

// CHECK: func.func @embedding
// CHECK: arith.index_cast
// CHECK: tensor.extract
func.func @embedding(%table: tensor<100x8xf32>, %ids: tensor<?xi64, #graph.dims<s0>>) -> tensor<?x8xf32, #graph.dims<s0, 8>>
    attributes {graph.symbols = [{name = "tokens"}]} {
  %0 = graph.gather %table at %ids dim = 0 : (tensor<100x8xf32>, tensor<?xi64, #graph.dims<s0>>) -> tensor<?x8xf32, #graph.dims<s0, 8>>
  return %0 : tensor<?x8xf32, #graph.dims<s0, 8>>
}

// Indices that are known to be inside are neither counted from the end nor clamped, and a scatter leaves none out.
// CHECK: func.func @checked
// CHECK: linalg.generic
// CHECK: ^bb0(%[[I:.*]]: i64, %{{.*}}: i64):
// CHECK-NEXT: %[[C:.*]] = loop.check_index %[[I]] below %{{.*}} wrap = false "out of range" : i64
// CHECK-NEXT: linalg.yield %[[C]] : i64
// CHECK: ^bb0
// CHECK-NEXT: arith.index_cast
// CHECK-NEXT: linalg.index 1
// CHECK-NEXT: tensor.extract
// CHECK: loop.scatter add {{.*}} dim = 0 in_bounds :
func.func @checked(%table: tensor<100x8xf32>, %ids: tensor<?xi64, #graph.dims<s0>>) -> tensor<100x8xf32>
    attributes {graph.symbols = [{name = "tokens"}]} {
  %c = graph.check_index %ids below #graph.dims<100> wrap = false "out of range" : tensor<?xi64, #graph.dims<s0>>
  %0 = graph.gather %table at %c dim = 0 : (tensor<100x8xf32>, tensor<?xi64, #graph.dims<s0>>) -> tensor<?x8xf32, #graph.dims<s0, 8>>
  %1 = graph.scatter add %0 into %table at %c dim = 0 : (tensor<100x8xf32>, tensor<?xi64, #graph.dims<s0>>, tensor<?x8xf32, #graph.dims<s0, 8>>) -> tensor<100x8xf32>
  return %1 : tensor<100x8xf32>
}

// Scatters and running combinations are ops of their own.
// CHECK: func.func @scatter_scan
// CHECK: loop.scatter max %{{.*}} into %arg0 at %arg1 dim = 1 : (tensor<4x?xf32>, tensor<4x?xf32>, tensor<?xi64>) -> tensor<4x?xf32>
// CHECK: loop.scan mul %{{.*}} dim = 1 : (tensor<4x?xf32>) -> tensor<4x?xf32>
func.func @scatter_scan(%x: tensor<4x?xf32, #graph.dims<4, s0>>, %i: tensor<?xi64, #graph.dims<s1>>, %u: tensor<4x?xf32, #graph.dims<4, s1>>) -> tensor<4x?xf32, #graph.dims<4, s0>> attributes {graph.symbols = [{name = "n"}, {name = "m"}]} {
  %0 = graph.scatter max %u into %x at %i dim = 1 : (tensor<4x?xf32, #graph.dims<4, s0>>, tensor<?xi64, #graph.dims<s1>>, tensor<4x?xf32, #graph.dims<4, s1>>) -> tensor<4x?xf32, #graph.dims<4, s0>>
  %1 = graph.scan prod %0 dim = 1 : tensor<4x?xf32, #graph.dims<4, s0>>
  return %1 : tensor<4x?xf32, #graph.dims<4, s0>>
}

// So are sorts, which have two results.
// CHECK: func.func @sorted
// CHECK: %[[V:.*]], %[[I:.*]] = loop.sort %arg0 dim = 1 descending = true : (tensor<4x?xf32>) -> (tensor<4x?xf32>, tensor<4x?xi64>)
// CHECK: return %[[V]], %[[I]]
func.func @sorted(%x: tensor<4x?xf32, #graph.dims<4, s0>>) -> (tensor<4x?xf32, #graph.dims<4, s0>>, tensor<4x?xi64, #graph.dims<4, s0>>) attributes {graph.symbols = [{name = "n"}]} {
  %0, %1 = graph.sort %x dim = 1 descending = true : (tensor<4x?xf32, #graph.dims<4, s0>>) -> (tensor<4x?xf32, #graph.dims<4, s0>>, tensor<4x?xi64, #graph.dims<4, s0>>)
  return %0, %1 : tensor<4x?xf32, #graph.dims<4, s0>>, tensor<4x?xi64, #graph.dims<4, s0>>
}
