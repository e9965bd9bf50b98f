// Whole models from the command line: the forms they can be shown in, and what wrong input is answered with.
// RUN: strata run %s --dim rows=3 --output-dir %t.out | FileCheck %s --check-prefix=NAMED
// RUN: %python -c "import numpy as np, sys; x = np.load(sys.argv[1]); assert x.shape == (3, 8); np.save(sys.argv[2], x); np.save(sys.argv[3], x[:, :5])" %t.out/the_sum.npy %t.npy %t-bad.npy
// RUN: strata run %s --input left=%t.npy --json | %python -c "import json, sys; o = json.load(sys.stdin)['outputs']; assert o == [{'name': 'the/sum', 'dtype': 'f32', 'shape': [3, 8], 'file': None}], o"
// RUN: strata compile %s -o %t.strata --json | %python -c "import json, sys; assert json.load(sys.stdin)['kernels'] == 1"
// RUN: strata run %t.strata --dim rows=2 | FileCheck %s --check-prefix=ARTIFACT
// RUN: strata translate %s --to=llvm --target=cpu:x86-64-v3 | FileCheck %s --check-prefix=LLVM
// RUN: strata translate %s --to=llvm --target=nvptx:sm_80 | FileCheck %s --check-prefix=NVVM
// RUN: strata translate %s --to=ptx --target=nvptx:sm_80 | FileCheck %s --check-prefix=PTX

// RUN: not strata run %s --dim rows=-3 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not strata run %s --dim row=3 2>&1 | FileCheck %s --check-prefix=DIM
// RUN: not strata run %s --dim rows=4 --input left=%t.npy 2>&1 | FileCheck %s --check-prefix=DISAGREE
// RUN: not strata run %s --input left=%t-bad.npy 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not strata run %s --input middle=%t.npy 2>&1 | FileCheck %s --check-prefix=INPUT
// RUN: not strata run %s --input left=%t.none 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not strata run %t.none.mlir --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not strata compile %s -o %t.strata --target=nvptx:sm_999 2>&1 | FileCheck %s --check-prefix=CHIP
// RUN: sed -e 's/ {graph.symbols = .*}]}/ {}/' %s > %t.undeclared.mlir
// RUN: not strata run %t.undeclared.mlir 2>&1 | FileCheck %s --check-prefix=UNDECLARED
// RUN: touch %t.onnx
// RUN: not strata run %t.onnx 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not strata opt %t.onnx 2>&1 | FileCheck %s --check-prefix=OPT

// NAMED: the/sum: f32[3, 8] =
// ARTIFACT: the/sum: f32[2, 8] =
// LLVM: define {{.*}}@k0
// NVVM: target triple = "nvptx64-nvidia-cuda"
// PTX: .target sm_80
// NEGATIVE: error: --dim rows=-3: a size is a whole number from 0 on
// DIM: error: --dim row: no such symbol; known: rows
// DISAGREE: error: --dim rows=4, but dimension 0 of input left is 3 in {{.*}}.npy
// SHAPE: error: expected size 8, found 5
// INPUT: error: --input middle: no such input; known: left, arg1
// ABSENT: error: cannot read the tensor
// JSON: {"diagnostics":[{"message":"cannot read {{.*}}","severity":"error"}]}
// CHIP: no code is made for 'sm_999'; write nvptx: and one of sm_70
// UNDECLARED: error: s0 is used as a size, but the function's graph.symbols declares 0 symbols
// UNDECLARED: note: give the function attributes
// EMPTY: error: {{.*}}.onnx: the file is empty
// OPT: error: this is an ONNX model, and opt reads MLIR; strata translate FILE --to=mlir

func.func @add(%x: tensor<?x8xf32, #graph.dims<s0, 8>> {graph.name = "left"}, %y: tensor<?x8xf32, #graph.dims<s0, 8>>)
    -> (tensor<?x8xf32, #graph.dims<s0, 8>> {graph.name = "the/sum"})
    attributes {graph.symbols = [{name = "rows", min = 1}]} {
  %0 = graph.add %x, %y : tensor<?x8xf32, #graph.dims<s0, 8>>
  return %0 : tensor<?x8xf32, #graph.dims<s0, 8>>
}
