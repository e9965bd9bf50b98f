// RUN: strata-translate %s --to=plan | FileCheck %s

// A reshape of an argument that is not row-major needs a copy; it is returned, so the copy is memory of the caller, not of the arena.
// CHECK: buffer b[[COPY:[0-9]+]] : f32[4, 6] = alias of b[[OUT:[0-9]+]] offset 0
// CHECK: buffer b[[OUT]] : f32[24] = output 0
// CHECK: arena 0 bytes
// CHECK: copy b0 -> b[[COPY]]
func.func @flat(%x: tensor<4x6xf32> {graph.strides = #graph.dims<1, 4>}) -> tensor<24xf32> {
  %0 = graph.reshape %x : (tensor<4x6xf32>) -> tensor<24xf32>
  return %0 : tensor<24xf32>
}
