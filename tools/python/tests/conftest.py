"""What the tests share: a comparison of the backend with eager execution, measured against float64."""

import copy
import os
import pathlib
import sys
import tempfile

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

# No run finds what an earlier one left; set before anything is compiled.
_CACHE = tempfile.TemporaryDirectory(prefix="strata-tests-", ignore_cleanup_errors=True)
os.environ["STRATA_CACHE_DIR"] = _CACHE.name

import strata  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# The benchmark's scripts: beside this folder in what `cargo xtask pack` makes, a level higher in the repository.
BENCH = next(f for f in (HERE.parents[1] / "bench", HERE.parent / "bench") if (f / "zoo.py").is_file())
sys.path.append(str(BENCH))

EPSILON = {torch.float64: 2e-15, torch.float32: 2e-7, torch.bfloat16: 4e-3, torch.float16: 5e-4}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    strata.reset_counters()
    torch.manual_seed(0)
    yield


def distance(got, exact):
    """Relative L2 distance; positions of NaN and infinity must agree."""
    got, exact = got.double(), exact.double()
    finite = exact.isfinite()
    assert torch.equal(got.isfinite(), finite), f"{got} and {exact} are not finite in the same places"
    assert torch.equal(got[~finite].nan_to_num(), exact[~finite].nan_to_num())
    got, exact = got[finite], exact[finite]
    norm = torch.linalg.vector_norm(exact).item()
    return torch.linalg.vector_norm(got - exact).item() / max(norm, 1e-30) if got.numel() else 0.0


def reference(fn, inputs):
    """The function on float64 copies; None where it cannot be computed so."""
    double = tree_map(lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t, inputs)
    try:
        if isinstance(fn, torch.nn.Module):
            return copy.deepcopy(fn).double()(*double)
        return fn(*double)
    except RuntimeError:
        return None


def compare(got, want, exact=None):
    """Same structure, types, sizes, strides; integers equal; floats as near to float64 as eager, times 1.5, or one rounding."""
    got, want = tree_leaves(got), tree_leaves(want)
    exact = tree_leaves(exact) if exact is not None else [None] * len(want)
    assert len(got) == len(want) == len(exact)
    for g, w, e in zip(got, want, exact):
        if not isinstance(w, torch.Tensor):
            assert g == w
            continue
        assert (g.dtype, g.shape, g.device) == (w.dtype, w.shape, w.device)
        if not w.is_floating_point():
            assert torch.equal(g, w), f"{g} is not {w}"
            continue
        e = w if e is None or not e.is_floating_point() or e.shape != w.shape else e
        bound = max(1.5 * distance(w, e), 3 * EPSILON[w.dtype])
        assert distance(g, e) <= bound, f"error {distance(g, e)}, allowed {bound}"


def same_strides(got, want):
    for g, w in zip(tree_leaves(got), tree_leaves(want)):
        if isinstance(w, torch.Tensor) and w.numel():
            sizes = [d for d in range(w.dim()) if w.shape[d] != 1]
            assert [g.stride(d) for d in sizes] == [w.stride(d) for d in sizes]


def check(fn, *inputs, dynamic=False, fallbacks=0, strides=True, calls=2, **compile_args):
    """Compiles, runs, compares with eager; the graph must have been compiled, with so many ops left to PyTorch."""
    with torch.no_grad():
        want, exact = fn(*inputs), reference(fn, inputs)
        compiled = torch.compile(fn, backend="strata", dynamic=dynamic, **compile_args)
        for _ in range(calls):
            got = compiled(*inputs)
            compare(got, want, exact)
            if strides:
                same_strides(got, want)
    counted = strata.counters()
    assert counted["eager_graphs"] == 0, strata.events()
    if fallbacks is not None:
        assert counted["fallbacks"] == fallbacks, strata.events()
    return got


def alone(test):
    """Runs a test in a process of its own: what Dynamo traces depends on all that it traced before."""
    import functools
    import inspect
    import os
    import subprocess
    import sys

    @functools.wraps(test)
    def run():
        if os.environ.get("STRATA_TEST_ALONE"):
            return test()
        node = f"{inspect.getfile(test)}::{test.__name__}"
        env = dict(os.environ, STRATA_TEST_ALONE="1")
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", node], env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-4000:]

    return run
