// Every op of the graph dialect parses, verifies, and prints as it was written. The reference page takes its examples from here.
// RUN: strata-opt %s --verify-roundtrip | FileCheck %s
// RUN: strata-opt %s --print-generic | strata-opt | FileCheck %s

// CHECK-LABEL: func.func @unary(
func.func @unary(%x: tensor<2x4xf32>, %n: tensor<4xi32>) {
  // CHECK: %{{.*}} = graph.abs %{{.*}} : tensor<2x4xf32>
  %0 = graph.abs %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.ceil %{{.*}} : tensor<2x4xf32>
  %1 = graph.ceil %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.cos %{{.*}} : tensor<2x4xf32>
  %2 = graph.cos %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.erf %{{.*}} : tensor<2x4xf32>
  %3 = graph.erf %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.exp %{{.*}} : tensor<2x4xf32>
  %4 = graph.exp %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.exp2 %{{.*}} : tensor<2x4xf32>
  %5 = graph.exp2 %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.expm1 %{{.*}} : tensor<2x4xf32>
  %6 = graph.expm1 %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.floor %{{.*}} : tensor<2x4xf32>
  %7 = graph.floor %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.log %{{.*}} : tensor<2x4xf32>
  %8 = graph.log %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.log1p %{{.*}} : tensor<2x4xf32>
  %9 = graph.log1p %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.logistic %{{.*}} : tensor<2x4xf32>
  %10 = graph.logistic %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.neg %{{.*}} : tensor<2x4xf32>
  %11 = graph.neg %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.round %{{.*}} : tensor<2x4xf32>
  %12 = graph.round %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.rsqrt %{{.*}} : tensor<2x4xf32>
  %13 = graph.rsqrt %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.sign %{{.*}} : tensor<2x4xf32>
  %14 = graph.sign %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.sin %{{.*}} : tensor<2x4xf32>
  %15 = graph.sin %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.sqrt %{{.*}} : tensor<2x4xf32>
  %16 = graph.sqrt %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.tanh %{{.*}} : tensor<2x4xf32>
  %17 = graph.tanh %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.not %{{.*}} : tensor<4xi32>
  %not = graph.not %n : tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @binary(
func.func @binary(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %n: tensor<4xi1>, %m: tensor<4xi1>) {
  // CHECK: %{{.*}} = graph.add %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %0 = graph.add %x, %y : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.div %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %1 = graph.div %x, %y : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.max %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %2 = graph.max %x, %y : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.min %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %3 = graph.min %x, %y : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.mul %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %4 = graph.mul %x, %y : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.pow %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %5 = graph.pow %x, %y : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.rem %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %6 = graph.rem %x, %y : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.sub %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %7 = graph.sub %x, %y : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.and %{{.*}}, %{{.*}} : tensor<4xi1>
  %band = graph.and %n, %m : tensor<4xi1>
  // CHECK: %{{.*}} = graph.or %{{.*}}, %{{.*}} : tensor<4xi1>
  %bor = graph.or %n, %m : tensor<4xi1>
  // CHECK: %{{.*}} = graph.xor %{{.*}}, %{{.*}} : tensor<4xi1>
  %bxor = graph.xor %n, %m : tensor<4xi1>
  return
}

// CHECK-LABEL: func.func @choice(
func.func @choice(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) {
  // CHECK: %{{.*}} = graph.compare lt %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
  %p = graph.compare lt %x, %y : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
  // CHECK: %{{.*}} = graph.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = graph.select %p, %x, %y : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.cast %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  %c = graph.cast %s : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  return
}

// CHECK-LABEL: func.func @constants(
func.func @constants() {
  // CHECK: %{{.*}} = graph.constant dense<{{.*}}> : tensor<2xf32>
  %c = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK: %{{.*}} = graph.iota dim = 1 : tensor<2x4xi64>
  %i = graph.iota dim = 1 : tensor<2x4xi64>
  // CHECK: %{{.*}} = graph.dim <4> : tensor<i64>
  %d = graph.dim <4> : tensor<i64>
  return
}

// CHECK-LABEL: func.func @views(
func.func @views(%x: tensor<2x4xf32>, %z: tensor<f32>) {
  // CHECK: %{{.*}} = graph.broadcast %{{.*}} dims = [1, 2] : (tensor<2x4xf32>) -> tensor<3x2x4xf32>
  %b = graph.broadcast %x dims = [1, 2] : (tensor<2x4xf32>) -> tensor<3x2x4xf32>
  // CHECK: %{{.*}} = graph.reshape %{{.*}} : (tensor<2x4xf32>) -> tensor<8xf32>
  %r = graph.reshape %x : (tensor<2x4xf32>) -> tensor<8xf32>
  // CHECK: %{{.*}} = graph.transpose %{{.*}} permutation = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %t = graph.transpose %x permutation = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  // CHECK: %{{.*}} = graph.slice %{{.*}} from <0, 1> to <2, 4> by [1, 2] : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %s = graph.slice %x from <0, 1> to <2, 4> by [1, 2] : (tensor<2x4xf32>) -> tensor<2x2xf32>
  // CHECK: %{{.*}} = graph.pad %{{.*}} with %{{.*}} low <0, 1> high <1, -1> : (tensor<2x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  %p = graph.pad %x with %z low <0, 1> high <1, -1> : (tensor<2x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  // CHECK: %{{.*}} = graph.concat %{{.*}}, %{{.*}} dim = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %c = graph.concat %x, %x dim = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return
}

// CHECK-LABEL: func.func @reductions(
func.func @reductions(%x: tensor<2x4xf32>) {
  // CHECK: %{{.*}} = graph.reduce sum %{{.*}} dims = [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %r = graph.reduce sum %x dims = [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  // CHECK: %{{.*}} = graph.scan sum %{{.*}} dim = 1 : tensor<2x4xf32>
  %n = graph.scan sum %x dim = 1 : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.arg_reduce max %{{.*}} dim = 1 : (tensor<2x4xf32>) -> tensor<2xi64>
  %a = graph.arg_reduce max %x dim = 1 : (tensor<2x4xf32>) -> tensor<2xi64>
  // CHECK: %{{.*}} = graph.reduce_window max %{{.*}} window = [1, 2] strides = [1, 2] low = [0, 0] high = [0, 0] dilation = [1, 1] : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %w = graph.reduce_window max %x window = [1, 2] strides = [1, 2] low = [0, 0] high = [0, 0] dilation = [1, 1] : (tensor<2x4xf32>) -> tensor<2x2xf32>
  return
}

// CHECK-LABEL: func.func @sorting(
func.func @sorting(%x: tensor<2x4xf32>) {
  // CHECK: %{{.*}}, %{{.*}} = graph.sort %{{.*}} dim = 1 descending = false : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
  %v, %i = graph.sort %x dim = 1 descending = false : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
  return
}

// CHECK-LABEL: func.func @bits(
func.func @bits(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %n: tensor<4xi32>) {
  // CHECK: %{{.*}} = graph.bitcast %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xi32>
  %0 = graph.bitcast %x : (tensor<2x4xf32>) -> tensor<2x4xi32>
  // CHECK: %{{.*}} = graph.copysign %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %1 = graph.copysign %x, %y : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.shift_left %{{.*}}, %{{.*}} : tensor<4xi32>
  %2 = graph.shift_left %n, %n : tensor<4xi32>
  // CHECK: %{{.*}} = graph.shift_right %{{.*}}, %{{.*}} : tensor<4xi32>
  %3 = graph.shift_right %n, %n : tensor<4xi32>
  // CHECK: %{{.*}} = graph.atan2 %{{.*}}, %{{.*}} : tensor<2x4xf32>
  %4 = graph.atan2 %y, %x : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.polynomial %{{.*}} coefficients = [5.000000e-01, -1.000000e+00, 2.000000e-01] : tensor<2x4xf32>
  %5 = graph.polynomial %x coefficients = [0.5, -1.0, 0.2] : tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @products(
func.func @products(%x: tensor<2x4xf32>, %y: tensor<4x3xf32>, %v: tensor<3xf32>, %i: tensor<1x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) {
  // CHECK: %{{.*}} = graph.dot_general %{{.*}}, %{{.*}} batch = [] x [] contracting = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %d = graph.dot_general %x, %y batch = [] x [] contracting = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  // CHECK: %{{.*}} = graph.linear %{{.*}}, %{{.*}} bias %{{.*}} batch = [] x [] contracting = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %l = graph.linear %x, %y bias %v batch = [] x [] contracting = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: %{{.*}} = graph.convolution %{{.*}}, %{{.*}} strides = [1, 2] low = [1, 1] high = [1, 1] dilation = [1, 1] groups = 2 : (tensor<1x4x8x8xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x8x4xf32>
  %c = graph.convolution %i, %w strides = [1, 2] low = [1, 1] high = [1, 1] dilation = [1, 1] groups = 2 : (tensor<1x4x8x8xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x8x4xf32>
  return
}

// CHECK-LABEL: func.func @indexing(
func.func @indexing(%t: tensor<10x4xf32>, %i: tensor<2x3xi64>) {
  // CHECK: %{{.*}} = graph.gather %{{.*}} at %{{.*}} dim = 0 : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  %g = graph.gather %t at %i dim = 0 : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // CHECK: %{{.*}} = graph.scatter add %{{.*}} into %{{.*}} at %{{.*}} dim = 0 : (tensor<10x4xf32>, tensor<2x3xi64>, tensor<2x3x4xf32>) -> tensor<10x4xf32>
  %s = graph.scatter add %g into %t at %i dim = 0 : (tensor<10x4xf32>, tensor<2x3xi64>, tensor<2x3x4xf32>) -> tensor<10x4xf32>
  // CHECK: %{{.*}} = graph.check_index %{{.*}} below <10> wrap = true "an index is out of range" : tensor<2x3xi64>
  %c = graph.check_index %i below #graph.dims<10> wrap = true "an index is out of range" : tensor<2x3xi64>
  return
}

// CHECK-LABEL: func.func @composites(
func.func @composites(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %q: tensor<2x3x4xf32>, %k: tensor<2x5x4xf32>, %b: tensor<2x3x5xf32>) {
  // CHECK: %{{.*}} = graph.softmax %{{.*}} dim = 1 : tensor<2x4xf32>
  %s = graph.softmax %x dim = 1 : tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.layer_norm %{{.*}} affine(%{{.*}}, %{{.*}}) dims = 1 epsilon = 1.000000e-05 : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %l = graph.layer_norm %x affine(%w, %w) dims = 1 epsilon = 1.000000e-05 : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.layer_norm %{{.*}} dims = 2 epsilon = 1.000000e-05 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = graph.layer_norm %x dims = 2 epsilon = 1.000000e-05 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: %{{.*}} = graph.attention %{{.*}}, %{{.*}}, %{{.*}} scale = 5.000000e-01 causal = true : (tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x4xf32>
  %a = graph.attention %q, %k, %k scale = 5.000000e-01 causal = true : (tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: %{{.*}} = graph.attention %{{.*}}, %{{.*}}, %{{.*}} bias(%{{.*}}) scale = 5.000000e-01 causal = false : (tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>, tensor<2x3x5xf32>) -> tensor<2x3x4xf32>
  %c = graph.attention %q, %k, %k bias(%b) scale = 5.000000e-01 causal = false : (tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>, tensor<2x3x5xf32>) -> tensor<2x3x4xf32>
  return
}

// CHECK-LABEL: func.func @symbolic(
// CHECK-SAME: graph.symbols = [{{.*}}name = "batch"
func.func @symbolic(%x: tensor<?x4xf32, #graph.dims<s0, 4>>) -> tensor<?xf32, #graph.dims<s0 * 4>>
    attributes {graph.symbols = [{name = "batch", min = 1, max = 64, hint = 8}]} {
  // CHECK: graph.dim <s0 * 4> : tensor<i64>
  %d = graph.dim <s0 * 4> : tensor<i64>
  // CHECK: graph.reshape %{{.*}} : (tensor<?x4xf32, #graph.dims<s0, 4>>) -> tensor<?xf32, #graph.dims<s0 * 4>>
  %r = graph.reshape %x : (tensor<?x4xf32, #graph.dims<s0, 4>>) -> tensor<?xf32, #graph.dims<s0 * 4>>
  return %r : tensor<?xf32, #graph.dims<s0 * 4>>
}

// CHECK-LABEL: func.func private @kernel(
func.func private @kernel(%x: tensor<?xf32, #graph.dims<s0>>) -> tensor<?xf32, #graph.dims<s0>>
    attributes {graph.symbols = [{}]} {
  return %x : tensor<?xf32, #graph.dims<s0>>
}

// CHECK-LABEL: func.func @calls(
func.func @calls(%x: tensor<?xf32, #graph.dims<s0 * 2>>) -> tensor<?xf32, #graph.dims<s0 * 2>>
    attributes {graph.symbols = [{name = "half"}]} {
  // CHECK: graph.call @kernel(%{{.*}}) symbols = <s0 * 2> : (tensor<?xf32, #graph.dims<s0 * 2>>) -> tensor<?xf32, #graph.dims<s0 * 2>>
  %0 = graph.call @kernel(%x) symbols = <s0 * 2> : (tensor<?xf32, #graph.dims<s0 * 2>>) -> tensor<?xf32, #graph.dims<s0 * 2>>
  // CHECK: graph.custom_call "aten.mode"(%{{.*}}) symbols = <s0> payload "{}" reason "no lowering" : (tensor<?xf32, #graph.dims<s0 * 2>>) -> tensor<?xf32, #graph.dims<s0 * 2>>
  %1 = graph.custom_call "aten.mode"(%0) symbols = <s0> payload "{}" reason "no lowering" : (tensor<?xf32, #graph.dims<s0 * 2>>) -> tensor<?xf32, #graph.dims<s0 * 2>>
  return %1 : tensor<?xf32, #graph.dims<s0 * 2>>
}

// CHECK-LABEL: func.func @call_layouts(
func.func @call_layouts(%x: tensor<3x8xf32>, %y: tensor<1x2xf32>) -> tensor<5x4xf32> {
  // CHECK: graph.custom_call "aten.mode"(%{{.*}}, %{{.*}}) symbols = <> payload "{}" reason "" {as_is = array<i64: 1>, layouts = array<i64: 1, 0, 0, 1, 1, 0>, sizes = #graph.dims<6, 3, 7, 2>} : (tensor<3x8xf32>, tensor<1x2xf32>) -> tensor<5x4xf32>
  %0 = graph.custom_call "aten.mode"(%x, %y) symbols = <> payload "{}" reason "" {as_is = array<i64: 1>, layouts = array<i64: 1, 0, 0, 1, 1, 0>, sizes = #graph.dims<6, 3, 7, 2>} : (tensor<3x8xf32>, tensor<1x2xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
