// `--bisect` finds the step that makes a program bad, and which of its rewrites: by itself, or with answers given by hand.
// RUN: rm -rf %t && mkdir %t
// RUN: strata-opt %s --passes=cse,decompose-composites,test-wrong-result,canonicalize --check-semantics --bisect=run 2>&1 | FileCheck %s --check-prefix=STEP
// RUN: strata-opt %s --passes=cse,canonicalize,test-abort,decompose-composites --bisect=run 2>&1 | FileCheck %s --check-prefix=ABORT
//
// The second softmax is the first that brings a maximum over dimension 0.
// RUN: strata-opt %s --passes=cse,decompose-composites,canonicalize --bisect=run --good-if='not grep -q "reduce max.*dims = .0."' 2>&1 | FileCheck %s --check-prefix=REWRITE
// RUN: strata-opt %s --passes=cse,decompose-composites,canonicalize --bisect-limit=2.1 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: strata-opt %s --passes=cse,decompose-composites --bisect=run --good-if='not grep -q graph.exp' --json 2>&1 | FileCheck %s --check-prefix=JSON
//
// By hand: bad, and then what one thinks of what is printed.
// DEFINE: %{hand} = strata-opt %s --passes=cse,test-wrong-result,decompose-composites,canonicalize --bisect-state=%t/state.json
// RUN: not %{hand} --bisect=good 2>&1 | FileCheck %s --check-prefix=BEGIN
// RUN: %{hand} --bisect=bad 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not strata-opt %s --passes=cse --bisect=bad --bisect-state=%t/state.json 2>&1 | FileCheck %s --check-prefix=ANOTHER
// RUN: %{hand} --bisect=bad 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: %{hand} --bisect=good 2>&1 | FileCheck %s --check-prefix=FOUND
// RUN: not cat %t/state.json
//
// RUN: not strata-opt %s --passes=cse,canonicalize --bisect=run 2>&1 | FileCheck %s --check-prefix=GOOD
// RUN: not strata-opt %s --bisect=run 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not strata-opt %s --passes=cse --bisect-limit=1.x 2>&1 | FileCheck %s --check-prefix=POINT

// STEP: bisect: after 2 steps: good
// STEP: bisect: after 3 steps: bad
// STEP: bisect: step 3 of 4, 'test-wrong-result', is the first bad one
// STEP: bisect: the last good program: strata opt {{.*}} --bisect-limit=2
// ABORT: bisect: step 3 of 4, 'test-abort', is the first bad one
// REWRITE: bisect: step 2 of 3, 'decompose-composites', is the first bad one, by its rewrite 2
// REWRITE: bisect: the last good program: strata opt {{.*}} --bisect-limit=2.1
// ONE: bisect: ran 2 of 3 steps, the last was decompose-composites with its first 1 rewrites
// ONE: graph.reduce max {{.*}} dims = [1]
// ONE: graph.softmax {{.*}} dim = 0
// JSON: "bisect":{"last_good":"strata opt {{.*}} --bisect-limit=2.0","pipeline":"decompose-composites","rewrite":1,"step":2}
// BEGIN: error: no bisection has begun
// TWO: graph.sub
// TWO: bisect: this is the program after 2 of 4 steps; say --bisect=good or --bisect=bad
// ANOTHER: state.json is of another program or pipeline
// FIRST: bisect: this is the program after 1 of 4 steps
// FOUND: bisect: step 2 of 4, 'test-wrong-result', is the first bad one
// GOOD: error: the program is good behind all 2 steps: there is nothing to find
// NONE: error: --bisect needs a pipeline
// POINT: '1.x' is not a number of steps such as 4, or steps and rewrites such as 4.2

func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = graph.add %x, %x : tensor<4x4xf32>
  %1 = graph.softmax %0 dim = 1 : tensor<4x4xf32>
  %2 = graph.softmax %1 dim = 0 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
