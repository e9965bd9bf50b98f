// Diagnostics show file, line, column, the source line, and the command that reproduces them.
// RUN: split-file %s %t
// RUN: not strata-opt %t/syntax.mlir 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not strata-opt %t/invalid.mlir 2>&1 | FileCheck %s --check-prefix=INVALID
// RUN: not strata-opt %t/good.mlir --passes=cse,test-fail --reproducer-dir=%t/r 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not strata-opt %t/good.mlir --passes=test-fail --json --reproducer-dir=%t/r 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not strata-opt %t/absent.mlir 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not strata-opt --frobnicate 2>&1 | FileCheck %s --check-prefix=USAGE

// SYNTAX: {{.*}}syntax.mlir:2:1: error: custom op 'nonsense' is unknown
// SYNTAX-NEXT: nonsense here
// SYNTAX-NEXT: {{^}}^

// INVALID: {{.*}}invalid.mlir:3:8: error: 'graph.exp' op {{.*}} [C2]
// INVALID-NEXT: {{^}}  %0 = graph.exp %x : tensor<4xi32>
// INVALID-NEXT: {{^}}       ^

// PASS: {{.*}}good.mlir:2:8: error: test-fail fails
// PASS-NEXT: {{^}}  %0 = graph.exp %x : tensor<4xf32>
// PASS-NEXT: {{^}}       ^
// PASS-NEXT: note: take test-fail out of the pipeline
// PASS-NEXT: reproduce with: strata opt --run-reproducer {{.*}}test-fail-{{.*}}.mlir

// JSON: {"diagnostics":[{"message":"test-fail fails",{{.*}}"position":{"column":8,"file":"{{.*}}good.mlir","line":2},"severity":"error"},{"command":"strata opt --run-reproducer

// ABSENT: {{.*}}absent.mlir: error: cannot be read: No such file or directory
// USAGE: unexpected argument '--frobnicate'

//--- syntax.mlir
// A comment.
nonsense here
//--- invalid.mlir
// A comment.
func.func @f(%x: tensor<4xi32>) {
  %0 = graph.exp %x : tensor<4xi32>
  return
}
//--- good.mlir
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
