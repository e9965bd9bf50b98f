// Scheduled loops are reduced too: functions, loops, branches, values, symbols, sizes.
// RUN: strata-opt %S/../models/gpt2-block.mlir --target=nvptx:sm_90a --compile-to=loop -o %t.gpu.mlir
// RUN: strata-reduce %t.gpu.mlir --passes=canonicalize,test-wrong-alignment -o %t.small.mlir 2>&1 | FileCheck %s --check-prefix=GPU
// RUN: not strata-opt --run-reproducer %t.small.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: strata-opt %S/../models/gpt2-block.mlir --target=cpu:x86-64-v3 --compile-to=loop -o %t.cpu.mlir
// RUN: strata-reduce %t.cpu.mlir --passes=cse,test-short-loop 2>/dev/null | FileCheck %s --check-prefix=CPU

// GPU: reduced from {{[0-9][0-9][0-9]}} ops and {{.*}} to {{[0-9]}} ops
// AGAIN: 'test-wrong-alignment' changes what @{{.*}} computes: it has no result: {{.*}} promised to be a multiple of
// CPU: func.func @{{.*}} {
// CPU: scf.for
// CPU-NEXT: arith.constant
// CPU-NEXT: vector.store
// CPU-NOT: scf.for
