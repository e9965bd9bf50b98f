"""Runs tasks that it reads from standard input, a JSON object a line, and writes what came out, likewise.

A process of its own, as a compiler under test may die: before each sample it says which one it is about to run.
"""

import contextlib
import io
import json
import os
import sys
import traceback
import warnings

warnings.simplefilter("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from check import Mismatch, compare, flat, widened  # noqa: E402
from classes import UNDEFINED_VALUES, class_of  # noqa: E402
from samples import copy_of, op_db, samples_of  # noqa: E402
from torch.utils._pytree import tree_map_only  # noqa: E402

_out = os.fdopen(os.dup(1), "w")


def say(**record):
    _out.write(json.dumps(record) + "\n")
    _out.flush()


class Skip(Exception):
    """PyTorch itself cannot run the sample."""


def _read(tree):
    return tree_map_only(torch.Tensor, lambda t: t + t, tree)


def callee(op):
    """The op as a function. What a view shows is added to itself: otherwise there is nothing to compile."""
    f = op.get_op()
    if class_of(op) == "view":
        return lambda args, kwargs: _read(f(*args, **kwargs))
    return lambda args, kwargs: f(*args, **kwargs)


def arguments(sample):
    return (sample.input, *sample.args), dict(sample.kwargs)


def _cotangent(t):
    n = t.numel()
    return (torch.linspace(0.5, 1.5, n, dtype=torch.float64) if n > 1 else torch.ones(n)).reshape(t.shape).to(t.device, t.dtype)


def differentiated(outputs, given):
    """The gradients of all results by all arguments that ask for one."""
    leaves = [t for t in flat(given) if isinstance(t, torch.Tensor) and t.requires_grad]
    outputs = [t for t in flat(outputs) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not leaves or not outputs:
        return []
    return list(torch.autograd.grad(outputs, leaves, [_cotangent(t) for t in outputs], allow_unused=True))


def run(f, given, mode):
    """Results, gradients and the arguments as they are afterwards."""
    torch.manual_seed(7)
    out = f(*given)
    grads = differentiated(out, given) if mode == "backward" else []
    detached = [t.detach() if isinstance(t, torch.Tensor) else t for t in flat(out)]
    return detached, grads, [t.detach() if isinstance(t, torch.Tensor) else t for t in flat(given)]


# They say where they found what; of equal elements PyTorch promises none.
PICKS = ("argsort", "kthvalue", "median", "nanmedian", "sort", "topk")
# From this result on they are seeds of random numbers, which nobody writes where none are drawn.
SEEDS_FROM = {"torch.ops.aten._efficient_attention_forward": 2, "torch.ops.aten._flash_attention_forward": 2}


def picks_equal(x, expected, actual):
    """Whether other positions, no two alike, show the same elements along the one dimension that was searched."""
    if len(expected) != len(actual) or not 1 <= len(expected) <= 2:
        return False
    want, got = expected[-1], actual[-1]
    if want.dtype != torch.int64 or want.shape != got.shape or want.device != got.device:
        return False
    for dim in range(x.dim()):
        picked = []
        for at in (want, got):
            at = at if at.dim() == x.dim() else at.unsqueeze(dim)
            fits = at.dim() == x.dim() and all(n == x.shape[d] for d, n in enumerate(at.shape) if d != dim)
            if not fits or bool(((at < 0) | (at >= x.shape[dim])).any()) or bool((at.sort(dim).values.diff(dim=dim) == 0).any()):
                break
            picked.append(x.gather(dim, at).nan_to_num().reshape(want.shape))
        shown = [e.nan_to_num() for e in expected[:-1]] or picked[:1]
        if len(picked) == 2 and all(torch.equal(p, shown[0]) for p in picked):
            return True
    return False


def expectation(f, given, mode, undefined):
    try:
        expected = run(f, copy_of(given), mode)
    except Exception as e:
        raise Skip(f"{type(e).__name__}: {e}") from None
    reference = None
    if not undefined:
        with contextlib.suppress(Exception):
            reference = run(f, widened(copy_of(given)), mode)
    return expected, reference


def verify(op, expected, reference, actual, sample, strict=False):
    # What strict numerics promises: pointwise results are those of PyTorch, bit by bit.
    exact = strict and class_of(op) == "pointwise"
    values = op.name not in UNDEFINED_VALUES
    if op.name in PICKS and not sample.kwargs.get("stable") and picks_equal(expected[2][0], expected[0], actual[0]):
        expected = [[*expected[0][:-1], actual[0][-1]], *expected[1:]]
    kept = SEEDS_FROM.get(op.name)
    if kept is not None:
        expected, actual = ([x[0][:kept], *x[1:]] for x in (expected, actual))
        reference = reference and [reference[0][:kept], *reference[1:]]
    for part, what in enumerate(("result", "gradient", "argument")):
        # A gradient's strides are the engine's own affair.
        compare(expected[part], actual[part], reference and reference[part], what, values, strides=part == 0, exact=exact and part == 0)


def reason(e):
    text = str(e).strip()
    if isinstance(e, Mismatch):
        return text
    # "backend='strata' raised:" says nothing by itself.
    return f"{type(e).__name__}: {' '.join(text.split(chr(10))[:2])}"[:300]


class Strata:
    """One compilation a sample."""

    def __init__(self, numerics):
        import strata

        self.strata, self.options = strata, {"numerics": numerics} if numerics else None
        self.strict = numerics == "strict"

    def compile(self, f):
        return torch.compile(f, backend="strata", options=self.options)

    def before(self):
        torch._dynamo.reset()
        self.strata.reset_counters()

    def after(self):
        c = self.strata.counters()
        events = [e for e in self.strata.events() if e["kind"] == "fallbacks"]
        return {
            "kernels": c["kernels"] + c["library_calls"] + c["copies"],
            "fallbacks": c["fallbacks"] + c["eager_graphs"],
            "reasons": sorted({e["reason"] for e in events})[:4],
            "compiles": c["compiles"],
        }


class Other:
    """Another back end of torch.compile, by name."""

    strict = False

    def __init__(self, name):
        self.name = name
        if name == "inductor":
            from torch._inductor import config

            config.fx_graph_cache = False
            config.fallback_random = True
            config.compile_threads = 1

    def compile(self, f):
        return torch.compile(f, backend=self.name)

    def before(self):
        torch._dynamo.reset()

    def after(self):
        return {}


def one(backend, op, sample, mode, record):
    f = callee(op)
    given = arguments(sample)
    try:
        expected, reference = expectation(f, given, mode, op.name in UNDEFINED_VALUES)
    except Skip as e:
        record.update(skipped=str(e)[:200])
        return
    backend.before()
    try:
        actual = run(backend.compile(f), copy_of(given), mode)
        record.update(backend.after())
        verify(op, expected, reference, actual, sample, backend.strict)
        record["passed"] = True
    except Exception as e:
        if os.environ.get("OPINFO_TRACE"):
            traceback.print_exc()
        record.update(backend.after(), passed=False, error=reason(e))


def erring(backend, op, sample, record):
    """An error in PyTorch has to be one when compiled, too."""
    f = callee(op)
    given = arguments(sample.sample_input)
    try:
        run(f, copy_of(given), "forward")
        record["skipped"] = "PyTorch raises no error"
        return
    except Exception:
        pass
    backend.before()
    try:
        run(backend.compile(f), copy_of(given), "forward")
        record.update(backend.after(), passed=False, error="no error was raised")
    except Exception as e:
        record.update(backend.after(), passed=True, raised=reason(e)[:120])


def together(backend, op, samples, mode, base):
    """All samples in one compiled function: a slow compiler is called once. Returns None where it has to be done one by one."""
    f = callee(op)
    records, wanted = [], []
    for i, sample in enumerate(samples):
        record = {**base, "sample": i}
        records.append(record)
        given = arguments(sample)
        try:
            wanted.append((record, sample, given, *expectation(f, given, mode, op.name in UNDEFINED_VALUES)))
        except Skip as e:
            record.update(skipped=str(e)[:200])
    if len(wanted) < 2:
        return None
    backend.before()
    try:
        copies = [copy_of(given) for _, _, given, _, _ in wanted]
        torch.manual_seed(7)
        results = backend.compile(lambda all_given: [f(*g) for g in all_given])(copies)
        for (record, sample, _, expected, reference), out, given in zip(wanted, results, copies):
            grads = differentiated(out, given) if mode == "backward" else []
            actual = [[t.detach() if isinstance(t, torch.Tensor) else t for t in flat(x)] for x in (out, grads, given)]
            verify(op, expected, reference, actual, sample, backend.strict)
            record["passed"] = True
    except Exception:
        return None
    # Of the whole function.
    counted = backend.after()
    for record, *_ in wanted:
        record.update(counted)
    return records


def task(backend, t):
    op = op_db[t["op"]]
    base = {k: t[k] for k in ("name", "dtype", "mode")} | {"class": class_of(op)}
    try:
        samples = samples_of(t["op"], t["dtype"], t["mode"], t["device"])
    except Exception as e:
        say(result={**base, "sample": 0, "skipped": f"no samples: {reason(e)}"})
        return
    if t.get("together") and t["from"] == 0 and t["mode"] != "error" and len(samples) > 1:
        say(start=0, group=True)
        records = together(backend, op, samples, t["mode"], base)
        if records is not None:
            for r in records:
                say(result=r)
            return
    for i, sample in enumerate(samples[t["from"] :], t["from"]):
        say(start=i)
        record = {**base, "sample": i}
        if t["mode"] == "error":
            erring(backend, op, sample, record)
        else:
            one(backend, op, sample, t["mode"], record)
        say(result=record)


def main():
    backend, numerics, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    torch._dynamo.config.suppress_errors = False
    chosen = Strata(numerics) if backend == "strata" else Other(backend)
    for line in sys.stdin:
        with contextlib.redirect_stdout(io.StringIO()):
            task(chosen, json.loads(line))
        say(done=True)


main()
