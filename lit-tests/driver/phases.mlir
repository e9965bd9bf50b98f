// Named phases: compile to one, look at it, and go on from there.
// RUN: strata-opt %s --target=cpu --compile-to=graph -o %t.graph.mlir
// RUN: FileCheck %s --check-prefix=GRAPH --input-file=%t.graph.mlir
// RUN: strata-opt %t.graph.mlir --target=cpu --compile-from=graph --compile-to=fused -o %t.two.mlir
// RUN: strata-opt %s --target=cpu --compile-to=fused -o %t.one.mlir
// RUN: diff %t.one.mlir %t.two.mlir
// RUN: FileCheck %s --check-prefix=FUSED --input-file=%t.one.mlir
// RUN: not strata-opt %s --compile-to=fuse 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not strata-opt %s --compile-from=fused --compile-to=graph 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not strata-opt %s --target=riscv 2>&1 | FileCheck %s --check-prefix=TARGET

// GRAPH: graph.exp
// GRAPH-NOT: graph.call
// FUSED: graph.call @
// FUSED: func.func private @
// UNKNOWN: error: target cpu:{{.*}} has no phase 'fuse'; did you mean fused? (phases: input, graph, fused
// ORDER: error: phase 'graph' comes before 'fused'
// TARGET: unknown target 'riscv'; write cpu, cpu:x86-64-v3 or nvptx:sm_90a

func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.softmax %x dim = 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
