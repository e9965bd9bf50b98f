// Dumps before and after steps, on standard error, in MLIR's format.
// RUN: strata-opt %s --passes=cse,decompose-composites,symbol-dce --print-ir-after-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: strata-opt %s --passes=cse,decompose-composites --print-ir-before=decompose-composites -o /dev/null 2>&1 | FileCheck %s --check-prefix=BEFORE
// RUN: strata-opt %s --passes=cse,decompose-composites,symbol-dce --print-ir-change-only -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHANGE
// RUN: not strata-opt %s --passes=test-break-ir --print-ir-on-failure -o /dev/null 2>&1 | FileCheck %s --check-prefix=FAILURE
// RUN: rm -rf %t && strata-opt %s --passes=cse,decompose-composites --print-ir-tree=%t -o /dev/null
// RUN: ls %t | FileCheck %s --check-prefix=TREE
// RUN: FileCheck %s --input-file=%t/02-decompose-composites.mlir --check-prefix=LAST
// RUN: strata-opt %s --passes=cse,decompose-composites --ir-diff -o /dev/null 2>&1 | FileCheck %s --check-prefix=DIFF
// RUN: strata-opt %s --print-generic | FileCheck %s --check-prefix=GENERIC
// RUN: strata-opt %s --print-locations | FileCheck %s --check-prefix=LOCATIONS
// RUN: strata-opt %s --elide-constants=2 | FileCheck %s --check-prefix=ELIDED

// ALL: // -----// IR Dump After cse (step 1 of 3) //----- //
// ALL: graph.softmax
// ALL: // -----// IR Dump After decompose-composites (step 2 of 3) //----- //
// ALL-NOT: graph.softmax
// ALL: // -----// IR Dump After symbol-dce (step 3 of 3) //----- //

// BEFORE-NOT: step 1
// BEFORE: // -----// IR Dump Before decompose-composites (step 2 of 2) //----- //
// BEFORE: graph.softmax
// BEFORE-NOT: graph.exp

// CHANGE-NOT: After cse
// CHANGE: After decompose-composites
// CHANGE-NOT: After symbol-dce

// FAILURE: // -----// IR Dump After test-break-ir (step 1 of 1) //----- //
// FAILURE-NEXT: // this step failed
// FAILURE: "graph.softmax"(%0)

// TREE: 00-input.mlir
// TREE-NEXT: 01-cse.mlir
// TREE-NEXT: 02-decompose-composites.mlir
// LAST: graph.exp

// DIFF: === step 1: cse: no change
// DIFF: === step 2: decompose-composites
// DIFF: -    %0 = graph.softmax %arg0 dim = 0 : tensor<4xf32>
// DIFF: +    %0 = graph.reduce max

// GENERIC: "graph.softmax"(%arg0) {dim = 0 : i64}
// LOCATIONS: loc("{{.*}}print-ir.mlir":{{[0-9]+}}:8)
// ELIDED: dense_resource<__elided__>

func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.softmax %x dim = 0 : tensor<4xf32>
  %1 = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
