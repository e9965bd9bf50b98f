// `--bisect-limit=N` runs the first N steps: the first N that goes wrong names the step.
// RUN: strata-opt %s --passes=cse,test-wrong-result,decompose-composites --bisect-limit=1 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: strata-opt %s --passes=cse,test-wrong-result,decompose-composites --bisect-limit=2 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: strata-opt %s --passes=cse,test-wrong-result,decompose-composites --bisect-limit=0 2>&1 | FileCheck %s --check-prefix=NONE

// ONE: bisect: ran 1 of 3 steps, the last was cse
// ONE: graph.add
// ONE: graph.softmax
// TWO: bisect: ran 2 of 3 steps, the last was test-wrong-result
// TWO: graph.sub
// TWO: graph.softmax
// NONE: bisect: ran 0 of 3 steps
// NONE: graph.add

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.add %x, %x : tensor<4xf32>
  %1 = graph.softmax %0 dim = 0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
