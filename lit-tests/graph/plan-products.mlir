// RUN: strata-translate %s --to=plan --target=nvptx:sm_90a | FileCheck %s --check-prefix=GPU
// RUN: strata-translate %s --to=plan --target=cpu | FileCheck %s --check-prefix=CPU

// On a GPU the library writes rows of a multiple of 16 bytes much faster: the product goes into longer rows, and from there to the result.
// GPU: product b4<264192, 1032, 1> = b0<65536, 256, 1> by b1<262400, 1, 256> batch 1 m 256 n 1025 k 256 bias b2
// GPU-NEXT: copy b5 -> b6
// CPU: product b3<262400, 1025, 1> = b0<65536, 256, 1> by b1<262400, 1, 256> batch 1 m 256 n 1025 k 256 bias b2
// CPU-NOT: copy
func.func @logits(%x: tensor<256x256xbf16>, %w: tensor<1025x256xbf16>, %b: tensor<1025xbf16>) -> tensor<256x1025xbf16> {
  %0 = graph.linear %x, %w bias %b batch = [] x [] contracting = [1] x [1] : (tensor<256x256xbf16>, tensor<1025x256xbf16>, tensor<1025xbf16>) -> tensor<256x1025xbf16>
  return %0 : tensor<256x1025xbf16>
}
