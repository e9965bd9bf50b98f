// Own and upstream passes mix, in short and in MLIR's form.
// RUN: strata-opt %s --passes=decompose-composites,cse | FileCheck %s
// RUN: strata-opt %s --passes='builtin.module(func.func(canonicalize{max-iterations=3}),decompose-composites,func.func(cse))' | FileCheck %s
// RUN: not strata-opt %s --passes=canonicalise 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not strata-opt %s --passes='cse,canonicalize{size=1}' 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not strata-opt %s --passes='func.func(decompose-composites)' 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: not strata-opt %s --passes='func.func(cse' 2>&1 | FileCheck %s --check-prefix=SYNTAX

// CHECK-LABEL: func.func @softmax
// CHECK: graph.reduce max
// CHECK: graph.exp
// CHECK-NOT: graph.softmax
func.func @softmax(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.softmax %a dim = 0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// UNKNOWN: --passes:1:1: error: unknown pass 'canonicalise'; did you mean canonicalize?
// OPTION: --passes:1:5: error: the pass 'canonicalize' has no option 'size'; known: {{.*}}max-iterations
// LEVEL: error: the pass 'decompose-composites' works on the whole module; write it outside of 'func.func(…)'
// SYNTAX: --passes:1:10: error: this '(' is not closed
