// RUN: strata-translate %s --to=plan | FileCheck %s

// Results with numbers of their own: the argument that is returned is copied, the two results that are one value share its memory where they
// may (both have number 2), and the third is a copy of it.
// CHECK: output %out0 = [[GIVEN:b[0-9]+]]
// CHECK: output %out1 = [[VIEW:b[0-9]+]]
// CHECK: output %out2 = [[SUM:b[0-9]+]]
// CHECK: output %out3 = [[OTHER:b[0-9]+]]
// CHECK: buffer [[X:b[0-9]+]] : f32[4, 6] = input 0
// CHECK: buffer [[SUM]] : f32[4, 6] = alias of [[VIEW]]
// CHECK: buffer [[VIEW]] : f32[24] = output 1
// CHECK: copy [[X]] -> [[GIVEN]]
// CHECK: copy [[SUM]] -> [[OTHER]]
// CHECK-NOT: copy
func.func @apart(%x: tensor<4x6xf32>) -> (tensor<4x6xf32> {graph.memory = 1}, tensor<24xf32> {graph.memory = 2},
    tensor<4x6xf32> {graph.memory = 2}, tensor<4x6xf32> {graph.memory = 3}) {
  %0 = graph.add %x, %x : tensor<4x6xf32>
  %1 = graph.reshape %0 : (tensor<4x6xf32>) -> tensor<24xf32>
  return %x, %1, %0, %0 : tensor<4x6xf32>, tensor<24xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}
