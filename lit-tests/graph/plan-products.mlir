// RUN: strata-translate %s --to=plan --target=nvptx:sm_90a | FileCheck %s --check-prefix=GPU
// RUN: strata-translate %s --to=plan --target=cpu | FileCheck %s --check-prefix=CPU

// On a GPU the library is much faster where rows are a multiple of 16 bytes: the first 1024 columns go into rows of their own and from there
// to the result, which has the last column from a product of its own.
// GPU-DAG: buffer b[[ROWS:[0-9]+]] : bf16[1, 256, 1024] in arena at 0
// GPU-DAG: buffer b[[RHS:[0-9]+]] : bf16[1, 256, 1] strides [262400, 1, 256] = alias of b1 offset 262144
// GPU-DAG: buffer b[[LAST:[0-9]+]] : bf16[1, 256, 1] strides [262400, 1025, 1] = alias of b3 offset 1024
// GPU-DAG: buffer b[[FROM:[0-9]+]] : bf16[1, 256, 1024] strides [262144, 1024, 1] = alias of b[[ROWS]] offset 0
// GPU-DAG: buffer b[[TO:[0-9]+]] : bf16[1, 256, 1024] strides [262400, 1025, 1] = alias of b3 offset 0
// GPU: product b[[LAST]]<262400, 1025, 1> = b0<65536, 256, 1> by b[[RHS]]<262400, 1, 256> batch 1 m 256 n 1 k 256 bias b{{[0-9]+}}
// GPU-NEXT: product b[[ROWS]]<262144, 1024, 1> = b{{[0-9]+}}<65536, 256, 1> by b1<262400, 1, 256> batch 1 m 256 n 1024 k 256 bias b{{[0-9]+}}
// GPU-NEXT: copy b[[FROM]] -> b[[TO]]
// GPU-NEXT: }
// CPU: product b3<262400, 1025, 1> = b0<65536, 256, 1> by b1<262400, 1, 256> batch 1 m 256 n 1025 k 256 bias b2
// CPU-NOT: copy
func.func @logits(%x: tensor<256x256xbf16>, %w: tensor<1025x256xbf16>, %b: tensor<1025xbf16>) -> tensor<256x1025xbf16> {
  %0 = graph.linear %x, %w bias %b batch = [] x [] contracting = [1] x [1] : (tensor<256x256xbf16>, tensor<1025x256xbf16>, tensor<1025xbf16>) -> tensor<256x1025xbf16>
  return %0 : tensor<256x1025xbf16>
}
