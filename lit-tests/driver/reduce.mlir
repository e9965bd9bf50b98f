// `strata reduce` shrinks a program while it shows the same fault; what it writes is a reproducer that shows the fault by itself.
// RUN: rm -rf %t && mkdir %t
//
// A wrong result, found without being told what to look for.
// RUN: strata-reduce %s --passes=cse,decompose-composites,test-wrong-result,outline-kernels -o %t/wrong.mlir 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: FileCheck %s --check-prefix=SMALL --input-file=%t/wrong.mlir
// RUN: not strata-opt --run-reproducer %t/wrong.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN
//
// The end of the process, a panic, a diagnostic, a module that does not verify, a step that does not end.
// RUN: strata-reduce %s --passes=cse,test-abort --crash -o %t/abort.mlir 2>&1 | FileCheck %s --check-prefix=ABORT
// RUN: strata-reduce %s --passes=cse,test-panic --crash -o %t/panic.mlir 2>&1 | FileCheck %s --check-prefix=PANIC
// RUN: strata-reduce %s --passes='cse,test-fail{message="the size is 12"}' --crash='size is' -o %t/fail.mlir 2>&1 | FileCheck %s --check-prefix=FAIL
// RUN: strata-reduce %s --passes=cse,test-break-ir --verifier -o %t/verifier.mlir 2>&1 | FileCheck %s --check-prefix=VERIFIER
// RUN: strata-reduce %s --passes=cse,test-hang --slow=0.5 --max-candidates=2 -o %t/slow.mlir 2>&1 | FileCheck %s --check-prefix=SLOW
//
// Whatever a command says.
// RUN: strata-reduce %s --test='grep -q graph.softmax' -o %t/test.mlir 2>&1 | FileCheck %s --check-prefix=TEST
// RUN: FileCheck %s --check-prefix=SOFTMAX --input-file=%t/test.mlir
//
// A reproducer needs no pipeline; standard input and output; JSON.
// RUN: not strata-opt %s --passes=cse,test-wrong-result --check-semantics=3 --reproducer-dir=%t/steps
// RUN: strata-reduce --json < %t/steps/02-test-wrong-result.mlir > %t/json.mlir 2> %t/json
// RUN: FileCheck %s --check-prefix=SMALL --input-file=%t/json.mlir
// RUN: %python -c "import json; d = json.load(open('%t/json')); assert d['after']['ops'] == 1 and d['before']['ops'] == 5 and not d['limited'] and d['fault']['kind'] == 'wrong'; assert d['tried'] == sum(m['tried'] for m in d['moves'].values()) and d['command'] == 'strata opt --run-reproducer -'"
//
// What cannot be reduced.
// RUN: not strata-reduce %s --passes=cse 2>&1 | FileCheck %s --check-prefix=WELL
// RUN: not strata-reduce %s --passes=cse,test-panic --wrong 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not strata-reduce %s --passes=cse --wrong --crash 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not strata-reduce %t/none.mlir --passes=cse 2>&1 | FileCheck %s --check-prefix=NONE

// WRONG: the program computes something else in 'test-wrong-result'
// WRONG: reduced from 5 ops
// WRONG-SAME: to 1 ops
// WRONG: reproduce with: strata opt --run-reproducer {{.*}}wrong.mlir
// SMALL: func.func @f(%[[X:.*]]: tensor<1x1xf32>) -> tensor<1x1xf32> {
// SMALL-NEXT: %[[Y:.*]] = graph.add %[[X]], %[[X]]
// SMALL-NEXT: return %[[Y]]
// SMALL: test-wrong-result)"
// SMALL: check_semantics: {{[03]}}
// AGAIN: 'test-wrong-result', which is declared exact, changes what @f computes
// ABORT: the program ends by signal 6 in 'test-abort'
// ABORT: to 0 ops
// PANIC: it panics in 'test-panic': the pass 'test-panic' panicked
// FAIL: to 0 ops
// FAIL: it fails in 'test-fail': the size is 12
// VERIFIER: to 1 ops
// VERIFIER: it does not verify in 'test-break-ir': operand #0 does not dominate this use
// SLOW: the program takes too long
// SLOW: a limit ended the reduction
// SLOW: reproduce with: strata opt --run-reproducer {{.*}}slow.mlir --timeout=0.5
// TEST: to 1 ops
// TEST: reproduce with: grep -q graph.softmax {{.*}}test.mlir
// SOFTMAX: graph.softmax
// SOFTMAX-NOT: graph.
// WELL: reduce.mlir: error: the program ends well: there is nothing to reduce
// OTHER: error: the program panics in 'test-panic': {{.*}}: there is nothing to reduce
// BOTH: cannot be used with
// NONE: error: cannot be read

!x = tensor<?x32xbf16, #graph.dims<s0, 32>>
func.func @f(%x: !x, %y: !x) -> (!x, !x) attributes {graph.symbols = [{name = "batch", min = 1, max = 16}]} {
  %0 = graph.exp %x : !x
  %1 = graph.softmax %0 dim = 1 : !x
  %2 = graph.add %1, %y : !x
  %3 = graph.mul %2, %x : !x
  %4 = graph.neg %y : !x
  return %3, %4 : !x, !x
}
