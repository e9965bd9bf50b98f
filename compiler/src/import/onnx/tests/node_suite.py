"""Writes ONNX's own operator cases, a folder each with model.onnx, input_N.pb and output_N.pb, for `node_suite.rs`.

    python compiler/src/import/onnx/tests/node_suite.py DIR
    STRATA_ONNX_SUITE=DIR cargo nextest run -p strata-mlir-compiler node_suite --run-ignored all
"""

import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

warnings.filterwarnings("ignore")
root = pathlib.Path(sys.argv[1])
count = 0
for case in collect_testcases(None):
    if case.model is None or not case.data_sets:
        continue
    data = root / case.name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (root / case.name / "model.onnx").write_bytes(case.model.SerializeToString())
    inputs, outputs = case.data_sets[0]
    graph = case.model.graph
    for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
        for i, value in enumerate(values):
            if isinstance(value, (np.ndarray, np.generic)):
                value = numpy_helper.from_array(np.asarray(value), infos[i].name)
            if isinstance(value, onnx.TensorProto):
                (data / f"{kind}_{i}.pb").write_bytes(value.SerializeToString())
    count += 1
print(f"{count} cases in {root}")
