// RUN: strata-opt %s --target=nvptx:sm_90a --passes=linalg-to-loops | FileCheck %s
// RUN: strata-opt %s --target=cpu:x86-64-v3 --passes=linalg-to-loops | FileCheck %s --check-prefix=CPU

// CHECK-LABEL: func.func @softmax
// CHECK-SAME: loop.block = 128 : i64, loop.grid = #graph.dims<16384>, loop.kernel
// CHECK: scf.forall ({{.*}}) in (16384)
// CHECK: scf.forall ({{.*}}) in (128)
// CHECK-COUNT-4: vector.load {{.*}} {alignment = 16 : i64} : memref<16384x4096xbf16>, vector<8xbf16>
// CHECK: loop.all_reduce max
// CHECK-COUNT-4: math.exp
// CHECK: loop.all_reduce add
// CHECK-NOT: math.exp
// CHECK-COUNT-4: vector.store {{.*}} {alignment = 16 : i64}

// CPU-LABEL: func.func @softmax
// CPU: scf.forall ({{.*}}) in (2048)
// CPU: memref.alloca() {alignment = 64 : i64} : memref<4096xf32>
// CPU: arith.maximumf {{.*}} : vector<8xf32>
// CPU: vector.reduction <maximumf>
// CPU: math.exp {{.*}} : vector<8xf32>
// CPU: vector.reduction <add>
// CPU-NOT: math.exp
// CPU: mapping = [#loop.task]

func.func @softmax(%x: tensor<16384x4096xbf16>) -> tensor<16384x4096xbf16> {
  %1 = tensor.empty() : tensor<16384x4096xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16384x4096xbf16>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %r = arith.extf %a fastmath<contract> : bf16 to f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %3 = arith.constant 0xFF800000 : f32
  %4 = tensor.empty() : tensor<16384xf32>
  %5 = linalg.fill ins(%3 : f32) outs(%4 : tensor<16384xf32>) -> tensor<16384xf32>
  %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%2 : tensor<16384x4096xf32>) outs(%5 : tensor<16384xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.maximumf %a, %o fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%6 : tensor<16384xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<16384x4096xf32>
  %8 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%2, %7 : tensor<16384x4096xf32>, tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.subf %a, %b fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%8 : tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = math.exp %a fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %10 = arith.constant 0.0 : f32
  %11 = linalg.fill ins(%10 : f32) outs(%4 : tensor<16384xf32>) -> tensor<16384xf32>
  %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%9 : tensor<16384x4096xf32>) outs(%11 : tensor<16384xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.addf %a, %o fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%12 : tensor<16384xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<16384x4096xf32>
  %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%9, %13 : tensor<16384x4096xf32>, tensor<16384x4096xf32>) outs(%1 : tensor<16384x4096xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %r = arith.divf %a, %b fastmath<contract> : f32
      linalg.yield %r : f32
    } -> tensor<16384x4096xf32>
  %15 = tensor.empty() : tensor<16384x4096xbf16>
  %16 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%14 : tensor<16384x4096xf32>) outs(%15 : tensor<16384x4096xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %r = arith.truncf %a fastmath<contract> : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<16384x4096xbf16>
  return %16 : tensor<16384x4096xbf16>
}
