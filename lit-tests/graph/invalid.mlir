// One program for each constraint of the op table, with the label that its diagnostic carries.
// RUN: strata-opt %s --split-input-file --verify-diagnostics

func.func @constant_c1() {
  // expected-error@+1 {{[C1]}}
  %0 = "graph.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<3xf32>
  return
}
// -----
func.func @iota_c1() {
  // expected-error@+1 {{'graph.iota' op dimension 2 is out of range for rank 2 [C1]}}
  %0 = graph.iota dim = 2 : tensor<2x4xi64>
  return
}
// -----
func.func @iota_c2() {
  // expected-error@+1 {{is not defined on i1 [C2]}}
  %0 = graph.iota dim = 0 : tensor<2xi1>
  return
}
// -----
func.func @dim_c1() {
  // expected-error@+1 {{takes one expression, got 2 [C1]}}
  %0 = graph.dim <1, 2> : tensor<i64>
  return
}
// -----
func.func @dim_c2() {
  // expected-error@+1 {{[C2]}}
  %0 = graph.dim <1> : tensor<f32>
  return
}
// -----
func.func @cast_c1(%x: tensor<2xf32>) {
  // expected-error@+1 {{changes the shape: f32[2] to i32[3] [C1]}}
  %0 = graph.cast %x : (tensor<2xf32>) -> tensor<3xi32>
  return
}
// -----
func.func @pointwise_c2(%x: tensor<2xi1>) {
  // expected-error@+1 {{'graph.abs' op is not defined on i1; defined on floats and integers but i1 [C2]}}
  %0 = graph.abs %x : tensor<2xi1>
  return
}
// -----
func.func @polynomial_c3(%x: tensor<2xf64>) {
  // expected-error@+1 {{'graph.polynomial' op has no coefficient [C3]}}
  %0 = graph.polynomial %x coefficients = [] : tensor<2xf64>
  return
}
// -----
func.func @bitcast_c1(%x: tensor<2xf32>) {
  // expected-error@+1 {{changes the shape: f32[2] to i32[3] [C1]}}
  %0 = graph.bitcast %x : (tensor<2xf32>) -> tensor<3xi32>
  return
}
// -----
func.func @bitcast_c2(%x: tensor<2xf32>) {
  // expected-error@+1 {{is not defined from f32 to i64; defined between types of one size, but i1 [C2]}}
  %0 = graph.bitcast %x : (tensor<2xf32>) -> tensor<2xi64>
  return
}
// -----
func.func @shift_c2(%x: tensor<2xi1>) {
  // expected-error@+1 {{'graph.shift_left' op is not defined on i1; defined on integers but i1 [C2]}}
  %0 = graph.shift_left %x, %x : tensor<2xi1>
  return
}
// -----
func.func @compare_c1(%x: tensor<2xf32>, %y: tensor<3xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.compare lt %x, %y : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xi1>
  return
}
// -----
func.func @compare_type(%x: tensor<2xf32>) {
  // expected-error@+1 {{'graph.compare' op}}
  %0 = graph.compare lt %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi8>
  return
}
// -----
func.func @select_c1(%x: tensor<2xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.select %x, %x, %x : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}
// -----
func.func @select_c2(%p: tensor<2xi1>, %x: tensor<2xf32>, %y: tensor<2xi32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.select %p, %x, %y : (tensor<2xi1>, tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  return
}
// -----
func.func @select_c3(%p: tensor<i1>, %x: tensor<2xf32>) {
  // expected-error@+1 {{[C3]}}
  %0 = graph.select %p, %x, %x : (tensor<i1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}
// -----
func.func @broadcast_c1(%x: tensor<2xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.broadcast %x dims = [] : (tensor<2xf32>) -> tensor<3x2xf32>
  return
}
// -----
func.func @broadcast_c2(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.broadcast %x dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}
// -----
func.func @broadcast_c3(%x: tensor<2xf32>) {
  // expected-error@+1 {{operand dimension 0 is 2, result dimension 0 is 3 [C3]}}
  %0 = graph.broadcast %x dims = [0] : (tensor<2xf32>) -> tensor<3xf32>
  return
}
// -----
func.func @broadcast_c4(%x: tensor<2xf32>) {
  // expected-error@+1 {{[C4]}}
  %0 = graph.broadcast %x dims = [1] : (tensor<2xf32>) -> tensor<3x2xf16>
  return
}
// -----
func.func @reshape_c1(%x: tensor<2xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.reshape %x : (tensor<2xf32>) -> tensor<2x1xf16>
  return
}
// -----
func.func @reshape_c2(%x: tensor<2xf32>) {
  // expected-error@+1 {{f32[2] has 2 elements, f32[3] has 3 [C2]}}
  %0 = graph.reshape %x : (tensor<2xf32>) -> tensor<3xf32>
  return
}
// -----
func.func @transpose_c1(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dimension 1 occurs twice [C1]}}
  %0 = graph.transpose %x permutation = [1, 1] : (tensor<2x3xf32>) -> tensor<3x3xf32>
  return
}
// -----
func.func @slice_c1(%x: tensor<8xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.slice %x from <0, 0> to <4> by [1] : (tensor<8xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @slice_c2(%x: tensor<8xf32>) {
  // expected-error@+1 {{stride 0 of dimension 0 is not positive [C2]}}
  %0 = graph.slice %x from <0> to <4> by [0] : (tensor<8xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @slice_c3(%x: tensor<8xf32>) {
  // expected-error@+1 {{[0, 9) is not inside dimension 0 of size 8 [C3]}}
  %0 = graph.slice %x from <0> to <9> by [1] : (tensor<8xf32>) -> tensor<9xf32>
  return
}
// -----
func.func @pad_c1(%x: tensor<8xf32>, %v: tensor<f32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.pad %x with %v low <0, 0> high <1> : (tensor<8xf32>, tensor<f32>) -> tensor<9xf32>
  return
}
// -----
func.func @pad_c2(%x: tensor<8xf32>, %v: tensor<f16>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.pad %x with %v low <0> high <1> : (tensor<8xf32>, tensor<f16>) -> tensor<9xf32>
  return
}
// -----
func.func @pad_c3(%x: tensor<8xf32>, %v: tensor<f32>) {
  // expected-error@+1 {{dimension 0 of size 8 becomes -1 [C3]}}
  %0 = graph.pad %x with %v low <-9> high <0> : (tensor<8xf32>, tensor<f32>) -> tensor<0xf32>
  return
}
// -----
func.func @concat_c1() {
  // expected-error@+1 {{needs at least one operand [C1]}}
  %0 = "graph.concat"() {dim = 0 : i64} : () -> tensor<2xf32>
  return
}
// -----
func.func @concat_c2(%x: tensor<2xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.concat %x, %x dim = 1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @concat_c3(%x: tensor<2xf32>, %y: tensor<2x2xf32>) {
  // expected-error@+1 {{[C3]}}
  %0 = graph.concat %x, %y dim = 0 : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @reduce_c1(%x: tensor<2xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.reduce sum %x dims = [1] : (tensor<2xf32>) -> tensor<2xf32>
  return
}
// -----
func.func @reduce_c2(%x: tensor<2xf32>) {
  // expected-error@+1 {{Any is not defined on f32; i1 has any and all, floats have the others [C2]}}
  %0 = graph.reduce any %x dims = [0] : (tensor<2xf32>) -> tensor<f32>
  return
}
// -----
func.func @arg_reduce_c1(%x: tensor<2xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.arg_reduce max %x dim = -1 : (tensor<2xf32>) -> tensor<i64>
  return
}
// -----
func.func @arg_reduce_c2(%x: tensor<0xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.arg_reduce max %x dim = 0 : (tensor<0xf32>) -> tensor<i64>
  return
}
// -----
func.func @reduce_window_c1(%x: tensor<4xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.reduce_window max %x window = [2, 2] strides = [1] low = [0] high = [0] dilation = [1] : (tensor<4xf32>) -> tensor<3xf32>
  return
}
// -----
func.func @reduce_window_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.reduce_window all %x window = [2] strides = [1] low = [0] high = [0] dilation = [1] : (tensor<4xf32>) -> tensor<3xf32>
  return
}
// -----
func.func @reduce_window_c3(%x: tensor<4xf32>) {
  // expected-error@+1 {{[C3]}}
  %0 = graph.reduce_window max %x window = [2] strides = [0] low = [0] high = [0] dilation = [1] : (tensor<4xf32>) -> tensor<3xf32>
  return
}
// -----
func.func @reduce_window_c4(%x: tensor<4xf32>) {
  // expected-error@+1 {{the window does not fit into dimension 0 of size 4 [C4]}}
  %0 = graph.reduce_window max %x window = [5] strides = [1] low = [0] high = [0] dilation = [1] : (tensor<4xf32>) -> tensor<0xf32>
  return
}
// -----
func.func @dot_general_c1(%x: tensor<2x3xf32>, %y: tensor<3x2xf16>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.dot_general %x, %y batch = [] x [] contracting = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf16>) -> tensor<2x2xf32>
  return
}
// -----
func.func @linear_c1(%x: tensor<2x3xi32>, %y: tensor<3x2xi32>, %v: tensor<2xi32>) {
  // expected-error@+1 {{the factors are i32, expected floats [C1]}}
  %0 = graph.linear %x, %y bias %v batch = [] x [] contracting = [1] x [0] : (tensor<2x3xi32>, tensor<3x2xi32>, tensor<2xi32>) -> tensor<2x2xi32>
  return
}
// -----
func.func @linear_c2(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>, %v: tensor<2xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.linear %x, %y bias %v batch = [1] x [0] contracting = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  return
}
// -----
func.func @linear_c3(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>, %v: tensor<2xf32>) {
  // expected-error@+1 {{[C3]}}
  %0 = graph.linear %x, %y bias %v batch = [] x [] contracting = [1] x [] : (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2xf32>) -> tensor<2x3x2xf32>
  return
}
// -----
func.func @linear_c4(%x: tensor<2x3xf32>, %y: tensor<4x2xf32>, %v: tensor<2xf32>) {
  // expected-error@+1 {{contracting dimension 1 of lhs is 3, dimension 0 of rhs is 4 [C4]}}
  %0 = graph.linear %x, %y bias %v batch = [] x [] contracting = [1] x [0] : (tensor<2x3xf32>, tensor<4x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  return
}
// -----
func.func @linear_c5(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>, %v: tensor<3xf32>) {
  // expected-error@+1 {{expected a vector along the last dimension of}}
  %0 = graph.linear %x, %y bias %v batch = [] x [] contracting = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>, tensor<3xf32>) -> tensor<2x2xf32>
  return
}
// -----
func.func @linear_c5_two_dims(%x: tensor<2x3xf32>, %y: tensor<3x2x2xf32>, %v: tensor<2xf32>) {
  // expected-error@+1 {{rhs has 2 dimensions of its own, expected 1 [C5]}}
  %0 = graph.linear %x, %y bias %v batch = [] x [] contracting = [1] x [0] : (tensor<2x3xf32>, tensor<3x2x2xf32>, tensor<2xf32>) -> tensor<2x2x2xf32>
  return
}
// -----
func.func @dot_general_c2(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.dot_general %x, %y batch = [1] x [0] contracting = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return
}
// -----
func.func @dot_general_c3(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error@+1 {{[C3]}}
  %0 = graph.dot_general %x, %y batch = [] x [] contracting = [1] x [] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x3x2xf32>
  return
}
// -----
func.func @dot_general_c4(%x: tensor<2x3xf32>, %y: tensor<4x2xf32>) {
  // expected-error@+1 {{contracting dimension 1 of lhs is 3, dimension 0 of rhs is 4 [C4]}}
  %0 = graph.dot_general %x, %y batch = [] x [] contracting = [1] x [0] : (tensor<2x3xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  return
}
// -----
func.func @convolution_c1(%x: tensor<1x2x8xf32>, %w: tensor<2x2x3xf16>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.convolution %x, %w strides = [1] low = [0] high = [0] dilation = [1] groups = 1 : (tensor<1x2x8xf32>, tensor<2x2x3xf16>) -> tensor<1x2x6xf32>
  return
}
// -----
func.func @convolution_c2(%x: tensor<1x2x8xf32>, %w: tensor<2x2xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.convolution %x, %w strides = [1] low = [0] high = [0] dilation = [1] groups = 1 : (tensor<1x2x8xf32>, tensor<2x2xf32>) -> tensor<1x2x6xf32>
  return
}
// -----
func.func @convolution_c3(%x: tensor<1x2x8xf32>, %w: tensor<2x2x3xf32>) {
  // expected-error@+1 {{[C3]}}
  %0 = graph.convolution %x, %w strides = [1, 1] low = [0] high = [0] dilation = [1] groups = 1 : (tensor<1x2x8xf32>, tensor<2x2x3xf32>) -> tensor<1x2x6xf32>
  return
}
// -----
func.func @convolution_c4(%x: tensor<1x2x8xf32>, %w: tensor<2x3x3xf32>) {
  // expected-error@+1 {{[C4]}}
  %0 = graph.convolution %x, %w strides = [1] low = [0] high = [0] dilation = [1] groups = 1 : (tensor<1x2x8xf32>, tensor<2x3x3xf32>) -> tensor<1x2x6xf32>
  return
}
// -----
func.func @convolution_c5(%x: tensor<1x2x8xf32>, %w: tensor<2x2x3xf32>) {
  // expected-error@+1 {{[C5]}}
  %0 = graph.convolution %x, %w strides = [0] low = [0] high = [0] dilation = [1] groups = 1 : (tensor<1x2x8xf32>, tensor<2x2x3xf32>) -> tensor<1x2x6xf32>
  return
}
// -----
func.func @convolution_c6(%x: tensor<1x2x8xf32>, %w: tensor<2x2x9xf32>) {
  // expected-error@+1 {{the weight does not fit into spatial dimension 0 of size 8 [C6]}}
  %0 = graph.convolution %x, %w strides = [1] low = [0] high = [0] dilation = [1] groups = 1 : (tensor<1x2x8xf32>, tensor<2x2x9xf32>) -> tensor<1x2x0xf32>
  return
}
// -----
func.func @gather_c1(%x: tensor<4x2xf32>, %i: tensor<3xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.gather %x at %i dim = 0 : (tensor<4x2xf32>, tensor<3xf32>) -> tensor<3x2xf32>
  return
}
// -----
func.func @gather_c2(%x: tensor<4x2xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.gather %x at %i dim = 2 : (tensor<4x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  return
}
// -----
func.func @check_index_c1(%i: tensor<3xi8>) {
  // expected-error@+1 {{indices are i8, expected i64 or i32 [C1]}}
  %0 = graph.check_index %i below #graph.dims<4> wrap = true "out of range" : tensor<3xi8>
  return
}
// -----
func.func @check_index_c2(%i: tensor<3xi64>) {
  // expected-error@+1 {{takes one size, got 2 [C2]}}
  %0 = graph.check_index %i below #graph.dims<4, 5> wrap = true "out of range" : tensor<3xi64>
  return
}
// -----
func.func @scatter_c1(%x: tensor<4x2xf32>, %i: tensor<3xf32>, %u: tensor<3x2xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.scatter set %u into %x at %i dim = 0 : (tensor<4x2xf32>, tensor<3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return
}
// -----
func.func @scatter_c2(%x: tensor<4x2xf32>, %i: tensor<3xi64>, %u: tensor<3x2xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.scatter set %u into %x at %i dim = 2 : (tensor<4x2xf32>, tensor<3xi64>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return
}
// -----
func.func @scatter_c3(%x: tensor<4x2xf32>, %i: tensor<3xi64>, %u: tensor<2x2xf32>) {
  // expected-error@+1 {{[C3]}}
  %0 = graph.scatter set %u into %x at %i dim = 0 : (tensor<4x2xf32>, tensor<3xi64>, tensor<2x2xf32>) -> tensor<4x2xf32>
  return
}
// -----
func.func @scatter_c4(%x: tensor<4x2xi1>, %i: tensor<3xi64>, %u: tensor<3x2xi1>) {
  // expected-error@+1 {{[C4]}}
  %0 = graph.scatter add %u into %x at %i dim = 0 : (tensor<4x2xi1>, tensor<3xi64>, tensor<3x2xi1>) -> tensor<4x2xi1>
  return
}
// -----
func.func @scan_c1(%x: tensor<4x2xf32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.scan sum %x dim = 2 : tensor<4x2xf32>
  return
}
// -----
func.func @scan_c2(%x: tensor<4x2xi1>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.scan max %x dim = 0 : tensor<4x2xi1>
  return
}
// -----
func.func @sort_c1(%x: tensor<4x2xf32>) {
  // expected-error@+1 {{[C1]}}
  %v, %i = graph.sort %x dim = -1 descending = false : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  return
}
// -----
func.func @sort_rank_0(%x: tensor<f32>) {
  // expected-error@+1 {{[C1]}}
  %v, %i = graph.sort %x dim = 0 descending = true : (tensor<f32>) -> (tensor<f32>, tensor<i64>)
  return
}
// -----
func.func @sort_c2(%x: tensor<4xf8E5M2>) {
  // expected-error@+1 {{[C2]}}
  %v, %i = graph.sort %x dim = 0 descending = true : (tensor<4xf8E5M2>) -> (tensor<4xf8E5M2>, tensor<4xi64>)
  return
}
// -----
func.func @sort_types(%x: tensor<4x2xf32>) {
  // expected-error@+1 {{result 1 should be}}
  %v, %i = graph.sort %x dim = 0 descending = true : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}
// -----
func.func @softmax_c1(%x: tensor<4xi32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.softmax %x dim = 0 : tensor<4xi32>
  return
}
// -----
func.func @softmax_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.softmax %x dim = 1 : tensor<4xf32>
  return
}
// -----
func.func @layer_norm_c1(%x: tensor<4xi32>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.layer_norm %x dims = 1 epsilon = 1.0e-05 : (tensor<4xi32>) -> tensor<4xi32>
  return
}
// -----
func.func @layer_norm_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{normalises over the last 2 of 1 dimensions [C2]}}
  %0 = graph.layer_norm %x dims = 2 epsilon = 1.0e-05 : (tensor<4xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @layer_norm_c3(%x: tensor<2x4xf32>, %w: tensor<2xf32>) {
  // expected-error@+1 {{[C3]}}
  %0 = graph.layer_norm %x affine(%w) dims = 1 epsilon = 1.0e-05 : (tensor<2x4xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  return
}
// -----
func.func @attention_c1(%q: tensor<3x4xf32>, %k: tensor<5x4xf16>) {
  // expected-error@+1 {{[C1]}}
  %0 = graph.attention %q, %k, %k scale = 0.5 causal = false : (tensor<3x4xf32>, tensor<5x4xf16>, tensor<5x4xf16>) -> tensor<3x4xf32>
  return
}
// -----
func.func @attention_c2(%q: tensor<3x4xf32>, %k: tensor<5x6xf32>) {
  // expected-error@+1 {{[C2]}}
  %0 = graph.attention %q, %k, %k scale = 0.5 causal = false : (tensor<3x4xf32>, tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<3x6xf32>
  return
}
// -----
func.func @attention_c3(%q: tensor<3x4xf32>, %k: tensor<5x4xf32>, %b: tensor<3x3xf32>) {
  // expected-error@+1 {{[C3]}}
  %0 = graph.attention %q, %k, %k bias(%b) scale = 0.5 causal = false : (tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<3x3xf32>) -> tensor<3x4xf32>
  return
}
// -----
func.func @call_c1(%x: tensor<4xf32>) {
  // expected-error@+1 {{calls @nowhere, which this module does not define}}
  %0 = graph.call @nowhere(%x) symbols = <> : (tensor<4xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @pointwise_c2_float8(%x: tensor<2xf8E4M3FN>) {
  // expected-error@+1 {{computes nothing in f8E4M3FN, which holds elements only; cast it to f32, bf16 or f16 [C2]}}
  %0 = graph.add %x, %x : tensor<2xf8E4M3FN>
  return
}
// -----
func.func @reduce_c2_float8(%x: tensor<2xf8E5M2>) {
  // expected-error@+1 {{Sum is not defined on f8E5M2}}
  %0 = graph.reduce sum %x dims = [0] : (tensor<2xf8E5M2>) -> tensor<f8E5M2>
  return
}
// -----
func.func @arg_reduce_c3(%x: tensor<2xf8E5M2>) {
  // expected-error@+1 {{f8E5M2 has no order here; cast it to f32 [C3]}}
  %0 = graph.arg_reduce max %x dim = 0 : (tensor<2xf8E5M2>) -> tensor<i64>
  return
}
// -----
func.func @scatter_c4_ui8(%x: tensor<4x2xui8>, %i: tensor<3xi64>, %u: tensor<3x2xui8>) {
  // expected-error@+1 {{max and min are not defined on ui8; cast it to i32 [C4]}}
  %0 = graph.scatter max %u into %x at %i dim = 0 : (tensor<4x2xui8>, tensor<3xi64>, tensor<3x2xui8>) -> tensor<4x2xui8>
  return
}
// -----
func.func @scan_c3(%x: tensor<4x2xui8>) {
  // expected-error@+1 {{max and min are not defined on ui8; cast it to i32 [C3]}}
  %0 = graph.scan max %x dim = 0 : tensor<4x2xui8>
  return
}
// -----
func.func @bitcast_c2_i1(%x: tensor<2xi1>) {
  // expected-error@+1 {{is not defined from i1 to ui8}}
  %0 = graph.bitcast %x : (tensor<2xi1>) -> tensor<2xui8>
  return
}
// -----
func.func @signed(%x: tensor<2xsi8>) {
  // expected-error@+1 {{element type 'si8' is not supported; known: f64, f32, f16, bf16, f8E4M3FN, f8E5M2, i64, i32, i16, i8, ui8, i1}}
  %0 = graph.neg %x : tensor<2xsi8>
  return
}
// -----
func.func @custom_call_c1_count(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{has 2 entries for 4 dimensions [C1]}}
  %0 = graph.custom_call "f"(%x) symbols = <> payload "{}" reason "" {layouts = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}
// -----
func.func @custom_call_c1_twice(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dimension 1 occurs twice [C1]}}
  %0 = graph.custom_call "f"(%x) symbols = <> payload "{}" reason "" {layouts = array<i64: 1, 1, 0, 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}
// -----
func.func @custom_call_c2(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{has 1 sizes for 2 dimensions of operands [C2]}}
  %0 = graph.custom_call "f"(%x) symbols = <> payload "{}" reason "" {sizes = #graph.dims<2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}
// -----
func.func @custom_call_c3(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{names operand 1 of 1 [C3]}}
  %0 = graph.custom_call "f"(%x) symbols = <> payload "{}" reason "" {as_is = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}
