// Partial column sums of [16384, 4096] bf16: a block takes 256 columns of 256 rows, its eight warps every eighth row, and adds the
// warps' sums through shared memory.
// RUN: strata-opt %s --passes=loop-to-gpu,math-to-nvvm | FileCheck %s
// CHECK: gpu.module @column_sum
// CHECK: gpu.func @column_sum
// CHECK: scf.for
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
func.func @column_sum(%x: memref<16384x4096xbf16>, %y: memref<64x4096xf32> {loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 256 : i64, loop.grid = #graph.dims<64, 16>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  scf.forall (%chunk, %stripe) in (64, 16) {
    %sums = memref.alloca() : memref<8x256xf32, #gpu.address_space<workgroup>>
    scf.forall (%w) in (8) {
      scf.forall (%l) in (32) {
        %zero = arith.constant dense<0.0> : vector<8xf32>
        %col = affine.apply affine_map<(d0, d1) -> (d0 * 256 + d1 * 8)>(%stripe, %l)
        %sum = scf.for %i = %c0 to %c32 step %c1 iter_args(%a = %zero) -> (vector<8xf32>) {
          %row = affine.apply affine_map<(d0, d1, d2) -> (d0 * 256 + d1 * 8 + d2)>(%chunk, %i, %w)
          %h = vector.load %x[%row, %col] {alignment = 16 : i64} : memref<16384x4096xbf16>, vector<8xbf16>
          %f = arith.extf %h : vector<8xbf16> to vector<8xf32>
          %n = arith.addf %a, %f : vector<8xf32>
          scf.yield %n : vector<8xf32>
        }
        %at = affine.apply affine_map<(d0) -> (d0 * 8)>(%l)
        vector.store %sum, %sums[%w, %at] {alignment = 16 : i64} : memref<8x256xf32, #gpu.address_space<workgroup>>, vector<8xf32>
      } {mapping = [#gpu.lane<linear_dim_0>]}
    } {mapping = [#gpu.warp<linear_dim_0>]}
    scf.forall (%t) in (256) {
      %zero = arith.constant 0.0 : f32
      %sum = scf.for %w = %c0 to %c8 step %c1 iter_args(%a = %zero) -> (f32) {
        %f = memref.load %sums[%w, %t] : memref<8x256xf32, #gpu.address_space<workgroup>>
        %n = arith.addf %a, %f : f32
        scf.yield %n : f32
      }
      %col = affine.apply affine_map<(d0, d1) -> (d0 * 256 + d1)>(%stripe, %t)
      memref.store %sum, %y[%chunk, %col] : memref<64x4096xf32>
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return
}
