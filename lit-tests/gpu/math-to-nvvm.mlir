// RUN: strata-opt %s --target=nvptx:sm_90a --passes=loop-to-gpu,math-to-nvvm | FileCheck %s
// RUN: strata-opt %s --target=nvptx:sm_90a --passes=loop-to-gpu,math-to-nvvm{numerics=strict} | FileCheck %s --check-prefix=STRICT

// CHECK-LABEL: gpu.func @functions
// STRICT-LABEL: gpu.func @functions
func.func @functions(%x: memref<256xbf16>, %y: memref<256xf32> {loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 32 : i64, loop.grid = #graph.dims<1>} {
  scf.forall (%b) in (1) {
    scf.forall (%t) in (32) {
      %i = affine.apply affine_map<(d0) -> (d0 * 8)>(%t)
      %h = vector.load %x[%i] {alignment = 16 : i64} : memref<256xbf16>, vector<8xbf16>
      // bf16 is the upper half of f32: two words at once.
      // CHECK: vector.bitcast {{.*}} : vector<8xbf16> to vector<4xi32>
      // CHECK: arith.shli
      // CHECK: arith.andi
      // CHECK: vector.interleave
      %f = arith.extf %h : vector<8xbf16> to vector<8xf32>
      // CHECK-COUNT-8: llvm.nvvm.ex2.approx.ftz.f
      // STRICT-NOT: ex2.approx
      // STRICT: llvm.intr.fma
      %e = math.exp %f : vector<8xf32>
      // CHECK-COUNT-8: llvm.nvvm.rsqrt.approx.f
      // STRICT-COUNT-8: llvm.nvvm.rsqrt.approx.f
      %r = math.rsqrt %e : vector<8xf32>
      // CHECK-COUNT-8: llvm.nvvm.div.full
      // STRICT: arith.divf
      %d = arith.divf %r, %f : vector<8xf32>
      // CHECK-NOT: math.
      %s = math.erf %d : vector<8xf32>
      %p = math.tanh %s : vector<8xf32>
      %l = math.log1p %p : vector<8xf32>
      vector.store %l, %y[%i] {alignment = 16 : i64} : memref<256xf32>, vector<8xf32>
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}
