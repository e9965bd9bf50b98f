// `--reproducer-dir` keeps the IR before each step, each file with the step it is for; MLIR's own tool reads the format.
// RUN: rm -rf %t && strata-opt %s --passes='func.func(cse),decompose-composites,func.func(canonicalize{max-iterations=3})' --reproducer-dir=%t --target=nvptx:sm_90a -o %t.out
// RUN: FileCheck %s --input-file=%t/01-cse.mlir --check-prefix=FIRST
// RUN: FileCheck %s --input-file=%t/03-canonicalize.mlir --check-prefix=THIRD
// RUN: strata-opt --run-reproducer %t/02-decompose-composites.mlir | FileCheck %s --check-prefix=RESULT
// RUN: not strata-opt --run-reproducer %s 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not strata-opt --run-reproducer %s --passes=cse 2>&1 | FileCheck %s --check-prefix=BOTH

// FIRST: graph.softmax
// FIRST: pipeline: "builtin.module(func.func(cse))"
// FIRST: disable_threading: true
// FIRST: verify_each: true
// FIRST: target: "nvptx:sm_90a"
// THIRD-NOT: graph.softmax
// THIRD: pipeline: "builtin.module(func.func(canonicalize{max-iterations=3}))"
// RESULT: graph.exp
// RESULT-NOT: mlir_reproducer
// NONE: reproducer.mlir: error: the file has no 'mlir_reproducer{{'}} part
// BOTH: cannot be used with

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.softmax %x dim = 0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
