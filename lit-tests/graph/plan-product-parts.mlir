// RUN: strata-translate %s --to=plan --target=nvptx:sm_90a | FileCheck %s

// Of a product whose rows are not a multiple of 16 bytes 32 MiB are computed at a time, and copied while the cache holds them: here 256 of 600 rows.
// CHECK-DAG: buffer b[[ROWS:[0-9]+]] : bf16[1, 256, 50256] = block
// CHECK-DAG: buffer b[[SECOND:[0-9]+]] : bf16[1, 256, 128] strides [76800, 128, 1] = alias of b0 offset 32768
// CHECK-DAG: buffer b[[THIRD:[0-9]+]] : bf16[1, 88, 128] strides [76800, 128, 1] = alias of b0 offset 65536
// CHECK-DAG: buffer b[[TO:[0-9]+]] : bf16[1, 88, 50256] strides [30154200, 50257, 1] = alias of b2 offset 25731584
// CHECK: product b{{[0-9]+}}<30154200, 50257, 1> = b0<{{.*}} m 600 n 1 k 128
// CHECK-NEXT: product b[[ROWS]]<{{.*}} m 256 n 50256 k 128
// CHECK-NEXT: copy
// CHECK-NEXT: product b[[ROWS]]<{{.*}} = b[[SECOND]]<{{.*}} m 256 n 50256 k 128
// CHECK-NEXT: copy
// CHECK-NEXT: product b[[ROWS]]<{{.*}} = b[[THIRD]]<{{.*}} m 88 n 50256 k 128
// CHECK-NEXT: copy b{{[0-9]+}} -> b[[TO]]
// CHECK-NEXT: }
func.func @logits(%x: tensor<600x128xbf16>, %w: tensor<50257x128xbf16>) -> tensor<600x50257xbf16> {
  %0 = graph.dot_general %x, %w batch = [] x [] contracting = [1] x [1] : (tensor<600x128xbf16>, tensor<50257x128xbf16>) -> tensor<600x50257xbf16>
  return %0 : tensor<600x50257xbf16>
}
