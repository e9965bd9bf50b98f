// gelu(x + bias) + residual on bf16: one vector of eight a thread, no loop.
// RUN: strata-opt %s --passes=loop-to-gpu,math-to-nvvm | FileCheck %s
// CHECK: gpu.func @pointwise
// CHECK-NOT: math.
// CHECK-NOT: gpu.barrier
func.func @pointwise(%x: memref<8192x4096xbf16>, %b: memref<4096xbf16>, %r: memref<8192x4096xbf16>, %y: memref<8192x4096xbf16> {loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 256 : i64, loop.grid = #graph.dims<16384>} {
  scf.forall (%block) in (16384) {
    scf.forall (%t) in (256) {
      %row = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%block)
      %col = affine.apply affine_map<(d0, d1) -> ((d0 mod 2) * 2048 + d1 * 8)>(%block, %t)
      %xh = vector.load %x[%row, %col] {alignment = 16 : i64} : memref<8192x4096xbf16>, vector<8xbf16>
      %bh = vector.load %b[%col] {alignment = 16 : i64} : memref<4096xbf16>, vector<8xbf16>
      %rh = vector.load %r[%row, %col] {alignment = 16 : i64} : memref<8192x4096xbf16>, vector<8xbf16>
      %xf = arith.extf %xh : vector<8xbf16> to vector<8xf32>
      %bf = arith.extf %bh : vector<8xbf16> to vector<8xf32>
      %rf = arith.extf %rh : vector<8xbf16> to vector<8xf32>
      %half = arith.constant dense<0.5> : vector<8xf32>
      %one = arith.constant dense<1.0> : vector<8xf32>
      %s = arith.constant dense<0.70710678118654752> : vector<8xf32>
      %v = arith.addf %xf, %bf fastmath<contract> : vector<8xf32>
      %a = arith.mulf %v, %s fastmath<contract> : vector<8xf32>
      %e = math.erf %a fastmath<contract> : vector<8xf32>
      %p = arith.addf %e, %one fastmath<contract> : vector<8xf32>
      %h = arith.mulf %v, %half fastmath<contract> : vector<8xf32>
      %g = arith.mulf %h, %p fastmath<contract> : vector<8xf32>
      %o = arith.addf %g, %rf fastmath<contract> : vector<8xf32>
      %oh = arith.truncf %o : vector<8xf32> to vector<8xbf16>
      vector.store %oh, %y[%row, %col] {alignment = 16 : i64} : memref<8192x4096xbf16>, vector<8xbf16>
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}
