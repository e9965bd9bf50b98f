// RUN: strata-opt %s --target=nvptx:sm_90a --passes=linalg-to-loops | FileCheck %s

// CHECK-LABEL: func.func @layernorm
// CHECK: scf.forall ({{.*}}) in (16384)
// CHECK-COUNT-4: vector.load
// CHECK: loop.all_reduce add
// CHECK-NOT: vector.load %arg
// CHECK: loop.all_reduce add
// The weights are read once, in the last stage.
// CHECK-COUNT-8: vector.load {{.*}} : memref<4096xbf16>
// CHECK-COUNT-4: vector.store

func.func @layernorm(%x: tensor<16384x4096xbf16>, %gamma: tensor<4096xbf16>, %beta: tensor<4096xbf16>) -> tensor<16384x4096xbf16> {
  %1 = tensor.empty() : tensor<16384x4096xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%o: f32):
      %c = arith.constant 4096.0 : f32
      linalg.yield %c : f32
    } -> tensor<16384x4096xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%o: f32):
      %c = arith.constant 1.0e-5 : f32
      linalg.yield %c : f32
    } -> tensor<16384x4096xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %r = arith.extf %a fastmath<contract> : bf16 to f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %5 = arith.constant 0.0 : f32
  %6 = tensor.empty() : tensor<16384xf32>
  %7 = linalg.fill ins(%5 : f32) outs(%6 : tensor<16384xf32>) -> tensor<16384xf32>
  %8 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%4 : tensor<16384x4096xf32>) outs(%7 : tensor<16384xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.addf %a, %o fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384xf32>
  %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%8 : tensor<16384xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<16384x4096xf32>
  %10 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%9, %2 : tensor<16384x4096xf32>, tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.divf %a, %b fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%4, %10 : tensor<16384x4096xf32>, tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.subf %a, %b fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%11 : tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.mulf %a, %a fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %13 = arith.constant 0.0 : f32
  %14 = linalg.fill ins(%13 : f32) outs(%6 : tensor<16384xf32>) -> tensor<16384xf32>
  %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%12 : tensor<16384x4096xf32>) outs(%14 : tensor<16384xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.addf %a, %o fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384xf32>
  %16 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%15 : tensor<16384xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<16384x4096xf32>
  %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%16, %2 : tensor<16384x4096xf32>, tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.divf %a, %b fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %18 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%17, %3 : tensor<16384x4096xf32>, tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.addf %a, %b fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%18 : tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = math.rsqrt %a fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%11, %19 : tensor<16384x4096xf32>, tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.mulf %a, %b fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %21 = tensor.empty() : tensor<4096xf32>
  %22 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%gamma : tensor<4096xbf16>) outs(%21 : tensor<4096xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %r = arith.extf %a fastmath<contract> : bf16 to f32
      linalg.yield %r : f32
    } -> tensor<4096xf32>
  %23 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%22 : tensor<4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<16384x4096xf32>
  %24 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%20, %23 : tensor<16384x4096xf32>, tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.mulf %a, %b fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %25 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%beta : tensor<4096xbf16>) outs(%21 : tensor<4096xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %r = arith.extf %a fastmath<contract> : bf16 to f32
      linalg.yield %r : f32
    } -> tensor<4096xf32>
  %26 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%25 : tensor<4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<16384x4096xf32>
  %27 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%24, %26 : tensor<16384x4096xf32>, tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.addf %a, %b fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %28 = tensor.empty() : tensor<16384x4096xbf16>
  %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%27 : tensor<16384x4096xf32>) outs(%28 : tensor<16384x4096xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %r = arith.truncf %a fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  return %29 : tensor<16384x4096xbf16>
}
