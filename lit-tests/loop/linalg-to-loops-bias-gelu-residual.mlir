// RUN: strata-opt %s --target=nvptx:sm_90a --passes=linalg-to-loops | FileCheck %s

// CHECK-LABEL: func.func @bias_gelu_residual
// CHECK: scf.forall ({{.*}}) in (32768)
// CHECK: scf.forall ({{.*}}) in (128)
// All reads of both vectors come first.
// CHECK-COUNT-6: vector.load
// CHECK-NOT: vector.load
// CHECK-COUNT-3: arith.extf
// CHECK: arith.truncf
// CHECK-NEXT: vector.store
// CHECK-COUNT-3: arith.extf
// CHECK-NOT: arith.extf
// CHECK: arith.truncf
// CHECK-NEXT: vector.store

func.func @bias_gelu_residual(%x: tensor<16384x4096xbf16>, %res: tensor<16384x4096xbf16>, %v: tensor<4096xbf16>) -> tensor<16384x4096xbf16> {
  %1 = tensor.empty() : tensor<16384x4096xbf16>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %o: bf16):
      linalg.yield %a : bf16
    } -> tensor<16384x4096xbf16>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %2 : tensor<16384x4096xbf16>, tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %eb = arith.extf %b fastmath<contract> : bf16 to f32
      %s = arith.addf %ea, %eb fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%3 : tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %q = arith.mulf %ea, %ea fastmath<contract> : f32
      %s = arith.mulf %q, %ea fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%4 : tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %c = arith.constant 0.044715 : f32
      %s = arith.mulf %ea, %c fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%3, %5 : tensor<16384x4096xbf16>, tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %eb = arith.extf %b fastmath<contract> : bf16 to f32
      %s = arith.addf %ea, %eb fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%6 : tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %c = arith.constant 0.7978845608 : f32
      %s = arith.mulf %ea, %c fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  %8 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%7 : tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %s = math.tanh %ea fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%8 : tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %c = arith.constant 1.0 : f32
      %s = arith.addf %ea, %c fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  %10 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%3 : tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %c = arith.constant 0.5 : f32
      %s = arith.mulf %ea, %c fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%10, %9 : tensor<16384x4096xbf16>, tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %eb = arith.extf %b fastmath<contract> : bf16 to f32
      %s = arith.mulf %ea, %eb fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%11, %res : tensor<16384x4096xbf16>, tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %o: bf16):
      %ea = arith.extf %a fastmath<contract> : bf16 to f32
      %eb = arith.extf %b fastmath<contract> : bf16 to f32
      %s = arith.addf %ea, %eb fastmath<contract> : f32
      %r = arith.truncf %s fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  return %12 : tensor<16384x4096xbf16>
}
