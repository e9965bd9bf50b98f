// RUN: strata-translate %s --to=plan --target=nvptx:sm_90a | FileCheck %s --check-prefix=GPU
// RUN: strata-translate %s --to=plan --target=cpu | FileCheck %s --check-prefix=CPU

// On a GPU a large intermediate has memory of its own while it is needed, a small one is in the arena. A size that is not known counts with its hint.
// GPU-DAG: buffer b{{[0-9]+}} : f32[512, 1024] = block
// GPU-DAG: buffer b{{[0-9]+}} : f32[16, 1024] in arena at 0
// GPU-DAG: buffer b{{[0-9]+}} : f32[s0, 1024] = block
// GPU: arena 65536 bytes
// CPU-NOT: block{{$}}
// CPU: arena
func.func @sizes(%x: tensor<512x1024xf32>, %y: tensor<16x1024xf32>, %z: tensor<?x1024xf32, #graph.dims<s0, 1024>>, %w: tensor<1024x8xf32>)
    -> (tensor<512x8xf32>, tensor<16x8xf32>, tensor<?x8xf32, #graph.dims<s0, 8>>) attributes {graph.symbols = [{name = "rows", min = 1, hint = 4096}]} {
  %0 = graph.exp %x : tensor<512x1024xf32>
  %1 = graph.exp %y : tensor<16x1024xf32>
  %2 = graph.exp %z : tensor<?x1024xf32, #graph.dims<s0, 1024>>
  %3 = graph.dot_general %0, %w batch = [] x [] contracting = [1] x [0]
    : (tensor<512x1024xf32>, tensor<1024x8xf32>) -> tensor<512x8xf32>
  %4 = graph.dot_general %1, %w batch = [] x [] contracting = [1] x [0]
    : (tensor<16x1024xf32>, tensor<1024x8xf32>) -> tensor<16x8xf32>
  %5 = graph.dot_general %2, %w batch = [] x [] contracting = [1] x [0]
    : (tensor<?x1024xf32, #graph.dims<s0, 1024>>, tensor<1024x8xf32>) -> tensor<?x8xf32, #graph.dims<s0, 8>>
  return %3, %4, %5 : tensor<512x8xf32>, tensor<16x8xf32>, tensor<?x8xf32, #graph.dims<s0, 8>>
}
