"""Programs that once failed, reduced: `tools/suites/random_graphs/found/*.py`."""

import importlib.util
import pathlib

import pytest
import torch

import strata
from conftest import compare, same_strides

HERE = pathlib.Path(__file__).resolve().parents[2] / "suites" / "random_graphs"
FOUND = sorted((HERE / "found").glob("*.py"))


def load(file):
    spec = importlib.util.spec_from_file_location(f"found_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", FOUND, ids=lambda f: f.stem)
def test_it_no_longer_fails(file):
    m, run = load(file), load(HERE / "rerun.py").run
    given, ours = m.inputs(), m.inputs()
    want = run(m.program, given, m.GRAD)
    got = run(torch.compile(m.program, backend="strata", fullgraph=True, dynamic=bool(m.DYNAMIC)), ours, m.GRAD)
    compare(got, want)
    same_strides(got, want)
    shared = lambda results, inputs: [[r.untyped_storage().data_ptr() == i.untyped_storage().data_ptr() for i in inputs] for r in results if r is not None and r.numel()]
    assert shared(got, ours) == shared(want, given)
    assert strata.counters()["eager_graphs"] == 0, strata.events()
