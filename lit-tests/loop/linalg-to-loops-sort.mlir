// RUN: strata-opt %s --target=nvptx:sm_90a --passes=linalg-to-loops | FileCheck %s
// RUN: strata-opt %s --target=cpu:x86-64-v3 --passes=linalg-to-loops | FileCheck %s --check-prefix=CPU
// RUN: strata-opt %s --target=nvptx:sm_90a --passes=linalg-to-loops --check-semantics -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: strata-opt %s --target=cpu:x86-64-v3 --passes=linalg-to-loops --check-semantics -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAME
// SAME: check-semantics: {{[0-9]+}} comparisons, 0 skipped

// A block a row, which lies in shared memory as numbers of an element's order and its position: made, steps of exchanges for each doubling
// of the sorted runs, and the elements picked by position. On the CPU runs are merged between the results and a row of the task's own.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: loop.block = 512 : i64, loop.grid = #graph.dims<3>
// CHECK: memref.alloca() : memref<1000xi64, #gpu.address_space<workgroup>>
// CHECK: scf.forall ({{.*}}) in (512)
// CHECK: arith.bitcast {{.*}} : f32 to i32
// CHECK: scf.for {{.*}} to %c10
// CHECK: scf.for
// CHECK: scf.forall ({{.*}}) in (512)
// CHECK: scf.if
// CHECK: scf.forall ({{.*}}) in (512)
// CHECK: memref.store {{.*}} : memref<3x1000xi64>
// CPU-LABEL: func.func @rows
// CPU-SAME: memref<3x1000xi64> {loop.out}, %{{.*}}: memref<3x1000xi64> {loop.out, loop.scratch})
// CPU: arith.minsi
// CPU: scf.for {{.*}} iter_args
// CPU: memref.store {{.*}} : memref<3x1000xbf16>
func.func @rows(%x: tensor<3x1000xbf16>) -> (tensor<3x1000xbf16>, tensor<3x1000xi64>) {
  %0, %1 = loop.sort %x dim = 1 descending = false : (tensor<3x1000xbf16>) -> (tensor<3x1000xbf16>, tensor<3x1000xi64>)
  return %0, %1 : tensor<3x1000xbf16>, tensor<3x1000xi64>
}

// A row of unknown length stays in the results' buffers; the number of doublings is counted. On the CPU a column is sorted in two rows
// of the task's own.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: workgroup
// CHECK: arith.shli
// CHECK: memref.store {{.*}} : memref<?x5xf32>
// CPU-LABEL: func.func @columns
// CPU-COUNT-2: loop.scratch
func.func @columns(%x: tensor<?x5xf32> {loop.dims = #graph.dims<s0, 5>}, %s0: index) -> (tensor<?x5xf32> {loop.dims = #graph.dims<s0, 5>}, tensor<?x5xi64> {loop.dims = #graph.dims<s0, 5>}) attributes {graph.symbols = [{name = "n", max = 2000}]} {
  %0, %1 = loop.sort %x dim = 0 descending = true : (tensor<?x5xf32>) -> (tensor<?x5xf32>, tensor<?x5xi64>)
  return %0, %1 : tensor<?x5xf32>, tensor<?x5xi64>
}

// The truth value 1 is larger than 0.
// CHECK-LABEL: func.func @truths
// CHECK: arith.extui
// CPU-LABEL: func.func @truths
// CPU: arith.extui
func.func @truths(%x: tensor<40xi1>) -> (tensor<40xi1>, tensor<40xi64>) {
  %0, %1 = loop.sort %x dim = 0 descending = false : (tensor<40xi1>) -> (tensor<40xi1>, tensor<40xi64>)
  return %0, %1 : tensor<40xi1>, tensor<40xi64>
}

// Elements of 64 bits keep their positions beside them.
// CHECK-LABEL: func.func @wide
// CHECK-DAG: memref.alloca() : memref<40xf64, #gpu.address_space<workgroup>>
// CHECK-DAG: memref.alloca() : memref<40xi32, #gpu.address_space<workgroup>>
// CHECK: arith.cmpf ult
// CPU-LABEL: func.func @wide
// CPU-SAME: memref<1x40xf64> {loop.out, loop.scratch}, %{{.*}}: memref<1x40xi64> {loop.out, loop.scratch})
func.func @wide(%x: tensor<40xf64>) -> (tensor<40xf64>, tensor<40xi64>) {
  %0, %1 = loop.sort %x dim = 0 descending = false : (tensor<40xf64>) -> (tensor<40xf64>, tensor<40xi64>)
  return %0, %1 : tensor<40xf64>, tensor<40xi64>
}

// Bytes without a sign.
// CHECK-LABEL: func.func @bytes
// CHECK: arith.extui
// CPU-LABEL: func.func @bytes
// CPU: arith.extui
func.func @bytes(%x: tensor<40xi8>) -> (tensor<40xi8>, tensor<40xi64>) {
  %0, %1 = loop.sort %x dim = 0 descending = true natural : (tensor<40xi8>) -> (tensor<40xi8>, tensor<40xi64>)
  return %0, %1 : tensor<40xi8>, tensor<40xi64>
}
