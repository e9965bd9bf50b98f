// Layer normalisation over rows of 4096 bf16: one block a row, mean and centred sum of squares from registers.
// RUN: strata-opt %s --passes=loop-to-gpu,math-to-nvvm | FileCheck %s
// CHECK: gpu.func @layernorm
// CHECK: nvvm.shfl.sync
// CHECK: llvm.nvvm.rsqrt.approx.f
func.func @layernorm(%x: memref<16384x4096xbf16>, %g: memref<4096xf32>, %b: memref<4096xf32>, %y: memref<16384x4096xbf16> {loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 256 : i64, loop.grid = #graph.dims<16384>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.forall (%row) in (16384) {
    %v = memref.alloca() : memref<256x2x8xf32, #gpu.address_space<private>>
    %s = memref.alloca() : memref<256x1xf32, #gpu.address_space<private>>
    %q = memref.alloca() : memref<256x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (256) {
      %zero = arith.constant 0.0 : f32
      %sum = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %zero) -> (f32) {
        %col = affine.apply affine_map<(d0, d1) -> (d0 * 8 + d1 * 2048)>(%t, %i)
        %h = vector.load %x[%row, %col] {alignment = 16 : i64} : memref<16384x4096xbf16>, vector<8xbf16>
        %f = arith.extf %h : vector<8xbf16> to vector<8xf32>
        vector.store %f, %v[%t, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>
        %r = vector.reduction <add>, %f, %a : vector<8xf32> into f32
        scf.yield %r : f32
      }
      memref.store %sum, %s[%t, %c0] : memref<256x1xf32, #gpu.address_space<private>>
    } {mapping = [#gpu.thread<linear_dim_0>]}
    loop.all_reduce add %s : memref<256x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (256) {
      %zero = arith.constant 0.0 : f32
      %inv = arith.constant 2.44140625E-4 : f32
      %sum = memref.load %s[%t, %c0] : memref<256x1xf32, #gpu.address_space<private>>
      %mean = arith.mulf %sum, %inv : f32
      %means = vector.broadcast %mean : f32 to vector<8xf32>
      %squares = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %zero) -> (f32) {
        %f = vector.load %v[%t, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>
        %d = arith.subf %f, %means : vector<8xf32>
        vector.store %d, %v[%t, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>
        %dd = arith.mulf %d, %d fastmath<contract> : vector<8xf32>
        %r = vector.reduction <add>, %dd, %a fastmath<contract> : vector<8xf32> into f32
        scf.yield %r : f32
      }
      memref.store %squares, %q[%t, %c0] : memref<256x1xf32, #gpu.address_space<private>>
    } {mapping = [#gpu.thread<linear_dim_0>]}
    loop.all_reduce add %q : memref<256x1xf32, #gpu.address_space<private>>
    scf.forall (%t) in (256) {
      %inv = arith.constant 2.44140625E-4 : f32
      %eps = arith.constant 1.0E-5 : f32
      %squares = memref.load %q[%t, %c0] : memref<256x1xf32, #gpu.address_space<private>>
      %var = arith.mulf %squares, %inv fastmath<contract> : f32
      %vare = arith.addf %var, %eps fastmath<contract> : f32
      %r = math.rsqrt %vare : f32
      %rs = vector.broadcast %r : f32 to vector<8xf32>
      scf.for %i = %c0 to %c2 step %c1 {
        %col = affine.apply affine_map<(d0, d1) -> (d0 * 8 + d1 * 2048)>(%t, %i)
        %d = vector.load %v[%t, %i, %c0] : memref<256x2x8xf32, #gpu.address_space<private>>, vector<8xf32>
        %n = arith.mulf %d, %rs fastmath<contract> : vector<8xf32>
        %gs = vector.load %g[%col] {alignment = 16 : i64} : memref<4096xf32>, vector<8xf32>
        %bs = vector.load %b[%col] {alignment = 16 : i64} : memref<4096xf32>, vector<8xf32>
        %m = arith.mulf %n, %gs fastmath<contract> : vector<8xf32>
        %o = arith.addf %m, %bs fastmath<contract> : vector<8xf32>
        %h = arith.truncf %o : vector<8xf32> to vector<8xbf16>
        vector.store %h, %y[%row, %col] {alignment = 16 : i64} : memref<16384x4096xbf16>, vector<8xbf16>
      }
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}
