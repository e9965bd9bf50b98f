// An option of a pass in a whole compilation, and what is said of one that does not exist.
// RUN: strata-translate %s --to=plan --target=nvptx:sm_90a --set 'linalg-to-loops.schedule={"kind":"pointwise","vector":4,"threads":64,"per_thread":1}' | FileCheck %s
// RUN: not strata-translate %s --to=plan --set linalg-to-loop.x=3 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not strata-translate %s --to=plan --set linalg-to-loops.sched=3 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not strata-translate %s --to=plan --set fuse 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not strata-translate %s --to=plan --set fuse.libraries=some 2>&1 | FileCheck %s --check-prefix=VALUE
// CHECK: kernel k0 = @k0 in image 0 block 64 shared 0
// PASS: unknown pass 'linalg-to-loop'; did you mean linalg-to-loops?
// OPTION: the pass 'linalg-to-loops' has no option 'sched'; known: schedule
// FORM: 'fuse' is not of the form PASS.OPTION=VALUE
// RUN: not strata-translate %s --to=plan --set widen-sums.numerics=loose 2>&1 | FileCheck %s --check-prefix=NUMERICS
// NUMERICS: option numerics: 'loose' is not one of default, strict
// VALUE: option libraries: 'some' is not one of all, products, convolutions, none
func.func @double(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %0 = graph.add %x, %x : tensor<4096xf32>
  return %0 : tensor<4096xf32>
}
