// Verification between steps, and printing that reads back.
// RUN: not strata-opt %s --passes=test-break-ir 2>&1 | FileCheck %s --check-prefix=OWN
// RUN: not strata-opt %s --passes=test-break-ir --verify-each=false 2>&1 | FileCheck %s --check-prefix=OWN
// RUN: strata-opt %s --passes=cse --verify-each=false | FileCheck %s --check-prefix=GOOD
// RUN: strata-opt %s --verify-roundtrip | FileCheck %s --check-prefix=GOOD

// OWN: does not dominate this use
// OWN: error: the IR does not verify after step 1, 'test-break-ir'
// GOOD: graph.exp

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
