// RUN: strata-opt %s --passes=widen-sums | FileCheck %s
// RUN: strata-opt %s --passes=widen-sums{numerics=strict} | FileCheck %s --check-prefix=STRICT
// RUN: strata-opt %s --passes=widen-sums --check-semantics=5 -o /dev/null

// STRICT-NOT: graph.add {{.*}}f32

// Four partial sums that only conversions to f32 and the next sum read: kept in f32, without a conversion between them. The last sum is
// returned and stays as it is.
// CHECK-LABEL: func.func @stream
// CHECK: %[[A:.*]] = graph.add %{{.*}}, %{{.*}} : tensor<8xf32>
// CHECK: graph.exp %[[A]]
// CHECK: %[[B:.*]] = graph.add %[[A]], %{{.*}} : tensor<8xf32>
// CHECK: graph.exp %[[B]]
// CHECK: %[[C:.*]] = graph.add %[[B]], %{{.*}} : tensor<8xf32>
// CHECK: %[[D:.*]] = graph.add %{{.*}}, %[[C]] : tensor<8xf32>
// CHECK: %[[N:.*]] = graph.cast %[[D]] : (tensor<8xf32>) -> tensor<8xbf16>
// CHECK: graph.add %[[N]], %{{.*}} : tensor<8xbf16>
func.func @stream(%x: tensor<8xbf16>, %y: tensor<8xbf16>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>) {
  %0 = graph.add %x, %y : tensor<8xbf16>
  %c0 = graph.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
  %e0 = graph.exp %c0 : tensor<8xf32>
  %1 = graph.add %0, %x : tensor<8xbf16>
  %c1 = graph.cast %1 : (tensor<8xbf16>) -> tensor<8xf32>
  %e1 = graph.exp %c1 : tensor<8xf32>
  %2 = graph.add %1, %y : tensor<8xbf16>
  %c2 = graph.cast %2 : (tensor<8xbf16>) -> tensor<8xf32>
  %e2 = graph.exp %c2 : tensor<8xf32>
  %3 = graph.add %y, %2 : tensor<8xbf16>
  %c3 = graph.cast %3 : (tensor<8xbf16>) -> tensor<8xf32>
  %e3 = graph.exp %c3 : tensor<8xf32>
  %4 = graph.add %3, %x : tensor<8xbf16>
  return %e0, %e1, %e2, %e3, %4 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>
}

// A short sum, and one whose parts are needed in their own type, are left alone.
// CHECK-LABEL: func.func @short
// CHECK-NOT: graph.add {{.*}}f32
func.func @short(%x: tensor<8xf16>, %y: tensor<8xf16>) -> (tensor<8xf32>, tensor<8xf16>) {
  %0 = graph.add %x, %y : tensor<8xf16>
  %c0 = graph.cast %0 : (tensor<8xf16>) -> tensor<8xf32>
  %1 = graph.add %0, %x : tensor<8xf16>
  return %c0, %1 : tensor<8xf32>, tensor<8xf16>
}
// CHECK-LABEL: func.func @narrow_readers
// CHECK-NOT: graph.add {{.*}}f32
func.func @narrow_readers(%x: tensor<8xf16>, %y: tensor<8xf16>) -> (tensor<8xf16>, tensor<8xf16>) {
  %0 = graph.add %x, %y : tensor<8xf16>
  %r0 = graph.exp %0 : tensor<8xf16>
  %1 = graph.add %0, %r0 : tensor<8xf16>
  %r1 = graph.exp %1 : tensor<8xf16>
  %2 = graph.add %1, %r1 : tensor<8xf16>
  %r2 = graph.exp %2 : tensor<8xf16>
  %3 = graph.add %2, %r2 : tensor<8xf16>
  %r3 = graph.exp %3 : tensor<8xf16>
  %4 = graph.add %3, %r3 : tensor<8xf16>
  return %4, %r3 : tensor<8xf16>, tensor<8xf16>
}
