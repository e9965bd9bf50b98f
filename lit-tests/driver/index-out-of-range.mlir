// An index outside of its dimension ends a run on the CPU with the op's message and place, and its kernel's text says what it checks; a GPU
// kernel calls the driver's function for failed assertions, which ptxas knows, and reads rows by vectors as without a check.
// RUN: strata-opt %s --compile-to=loop --target=cpu:x86-64-v3 | FileCheck %s --check-prefix=LOOP
// RUN: not strata-run %s 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: strata-translate %s --to=plan | FileCheck %s --check-prefix=PLAN
// RUN: strata-translate %s --to=ptx --target=nvptx:sm_90a > %t.ptx
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t.ptx
// RUN: %if ptxas %{ ptxas -arch=sm_90a %t.ptx -o %t.cubin %}

// One check a row, outside of the loop over its elements.
// LOOP: scf.forall
// LOOP: %[[I:.*]] = loop.check_index %{{.*}} below %{{.*}} wrap = true "aten.index: an index is out of range" : i64
// LOOP: scf.for
// LOOP: %[[AT:.*]] = arith.index_cast %[[I]]
// LOOP: vector.load %{{.*}}[%[[AT]], %{{.*}}] {{.*}} vector<8xf32>

// TEXT: error: aten.index: an index is out of range
// TEXT-NEXT: where: @picked, step 0, {{.*}}index-out-of-range.mlir:[[@LINE+17]]:
// TEXT-NEXT: next: pass indices that are positions of the dimension, or count from its end where the op allows it

// PLAN: "gather" checks("aten.index: an index is out of range" loc("{{.*}}index-out-of-range.mlir:[[@LINE+14]]:{{[0-9]+}}"))

// PTX: .extern .func __assertfail
// PTX: .entry k0
// PTX: setp.lt.u64 [[INSIDE:%p[0-9]+]]
// PTX-NEXT: @[[INSIDE]] bra
// PTX: ld.global.nc.v4.b32
// PTX: st.global.v4.b32
// PTX: ret;
// PTX: call.uni __assertfail
module {
  func.func @picked(%table: tensor<?x64xf32, #graph.dims<s0, 64>>) -> tensor<3x64xf32>
      attributes {graph.symbols = [{name = "rows", min = 1, max = 6}]} {
    %i = graph.constant dense<[0, -1, 7]> : tensor<3xi64>
    %c = graph.check_index %i below #graph.dims<s0> wrap = true "aten.index: an index is out of range" : tensor<3xi64>
    %0 = graph.gather %table at %c dim = 0 : (tensor<?x64xf32, #graph.dims<s0, 64>>, tensor<3xi64>) -> tensor<3x64xf32>
    return %0 : tensor<3x64xf32>
  }
}
