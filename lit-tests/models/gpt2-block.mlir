// A transformer block as GPT-2 has it, for any sequence length. No pass of either pipeline changes what it computes. The test
// `check_semantics` of the compiler does the same in bf16, and in f32 with sizes that are known.
// RUN: strata-opt %s --check-semantics --target=cpu --compile-to=loop -o /dev/null 2>&1 | FileCheck %s
// RUN: strata-opt %s --check-semantics --target=nvptx:sm_90a --compile-to=loop -o /dev/null 2>&1 | FileCheck %s
// CHECK: check-semantics: {{[1-9][0-9]*}} comparisons, 0 skipped

!x = tensor<?x32xf32, #graph.dims<s0, 32>>
!qkv = tensor<?x96xf32, #graph.dims<s0, 96>>
!split = tensor<?x4x8xf32, #graph.dims<s0, 4, 8>>
!heads = tensor<4x?x8xf32, #graph.dims<4, s0, 8>>
!hidden = tensor<?x128xf32, #graph.dims<s0, 128>>

func.func @block(%x: !x,
    %ln1_w: tensor<32xf32>, %ln1_b: tensor<32xf32>, %qkv_w: tensor<32x96xf32>, %qkv_b: tensor<96xf32>,
    %proj_w: tensor<32x32xf32>, %proj_b: tensor<32xf32>, %ln2_w: tensor<32xf32>, %ln2_b: tensor<32xf32>,
    %up_w: tensor<32x128xf32>, %up_b: tensor<128xf32>, %down_w: tensor<128x32xf32>, %down_b: tensor<32xf32>) -> !x
    attributes {graph.symbols = [{name = "sequence", min = 1, max = 1024, hint = 512}]}
{
  // Attention over the layer norm.
  %ln1 = graph.layer_norm %x affine(%ln1_w, %ln1_b) dims = 1 epsilon = 1.0e-05 : (!x, tensor<32xf32>, tensor<32xf32>) -> !x
  %qkv0 = graph.dot_general %ln1, %qkv_w batch = [] x [] contracting = [1] x [0] : (!x, tensor<32x96xf32>) -> !qkv
  %qkv1 = graph.broadcast %qkv_b dims = [1] : (tensor<96xf32>) -> !qkv
  %qkv = graph.add %qkv0, %qkv1 : !qkv
  %q0 = graph.slice %qkv from <0, 0> to <s0, 32> by [1, 1] : (!qkv) -> !x
  %k0 = graph.slice %qkv from <0, 32> to <s0, 64> by [1, 1] : (!qkv) -> !x
  %v0 = graph.slice %qkv from <0, 64> to <s0, 96> by [1, 1] : (!qkv) -> !x
  %q1 = graph.reshape %q0 : (!x) -> !split
  %k1 = graph.reshape %k0 : (!x) -> !split
  %v1 = graph.reshape %v0 : (!x) -> !split
  %q = graph.transpose %q1 permutation = [1, 0, 2] : (!split) -> !heads
  %k = graph.transpose %k1 permutation = [1, 0, 2] : (!split) -> !heads
  %v = graph.transpose %v1 permutation = [1, 0, 2] : (!split) -> !heads
  %a0 = graph.attention %q, %k, %v scale = 0.35355339059327379 causal = true : (!heads, !heads, !heads) -> !heads
  %a1 = graph.transpose %a0 permutation = [1, 0, 2] : (!heads) -> !split
  %a2 = graph.reshape %a1 : (!split) -> !x
  %proj0 = graph.dot_general %a2, %proj_w batch = [] x [] contracting = [1] x [0] : (!x, tensor<32x32xf32>) -> !x
  %proj1 = graph.broadcast %proj_b dims = [1] : (tensor<32xf32>) -> !x
  %proj = graph.add %proj0, %proj1 : !x
  %mid = graph.add %x, %proj : !x

  // Two products with GELU, by tanh, between them.
  %ln2 = graph.layer_norm %mid affine(%ln2_w, %ln2_b) dims = 1 epsilon = 1.0e-05 : (!x, tensor<32xf32>, tensor<32xf32>) -> !x
  %up0 = graph.dot_general %ln2, %up_w batch = [] x [] contracting = [1] x [0] : (!x, tensor<32x128xf32>) -> !hidden
  %up1 = graph.broadcast %up_b dims = [1] : (tensor<128xf32>) -> !hidden
  %up = graph.add %up0, %up1 : !hidden
  %c0 = graph.constant dense<0.5> : tensor<f32>
  %c1 = graph.constant dense<1.0> : tensor<f32>
  %c2 = graph.constant dense<0.044715> : tensor<f32>
  %c3 = graph.constant dense<0.79788456> : tensor<f32>
  %half = graph.broadcast %c0 dims = [] : (tensor<f32>) -> !hidden
  %one = graph.broadcast %c1 dims = [] : (tensor<f32>) -> !hidden
  %cubic = graph.broadcast %c2 dims = [] : (tensor<f32>) -> !hidden
  %root = graph.broadcast %c3 dims = [] : (tensor<f32>) -> !hidden
  %g0 = graph.mul %up, %up : !hidden
  %g1 = graph.mul %g0, %up : !hidden
  %g2 = graph.mul %g1, %cubic : !hidden
  %g3 = graph.add %up, %g2 : !hidden
  %g4 = graph.mul %g3, %root : !hidden
  %g5 = graph.tanh %g4 : !hidden
  %g6 = graph.add %g5, %one : !hidden
  %g7 = graph.mul %up, %half : !hidden
  %gelu = graph.mul %g7, %g6 : !hidden
  %down0 = graph.dot_general %gelu, %down_w batch = [] x [] contracting = [1] x [0] : (!hidden, tensor<128x32xf32>) -> !x
  %down1 = graph.broadcast %down_b dims = [1] : (tensor<32xf32>) -> !x
  %down = graph.add %down0, %down1 : !x
  %y = graph.add %mid, %down : !x
  return %y : !x
}
