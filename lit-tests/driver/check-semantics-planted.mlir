// Mistakes that a compiler developer could make, one pass each: --check-semantics finds every one of them and names the pass. A mistake
// is made wherever it fits, after honest steps; without it there is no difference.
//
// RUN: split-file %s %t
// RUN: strata-opt %t/graph.mlir --target=cpu --compile-to=loop --check-semantics -o /dev/null 2>&1 | FileCheck %s --check-prefix=HONEST
// RUN: strata-opt %t/graph.mlir --target=nvptx:sm_90a --compile-to=loop --check-semantics -o /dev/null 2>&1 | FileCheck %s --check-prefix=HONEST
// RUN: strata-opt %t/barrier.mlir --passes=canonicalize,cse --check-semantics -o /dev/null 2>&1 | FileCheck %s --check-prefix=HONEST
// HONEST-NOT: error
// HONEST: check-semantics: {{[1-9][0-9]*}} comparisons, 0 skipped
//
// The graph level:
// DEFINE: %{graph} = not strata-opt %t/graph.mlir --check-semantics --reproducer-dir=%t -o /dev/null --passes=cse
// DEFINE: %{found} = FileCheck %s --check-prefix=FOUND -D
// RUN: %{graph},test-swap-subtrahend 2>&1 | %{found}PASS=test-swap-subtrahend
// RUN: %{graph},test-swap-arms 2>&1 | %{found}PASS=test-swap-arms
// RUN: %{graph},test-reduce-other-dim 2>&1 | %{found}PASS=test-reduce-other-dim
// RUN: %{graph},test-drop-transpose 2>&1 | %{found}PASS=test-drop-transpose
// RUN: %{graph},test-broadcast-other-dim 2>&1 | %{found}PASS=test-broadcast-other-dim
// RUN: %{graph},test-max-to-min 2>&1 | %{found}PASS=test-max-to-min
// RUN: %{graph},test-narrow-cast 2>&1 | %{found}PASS=test-narrow-cast
// RUN: %{graph},test-shift-slice 2>&1 | %{found}PASS=test-shift-slice
// RUN: %{graph},test-size-is-hint 2>&1 | %{found}PASS=test-size-is-hint
//
// Lowerings: the same program goes through one that does a thing wrong.
// DEFINE: %{lower} = not strata-opt %t/graph.mlir --check-semantics --reproducer-dir=%t -o /dev/null
// DEFINE: %{block} = not strata-opt %S/../models/gpt2-block.mlir --check-semantics --reproducer-dir=%t -o /dev/null
// DEFINE: %{kernels} = decompose-composites,legalize-library-calls,canonicalize,cse,fuse-epilogues,fuse,outline-kernels
// DEFINE: %{lowered} = FileCheck %s --check-prefix=LOWERED -D
// RUN: %{lower} --passes=test-decompose-softmax 2>&1 | %{lowered}PASS=test-decompose-softmax
// RUN: %{block} --passes=test-decompose-layer-norm 2>&1 | %{lowered}PASS=test-decompose-layer-norm
// RUN: %{block} --passes=test-decompose-attention 2>&1 | %{lowered}PASS=test-decompose-attention
// RUN: %{block} --passes=test-fuse-epilogues-without-bias 2>&1 | %{lowered}PASS=test-fuse-epilogues-without-bias
// RUN: %{block} --passes=decompose-composites,fuse,test-outline-kernels-swapped 2>&1 | %{lowered}PASS=test-outline-kernels-swapped
// RUN: %{lower} --passes=%{kernels},test-linalg-sum-from-one 2>&1 | %{lowered}PASS=test-linalg-sum-from-one
// RUN: %{lower} --passes=%{kernels},test-linalg-swap-subtrahend 2>&1 | %{lowered}PASS=test-linalg-swap-subtrahend
// RUN: %{lower} --passes=%{kernels},test-linalg-slice-from-zero 2>&1 | %{lowered}PASS=test-linalg-slice-from-zero
// RUN: %{block} --passes=%{kernels},test-linalg-other-index 2>&1 | %{lowered}PASS=test-linalg-other-index
// RUN: %{lower} --passes=%{kernels},graph-to-linalg,test-loops-short-loop --target=cpu:x86-64-v3 2>&1 | %{lowered}PASS=test-loops-short-loop
// RUN: %{lower} --passes=%{kernels},graph-to-linalg,test-loops-drop-last-tile --target=nvptx:sm_90a 2>&1 | %{lowered}PASS=test-loops-drop-last-tile
// RUN: %{lower} --passes=%{kernels},graph-to-linalg,test-loops-max-for-sum --target=nvptx:sm_90a 2>&1 | %{lowered}PASS=test-loops-max-for-sum
// LOWERED: error: step {{[0-9]+}}, '[[PASS]]' changes what @{{.*}} computes: {{(result|it has no result)}}
//
// The tensor level:
// RUN: strata-opt %t/graph.mlir --compile-to=tensor -o %t/tensor.mlir
// DEFINE: %{tensor} = not strata-opt %t/tensor.mlir --check-semantics --reproducer-dir=%t -o /dev/null --passes=cse
// RUN: %{tensor},test-swap-iterators 2>&1 | %{found}PASS=test-swap-iterators
// RUN: %{tensor},test-zero-for-infinity 2>&1 | %{found}PASS=test-zero-for-infinity
// RUN: %{tensor},test-last-tie 2>&1 | %{found}PASS=test-last-tie
//
// The loop level:
// RUN: strata-opt %t/graph.mlir --target=cpu:x86-64-v3 --compile-to=loop -o %t/cpu.mlir
// RUN: strata-opt %t/graph.mlir --target=nvptx:sm_90a --compile-to=loop -o %t/gpu.mlir
// DEFINE: %{cpu} = not strata-opt %t/cpu.mlir --check-semantics --reproducer-dir=%t -o /dev/null --passes=cse
// DEFINE: %{gpu} = not strata-opt %t/gpu.mlir --check-semantics --reproducer-dir=%t -o /dev/null --passes=cse
// RUN: %{cpu},test-short-loop 2>&1 | %{found}PASS=test-short-loop
// RUN: strata-opt %t/softmax.mlir --target=cpu:x86-64-v3 --passes='decompose-composites,fuse,outline-kernels,graph-to-linalg,linalg-to-loops{schedule={"kind":"row_tasks","vector":8,"rows":2,"unroll":2}}' -o %t/tasks.mlir
// RUN: not strata-opt %t/tasks.mlir --check-semantics --reproducer-dir=%t -o /dev/null --passes=cse,test-share-scratch 2>&1 | %{found}PASS=test-share-scratch
// RUN: %{gpu},test-drop-last-tile 2>&1 | %{found}PASS=test-drop-last-tile
// RUN: %{gpu},test-other-all-reduce 2>&1 | %{found}PASS=test-other-all-reduce
// RUN: %{gpu},test-drop-all-reduce 2>&1 | %{found}PASS=test-drop-all-reduce
// RUN: %{gpu},test-lose-nan 2>&1 | %{found}PASS=test-lose-nan
// RUN: %{gpu},test-wrong-alignment 2>&1 | %{found}PASS=test-wrong-alignment
// RUN: not strata-opt %t/barrier.mlir --check-semantics --reproducer-dir=%t -o /dev/null --passes=cse,test-missing-barrier 2>&1 | %{found}PASS=test-missing-barrier
// RUN: not strata-opt %t/overwrite.mlir --check-semantics --reproducer-dir=%t -o /dev/null --passes=cse,test-missing-barrier 2>&1 | FileCheck %s --check-prefix=OVERWRITE
// OVERWRITE: 'test-missing-barrier' changes what @spread computes: it has no result: {{.*}}which another iteration of a running forall read
//
// FOUND: error: step 2, '[[PASS]]' changes what @{{.*}} computes: {{(result|it has no result)}}
// FOUND: note: inputs are random{{.*}} by seed 0

//--- graph.mlir
!rows = tensor<?x64xf32, #graph.dims<s0, 64>>
!list = tensor<?x6xf32, #graph.dims<s0, 6>>
!each = tensor<?xf32, #graph.dims<s0>>
!part = tensor<?x3xf32, #graph.dims<s0, 3>>
!wide = tensor<?x3xf64, #graph.dims<s0, 3>>
!where = tensor<?xi64, #graph.dims<s0>>

func.func @f(%x: tensor<8x8xf32>, %y: tensor<8xf32>, %p: tensor<8x8xi1>, %z: !rows, %l: !list) -> (tensor<8x8xf32>, !rows, !where, !each, !wide, tensor<f64>)
    attributes {graph.symbols = [{name = "rows", min = 9, max = 64, hint = 8}]} {
  // A square matrix, so that a wrong dimension is no wrong size.
  %t = graph.transpose %x permutation = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = graph.broadcast %y dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
  %s = graph.sub %t, %b : tensor<8x8xf32>
  %e = graph.exp %s : tensor<8x8xf32>
  %c = graph.select %p, %e, %x : (tensor<8x8xi1>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = graph.reduce max %c dims = [1] : (tensor<8x8xf32>) -> tensor<8xf32>
  %rb = graph.broadcast %r dims = [0] : (tensor<8xf32>) -> tensor<8x8xf32>
  %q = graph.div %s, %rb : tensor<8x8xf32>
  // Rows long enough for vectors and for all threads of a warp.
  %sm = graph.softmax %z dim = 1 : !rows
  %a = graph.arg_reduce max %z dim = 1 : (!rows) -> !where
  // Rows that divide into no vector.
  %m = graph.reduce max %l dims = [1] : (!list) -> !each
  %h = graph.slice %l from <0, 2> to <s0, 5> by [1, 1] : (!list) -> !part
  %w = graph.cast %h : (!part) -> !wide
  %n = graph.dim <s0> : tensor<i64>
  %f = graph.cast %n : (tensor<i64>) -> tensor<f64>
  return %q, %sm, %a, %m, %w, %f : tensor<8x8xf32>, !rows, !where, !each, !wide, tensor<f64>
}

//--- softmax.mlir
func.func @softmax(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %s = graph.softmax %x dim = 1 : tensor<8x64xf32>
  return %s : tensor<8x64xf32>
}

//--- barrier.mlir
// Each thread gives its neighbour a value through shared memory.
func.func @shift(%x: memref<4x64xf32>, %y: memref<4x64xf32> {loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 64 : i64, loop.grid = #graph.dims<4>} {
  %c1 = arith.constant 1 : index
  %c63 = arith.constant 63 : index
  scf.forall (%b) in (4) {
    %s = memref.alloca() : memref<64xf32, #gpu.address_space<workgroup>>
    scf.forall (%t) in (64) {
      %v = memref.load %x[%b, %t] : memref<4x64xf32>
      memref.store %v, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    } {mapping = [#gpu.thread<linear_dim_0>]}
    scf.forall (%t) in (64) {
      %n = arith.addi %t, %c1 : index
      %m = arith.minsi %n, %c63 : index
      %v = memref.load %s[%m] : memref<64xf32, #gpu.address_space<workgroup>>
      memref.store %v, %y[%b, %t] : memref<4x64xf32>
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}

//--- overwrite.mlir
// Every thread reads the element, then the last one overwrites it: without the barrier, in order still the right result.
func.func @spread(%x: memref<64xf32>, %y: memref<64xf32> {loop.out})
    attributes {loop.kernel, loop.target = "gpu", loop.block = 64 : i64, loop.grid = #graph.dims<1>} {
  %c0 = arith.constant 0 : index
  %c63 = arith.constant 63 : index
  %zero = arith.constant 0.0 : f32
  scf.forall (%b) in (1) {
    %s = memref.alloca() : memref<1xf32, #gpu.address_space<workgroup>>
    %v = memref.load %x[%c0] : memref<64xf32>
    memref.store %v, %s[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
    scf.forall (%t) in (64) {
      %w = memref.load %s[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
      memref.store %w, %y[%t] : memref<64xf32>
    } {mapping = [#gpu.thread<linear_dim_0>]}
    scf.forall (%t) in (64) {
      %last = arith.cmpi eq, %t, %c63 : index
      scf.if %last {
        memref.store %zero, %s[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
      }
    } {mapping = [#gpu.thread<linear_dim_0>]}
  } {mapping = [#gpu.block<x>]}
  return
}
