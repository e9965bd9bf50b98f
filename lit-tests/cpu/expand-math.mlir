// RUN: strata-opt %s --target=cpu:x86-64-v3 --passes=loop-to-cpu,expand-math | FileCheck %s
// RUN: strata-opt %s --target=cpu:x86-64 --passes=loop-to-cpu,expand-math | FileCheck %s --check-prefix=BASE

// With fused multiply-add the polynomials use it and rounding is an instruction; without, neither becomes a library call.
// CHECK-LABEL: llvm.func internal @functions.body
// BASE-LABEL: llvm.func internal @functions.body
func.func @functions(%x: memref<64xbf16>, %y: memref<64xbf16> {loop.out})
    attributes {loop.kernel, loop.target = "cpu", loop.grid = #graph.dims<8>} {
  scf.forall (%t) in (8) {
    %i = affine.apply affine_map<(d0) -> (d0 * 8)>(%t)
    %h = vector.load %x[%i] : memref<64xbf16>, vector<8xbf16>
    // CHECK: arith.extui {{.*}} : vector<8xi16> to vector<8xi32>
    // CHECK: arith.shli
    %f = arith.extf %h : vector<8xbf16> to vector<8xf32>
    // CHECK: llvm.intr.fma
    // CHECK-NOT: math.
    // BASE-NOT: llvm.intr.fma
    // BASE-NOT: math.
    %e = math.exp %f : vector<8xf32>
    // CHECK: llvm.call_intrinsic "llvm.floor"
    // BASE-NOT: llvm.floor
    %g = math.floor %e : vector<8xf32>
    // CHECK: arith.trunci {{.*}} : vector<8xi32> to vector<8xi16>
    // BASE: arith.trunci {{.*}} : vector<8xi32> to vector<8xi16>
    %r = arith.truncf %g : vector<8xf32> to vector<8xbf16>
    vector.store %r, %y[%i] : memref<64xbf16>, vector<8xbf16>
  } {mapping = [#loop.task]}
  return
}
