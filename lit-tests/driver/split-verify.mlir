// Parts of a file are programs of their own; comments say which diagnostics must come.
// RUN: split-file %s %t
// RUN: strata-opt %t/right.mlir --split-input-file --verify-diagnostics
// RUN: not strata-opt %t/wrong.mlir --split-input-file --verify-diagnostics 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not strata-opt %t/wrong.mlir --split-input-file 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: strata-opt %t/good.mlir --split-input-file --passes=cse | FileCheck %s --check-prefix=GOOD

//--- right.mlir
func.func @f(%x: tensor<4xi32>) {
  // expected-error@+1 {{'graph.exp' op is not defined on i32; defined on floats [C2]}}
  %0 = graph.exp %x : tensor<4xi32>
  return
}

// -----

// Fine.
func.func @g() {
  return
}

//--- wrong.mlir
func.func @f(%x: tensor<4xi32>) {
  // expected-error@+1 {{is not defined on f32}}
  %0 = graph.exp %x : tensor<4xi32>
  return
}
// -----
func.func @g(%x: tensor<4xi32>) {
  %0 = graph.tanh %x : tensor<4xi32>
  return
}

// WRONG: wrong.mlir:3:8: error: unexpected error: 'graph.exp' op is not defined on i32
// WRONG: wrong.mlir:3:1: error: expected error "is not defined on f32" was not produced
// WRONG: wrong.mlir:8:8: error: unexpected error: 'graph.tanh' op
// PLAIN: wrong.mlir:3:8: error: 'graph.exp' op
// PLAIN: wrong.mlir:8:8: error: 'graph.tanh' op

//--- good.mlir
func.func @a() {
  return
}
// -----
func.func @b() {
  return
}

// GOOD: func.func @a()
// GOOD: // -----
// GOOD: func.func @b()
