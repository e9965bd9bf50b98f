// An operand that crosses the order of the result is read in rows of its own, goes through shared memory, and the result is written in rows.
// RUN: strata-opt %s --target=nvptx:sm_90a --compile-to=loop | FileCheck %s
// RUN: strata-opt %s --target=cpu:x86-64-v3 --compile-to=loop | FileCheck %s --check-prefix=CPU

// CHECK: func.func private @k0
// CHECK-SAME: loop.schedule = "{\22kind\22:\22tiles\22,\22tile\22:64,\22vector\22:8,\22read\22:8,\22threads\22:256}"
// CHECK: %[[TILE:.*]] = memref.alloca() : memref<64x66xbf16, #gpu.address_space<workgroup>>
// CHECK: scf.forall
// CHECK-COUNT-2: vector.load {{.*}} {alignment = 16 : i64} : memref<2048x1024xbf16>, vector<8xbf16>
// CHECK-COUNT-2: vector.load {{.*}} {alignment = 16 : i64} : memref<1024x2048xbf16>, vector<8xbf16>
// CHECK-COUNT-2: vector.store {{.*}}, %[[TILE]]{{.*}} {alignment = 4 : i64}
// CHECK: scf.forall
// CHECK-COUNT-16: memref.load %[[TILE]]
// CHECK-COUNT-2: vector.store {{.*}} {alignment = 16 : i64} : memref<1024x2048xbf16>, vector<8xbf16>

// On the CPU the tile is on the stack of the task.
// CPU: \22kind\22:\22tile_tasks\22
// CPU: scf.forall
// CPU: memref.alloca() {alignment = 64 : i64} : memref<2112xbf16>
// CPU: vector.load %arg0
// CPU: vector.store {{.*}} : memref<2112xbf16>
// CPU-COUNT-8: memref.load {{.*}} : memref<2112xbf16>
// CPU: vector.store
func.func @f(%a: tensor<1024x2048xbf16>, %b: tensor<2048x1024xbf16>) -> tensor<1024x2048xbf16> {
  %t = graph.transpose %b permutation = [1, 0] : (tensor<2048x1024xbf16>) -> tensor<1024x2048xbf16>
  %y = graph.add %a, %t : tensor<1024x2048xbf16>
  return %y : tensor<1024x2048xbf16>
}
