// Whatever ends a pass, `strata opt` ends with a diagnostic, a reproducer and code 1; the reproducer shows the same.
// RUN: rm -rf %t
// RUN: not strata-opt %s --passes=func.func\(cse\),test-panic --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=PANIC
// RUN: not strata-opt %s --passes=cse,test-abort --reproducer-dir=%t/abort 2>&1 | FileCheck %s --check-prefix=ABORT
// RUN: not strata-opt %s --passes=test-overflow --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=OVERFLOW
// RUN: not strata-opt %s --passes=test-hang --timeout=0.5 --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=HANG
// RUN: not strata-opt %s --passes=test-break-ir --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=BREAK
// RUN: not strata-opt %t/abort/02-test-abort.mlir --run-reproducer --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not strata-opt --passes=test-abort --reproducer-dir=%t < %s 2>&1 | FileCheck %s --check-prefix=STDIN
// RUN: not strata-opt %s --passes=test-panic --in-process --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=PANIC

// PANIC: error: the pass 'test-panic' panicked: test-panic panics at {{.*}}test_passes.rs:
// PANIC: note: this is a bug in the pass, not in the program
// PANIC: reproduce with: strata opt --run-reproducer
// ABORT: {{.*}}crash.mlir: step 2 of 2, 'test-abort', was ended by signal 6 (SIGABRT
// ABORT: reproduce with: strata opt --run-reproducer {{.*}}test-abort
// OVERFLOW: has overflowed its stack
// OVERFLOW: {{.*}}crash.mlir: step 1 of 1, 'test-overflow', was ended by signal
// OVERFLOW: reproduce with: strata opt --run-reproducer
// HANG: {{.*}}crash.mlir: step 1 of 1, 'test-hang', did not end within 0.5 s
// HANG: reproduce with: strata opt --run-reproducer
// BREAK: {{.*}}crash.mlir:[[#]]:8: error: operand #0 does not dominate this use
// BREAK: error: the IR does not verify after step 1, 'test-break-ir'
// AGAIN: step 1 of 1, 'test-abort', was ended by signal 6
// STDIN: <stdin>: step 1 of 1, 'test-abort', was ended by signal 6

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.add %x, %x : tensor<4xf32>
  %1 = graph.add %x, %x : tensor<4xf32>
  %2 = graph.mul %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
