// RUN: strata-opt %s --target=nvptx:sm_90a --passes=linalg-to-loops | FileCheck %s

// CHECK-LABEL: func.func @sum_rows
// CHECK-COUNT-4: vector.load
// CHECK: loop.all_reduce add
// CHECK: scf.if
// CHECK-NEXT: memref.store {{.*}} : memref<16384xf32>

func.func @sum_rows(%x: tensor<16384x4096xbf16>) -> tensor<16384xf32> {
  %1 = tensor.empty() : tensor<16384x4096xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %r = arith.extf %a fastmath<contract> : bf16 to f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %3 = arith.constant 0.0 : f32
  %4 = tensor.empty() : tensor<16384xf32>
  %5 = linalg.fill ins(%3 : f32) outs(%4 : tensor<16384xf32>) -> tensor<16384xf32>
  %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%2 : tensor<16384x4096xf32>) outs(%5 : tensor<16384xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.addf %a, %o fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384xf32>
  return %6 : tensor<16384xf32>
}
