// RUN: strata-opt %s --passes=drop-index-checks | FileCheck %s
// RUN: strata-opt %s --passes=drop-index-checks --check-semantics=3 -o /dev/null

// Positions, and sums and products of them.
// CHECK-LABEL: func.func @positions
// CHECK-NOT: graph.check_index
// CHECK: return
func.func @positions(%x: tensor<?x6xf32, #graph.dims<s0, 6>>) -> (tensor<?x6xi64, #graph.dims<s0, 6>>, tensor<?x6xi64, #graph.dims<s0, 6>>, tensor<?xi64, #graph.dims<s0>>)
    attributes {graph.symbols = [{name = "n", min = 1}]} {
  %p = graph.iota dim = 0 : tensor<?x6xi64, #graph.dims<s0, 6>>
  %q = graph.iota dim = 1 : tensor<?x6xi64, #graph.dims<s0, 6>>
  %c = graph.constant dense<6> : tensor<i64>
  %six = graph.broadcast %c dims = [] : (tensor<i64>) -> tensor<?x6xi64, #graph.dims<s0, 6>>
  %scaled = graph.mul %p, %six : tensor<?x6xi64, #graph.dims<s0, 6>>
  %flat = graph.add %scaled, %q : tensor<?x6xi64, #graph.dims<s0, 6>>
  %a = graph.check_index %flat below #graph.dims<s0 * 6> wrap = false "flat" : tensor<?x6xi64, #graph.dims<s0, 6>>
  %v, %order = graph.sort %x dim = 1 descending = false : (tensor<?x6xf32, #graph.dims<s0, 6>>) -> (tensor<?x6xf32, #graph.dims<s0, 6>>, tensor<?x6xi64, #graph.dims<s0, 6>>)
  %b = graph.check_index %order below #graph.dims<6> wrap = true "sorted" : tensor<?x6xi64, #graph.dims<s0, 6>>
  %top = graph.arg_reduce max %x dim = 1 : (tensor<?x6xf32, #graph.dims<s0, 6>>) -> tensor<?xi64, #graph.dims<s0>>
  %d = graph.check_index %top below #graph.dims<6> wrap = false "largest" : tensor<?xi64, #graph.dims<s0>>
  return %a, %b, %d : tensor<?x6xi64, #graph.dims<s0, 6>>, tensor<?x6xi64, #graph.dims<s0, 6>>, tensor<?xi64, #graph.dims<s0>>
}

// Data kept inside by the program, and data that was checked before.
// CHECK-LABEL: func.func @kept_inside
// CHECK-COUNT-1: graph.check_index
// CHECK-NOT: graph.check_index
// CHECK: return
func.func @kept_inside(%i: tensor<4xi64>, %m: tensor<4xi1>) -> (tensor<4xi64>, tensor<4xi64>, tensor<4xi64>) {
  %zero = graph.constant dense<0> : tensor<4xi64>
  %last = graph.constant dense<9> : tensor<4xi64>
  %low = graph.max %i, %zero : tensor<4xi64>
  %both = graph.min %low, %last : tensor<4xi64>
  %a = graph.check_index %both below #graph.dims<10> wrap = true "clamped" : tensor<4xi64>
  %b = graph.check_index %i below #graph.dims<10> wrap = true "the first of two" : tensor<4xi64>
  %c = graph.check_index %b below #graph.dims<10> wrap = true "the second" : tensor<4xi64>
  %d = graph.select %m, %b, %zero : (tensor<4xi1>, tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %e = graph.check_index %d below #graph.dims<12> wrap = true "one or the other" : tensor<4xi64>
  return %a, %c, %e : tensor<4xi64>, tensor<4xi64>, tensor<4xi64>
}

// One too many, one too low, a size that may be smaller, data.
// CHECK-LABEL: func.func @outside
// CHECK-COUNT-4: graph.check_index
// CHECK: return
func.func @outside(%i: tensor<?xi64, #graph.dims<s0>>) -> (tensor<?xi64, #graph.dims<s0>>, tensor<?xi64, #graph.dims<s0>>, tensor<?xi64, #graph.dims<s0>>, tensor<?xi64, #graph.dims<s0>>)
    attributes {graph.symbols = [{name = "n", min = 1}, {name = "m", min = 4}]} {
  %p = graph.iota dim = 0 : tensor<?xi64, #graph.dims<s0>>
  %one = graph.constant dense<1> : tensor<i64>
  %ones = graph.broadcast %one dims = [] : (tensor<i64>) -> tensor<?xi64, #graph.dims<s0>>
  %next = graph.add %p, %ones : tensor<?xi64, #graph.dims<s0>>
  %before = graph.sub %p, %ones : tensor<?xi64, #graph.dims<s0>>
  %a = graph.check_index %next below #graph.dims<s0> wrap = false "behind" : tensor<?xi64, #graph.dims<s0>>
  %b = graph.check_index %before below #graph.dims<s0> wrap = true "before" : tensor<?xi64, #graph.dims<s0>>
  %c = graph.check_index %p below #graph.dims<s1> wrap = true "another size" : tensor<?xi64, #graph.dims<s0>>
  %d = graph.check_index %i below #graph.dims<s0> wrap = true "data" : tensor<?xi64, #graph.dims<s0>>
  return %a, %b, %c, %d : tensor<?xi64, #graph.dims<s0>>, tensor<?xi64, #graph.dims<s0>>, tensor<?xi64, #graph.dims<s0>>, tensor<?xi64, #graph.dims<s0>>
}

// What may wrap around: a sum of which one end is open, and positions that do not fit 32 bits.
// CHECK-LABEL: func.func @wrapped
// CHECK-COUNT-2: graph.check_index
// CHECK: return
func.func @wrapped(%i: tensor<4xi64>) -> (tensor<4xi64>, tensor<3000000000xi32>) {
  %zero = graph.constant dense<0> : tensor<4xi64>
  %one = graph.constant dense<1> : tensor<4xi64>
  %last = graph.constant dense<9> : tensor<4xi64>
  %low = graph.max %i, %zero : tensor<4xi64>
  %next = graph.add %low, %one : tensor<4xi64>
  %both = graph.min %next, %last : tensor<4xi64>
  %a = graph.check_index %both below #graph.dims<10> wrap = false "sum" : tensor<4xi64>
  %p = graph.iota dim = 0 : tensor<3000000000xi32>
  %b = graph.check_index %p below #graph.dims<3000000000> wrap = false "positions" : tensor<3000000000xi32>
  return %a, %b : tensor<4xi64>, tensor<3000000000xi32>
}
