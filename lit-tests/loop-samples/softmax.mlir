// Softmax over rows of 4096 bf16: one block a row, the row in registers, two reductions.
// RUN: strata-opt %s --passes=loop-to-gpu,math-to-nvvm | FileCheck %s
// CHECK: gpu.module @softmax
// CHECK: gpu.func @softmax
func.func @softmax(%x: memref<16384x4096xbf16>, %y: memref<16384x4096xbf16> {loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 256 : i64, loop.grid = #graph.dims<16384>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.forall (%row) in (16384) {
    %v = memref.alloca() : memref<256x2x8xf32, #gpu.address_space<private>>
    %m = memref.alloca() : memref<256x1xf32, #gpu.address_space<private>>
    %s = memref.alloca() : memref<256x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (256) {
      %low = arith.constant 0xFF800000 : f32
      %max = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %low) -> (f32) {
        %col = affine.apply affine_map<(d0, d1) -> (d0 * 8 + d1 * 2048)>(%t, %i)
        %h = vector.load %x[%row, %col] {alignment = 16 : i64} : memref<16384x4096xbf16>, vector<8xbf16>
        %f = arith.extf %h : vector<8xbf16> to vector<8xf32>
        vector.store %f, %v[%t, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>
        %r = vector.reduction <maximumf>, %f, %a : vector<8xf32> into f32
        scf.yield %r : f32
      }
      memref.store %max, %m[%t, %c0] : memref<256x1xf32, #gpu.address_space<private>>
    } {mapping = [#gpu.thread<linear_dim_0>]}
    loop.all_reduce max %m : memref<256x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (256) {
      %zero = arith.constant 0.0 : f32
      %max = memref.load %m[%t, %c0] : memref<256x1xf32, #gpu.address_space<private>>
      %maxes = vector.broadcast %max : f32 to vector<8xf32>
      %sum = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %zero) -> (f32) {
        %f = vector.load %v[%t, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>
        %d = arith.subf %f, %maxes fastmath<contract> : vector<8xf32>
        %e = math.exp %d fastmath<contract> : vector<8xf32>
        vector.store %e, %v[%t, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>
        %r = vector.reduction <add>, %e, %a : vector<8xf32> into f32
        scf.yield %r : f32
      }
      memref.store %sum, %s[%t, %c0] : memref<256x1xf32, #gpu.address_space<private>>
    } {mapping = [#gpu.thread<linear_dim_0>]}
    loop.all_reduce add %s : memref<256x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (256) {
      %one = arith.constant 1.0 : f32
      %sum = memref.load %s[%t, %c0] : memref<256x1xf32, #gpu.address_space<private>>
      %inv = arith.divf %one, %sum : f32
      %invs = vector.broadcast %inv : f32 to vector<8xf32>
      scf.for %i = %c0 to %c2 step %c1 {
        %e = vector.load %v[%t, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>
        %p = arith.mulf %e, %invs fastmath<contract> : vector<8xf32>
        %h = arith.truncf %p : vector<8xf32> to vector<8xbf16>
        %col = affine.apply affine_map<(d0, d1) -> (d0 * 8 + d1 * 2048)>(%t, %i)
        vector.store %h, %y[%row, %col] {alignment = 16 : i64} : memref<16384x4096xbf16>, vector<8xbf16>
      }
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}
