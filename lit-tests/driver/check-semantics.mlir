// Each step is checked by running the program before and after it; the faulty step is named.
// RUN: strata-opt %s --compile-to=tensor --check-semantics 2>&1 | FileCheck %s --check-prefix=GOOD
// RUN: not strata-opt %s --passes=cse,test-wrong-result,decompose-composites --check-semantics=7 --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: strata-opt %s --passes=cse --check-semantics --json -o /dev/null 2>&1 | FileCheck %s --check-prefix=JSON

// GOOD: check-semantics: {{[0-9]+}} comparisons, 0 skipped
// WRONG: check-semantics.mlir:[[#@LINE+8]]:1: error: step 2, 'test-wrong-result', which is declared exact, changes what @f computes: result 0
// WRONG-NEXT: func.func @f
// WRONG: note: inputs are random by seed 7
// WRONG: reproduce with: strata opt --run-reproducer
// WRONG-SAME: test-wrong-result
// WRONG-SAME: --check-semantics=7
// JSON: "semantics":{"compared":1,"skipped":[]}

func.func @f(%x: tensor<?x8xf32, #graph.dims<s0, 8>>, %y: tensor<?x8xf32, #graph.dims<s0, 8>>) -> tensor<?x8xf32, #graph.dims<s0, 8>>
    attributes {graph.symbols = [{name = "batch", min = 1, max = 16}]} {
  %0 = graph.add %x, %y : tensor<?x8xf32, #graph.dims<s0, 8>>
  %1 = graph.softmax %0 dim = 1 : tensor<?x8xf32, #graph.dims<s0, 8>>
  return %1 : tensor<?x8xf32, #graph.dims<s0, 8>>
}
