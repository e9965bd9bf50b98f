// Element types that kernels do not have: bytes without a sign, and floats of eight bits.
// RUN: strata-opt %s --passes=graph-to-linalg --check-semantics | FileCheck %s
// RUN: strata-opt %s --target=cpu --compile-to=loop --check-semantics -o /dev/null
// RUN: strata-opt %s --target=nvptx:sm_90a --compile-to=loop --check-semantics -o /dev/null

// What the elements are stays beside arguments and results; ops read i8 as they mean it.
// CHECK-LABEL: func.func @bytes(
// CHECK-SAME:    %{{.*}}: tensor<64xi8> {loop.dims = #graph.dims<64>, loop.element = ui8}
// CHECK-SAME:    -> (tensor<64xi8> {loop.dims = #graph.dims<64>, loop.element = ui8}, tensor<64xi1> {loop.dims = #graph.dims<64>})
func.func @bytes(%x: tensor<64xui8>, %y: tensor<64xui8>) -> (tensor<64xui8>, tensor<64xi1>) {
  // CHECK: arith.divui
  %q = graph.div %x, %y : tensor<64xui8>
  // CHECK: arith.remui
  %r = graph.rem %x, %y : tensor<64xui8>
  // CHECK: arith.maxui
  %m = graph.max %q, %r : tensor<64xui8>
  // CHECK: arith.shrui
  %s = graph.shift_right %m, %y : tensor<64xui8>
  // CHECK: arith.cmpi ugt
  %p = graph.compare gt %s, %x : (tensor<64xui8>, tensor<64xui8>) -> tensor<64xi1>
  return %s, %p : tensor<64xui8>, tensor<64xi1>
}

// Sums and extrema are kept in i32.
// CHECK-LABEL: func.func @reductions(
func.func @reductions(%x: tensor<8x64xui8>) -> (tensor<8xui8>, tensor<8xui8>, tensor<8xi64>) {
  // CHECK: arith.extui %{{.*}} : i8 to i32
  // CHECK: arith.maxsi %{{.*}} : i32
  // CHECK: arith.trunci %{{.*}} : i32 to i8
  %a = graph.reduce max %x dims = [1] : (tensor<8x64xui8>) -> tensor<8xui8>
  %b = graph.reduce sum %x dims = [1] : (tensor<8x64xui8>) -> tensor<8xui8>
  %c = graph.arg_reduce min %x dim = 1 : (tensor<8x64xui8>) -> tensor<8xi64>
  return %a, %b, %c : tensor<8xui8>, tensor<8xui8>, tensor<8xi64>
}

// CHECK-LABEL: func.func @conversions(
func.func @conversions(%x: tensor<64xui8>, %f: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xui8>, tensor<64xi16>) {
  // CHECK: arith.uitofp %{{.*}} : i8 to f32
  %0 = graph.cast %x : (tensor<64xui8>) -> tensor<64xf32>
  // From 0 to 255.
  // CHECK: arith.fptosi %{{.*}} : f32 to i32
  // CHECK: arith.maxsi
  // CHECK: arith.minsi
  // CHECK: arith.trunci %{{.*}} : i32 to i8
  %1 = graph.cast %f : (tensor<64xf32>) -> tensor<64xui8>
  // CHECK: arith.extui %{{.*}} : i8 to i16
  %2 = graph.cast %x : (tensor<64xui8>) -> tensor<64xi16>
  return %0, %1, %2 : tensor<64xf32>, tensor<64xui8>, tensor<64xi16>
}

// Eight bits to f32 and back, in integer ops; constants are bits.
// CHECK-LABEL: func.func @float8(
// CHECK-SAME:    loop.element = f8E4M3FN
func.func @float8(%w: tensor<64xf8E4M3FN>, %p: tensor<64xi1>) -> (tensor<64xf32>, tensor<64xf8E5M2>, tensor<64xf8E4M3FN>, tensor<64xi1>) {
  // CHECK: arith.extui %{{.*}} : i8 to i32
  // CHECK: arith.bitcast %{{.*}} : i32 to f32
  %0 = graph.cast %w : (tensor<64xf8E4M3FN>) -> tensor<64xf32>
  // CHECK: arith.bitcast %{{.*}} : f32 to i32
  // CHECK: arith.trunci %{{.*}} : i32 to i8
  %1 = graph.cast %0 : (tensor<64xf32>) -> tensor<64xf8E5M2>
  // 448 is 0x7e.
  %c = graph.constant dense<448.0> : tensor<64xf8E4M3FN>
  // CHECK: arith.constant 126 : i8
  // CHECK: arith.select %{{.*}} : i8
  %2 = graph.select %p, %w, %c : (tensor<64xi1>, tensor<64xf8E4M3FN>, tensor<64xf8E4M3FN>) -> tensor<64xf8E4M3FN>
  // CHECK: arith.cmpf oeq, %{{.*}} : f32
  %3 = graph.compare eq %w, %2 : (tensor<64xf8E4M3FN>, tensor<64xf8E4M3FN>) -> tensor<64xi1>
  return %0, %1, %2, %3 : tensor<64xf32>, tensor<64xf8E5M2>, tensor<64xf8E4M3FN>, tensor<64xi1>
}
