// RUN: strata-translate %s --to=plan | FileCheck %s

// The called program sees rows of six with a gap of two behind each, and one row as three; an argument as it lies; and a transposed
// result. Nothing is copied for it.
// CHECK-DAG: buffer b[[ARG:[0-9]+]] : f32[4, 6] strides [1, 8] = input 0
// CHECK-DAG: buffer b[[ROWS:[0-9]+]] : f32[3, 4, 6] strides [0, 8, 1] = alias of b[[DENSE:[0-9]+]] offset 0
// CHECK-DAG: buffer b[[DENSE]] : f32[1, 4, 8] = input 1
// CHECK-DAG: buffer b[[SEEN:[0-9]+]] : f32[4, 6] strides [1, 4] = alias of b[[OUT:[0-9]+]] offset 0
// CHECK-DAG: buffer b[[OUT]] : f32[6, 4] = output 0
// CHECK-NOT: copy
// CHECK: host @f(b[[ARG]], b[[ROWS]]) symbols() -> (b[[SEEN]])
func.func @calls(%x: tensor<4x6xf32> {graph.strides = #graph.dims<1, 8>}, %y: tensor<1x4x8xf32>) -> tensor<6x4xf32> {
  %0 = graph.custom_call "f"(%x, %y) symbols = <> payload "{}" reason ""
    {as_is = array<i64: 0>, layouts = array<i64: 0, 1, 0, 1, 2, 1, 0>, sizes = #graph.dims<4, 6, 3, 4, 6>}
    : (tensor<4x6xf32>, tensor<1x4x8xf32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}
