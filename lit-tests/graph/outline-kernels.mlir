// RUN: strata-opt %s --passes=fuse,outline-kernels | FileCheck %s

// Two groups that compute the same thing share a kernel; symbols of the kernel are its own.
// CHECK-LABEL: func.func @twice
// CHECK: %[[A:.*]] = graph.call @k0(%{{.*}}) symbols = <s1> :
// CHECK: %[[B:.*]] = graph.dot_general
// CHECK: graph.call @k0(%[[B]]) symbols = <s1> :
// CHECK: func.func private @k0(%{{.*}}: tensor<?x4xf32, #graph.dims<s0, 4>>) -> tensor<?x4xf32, #graph.dims<s0, 4>>
// CHECK-SAME: graph.kernel
// CHECK-SAME: graph.symbols = [{name = "rows"}]
// CHECK: graph.exp
// CHECK-NOT: func.func
func.func @twice(%u: tensor<?xf32, #graph.dims<s0>>, %x: tensor<?x4xf32, #graph.dims<s1, 4>>, %w: tensor<4x4xf32>) -> tensor<?x4xf32, #graph.dims<s1, 4>> attributes {graph.symbols = [{name = "unused"}, {name = "rows"}]} {
  %0 = graph.exp %x : tensor<?x4xf32, #graph.dims<s1, 4>>
  %1 = graph.dot_general %0, %w batch = [] x [] contracting = [1] x [0] : (tensor<?x4xf32, #graph.dims<s1, 4>>, tensor<4x4xf32>) -> tensor<?x4xf32, #graph.dims<s1, 4>>
  %2 = graph.exp %1 : tensor<?x4xf32, #graph.dims<s1, 4>>
  return %2 : tensor<?x4xf32, #graph.dims<s1, 4>>
}
