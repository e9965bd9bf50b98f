"""``strata.explain(fn)(*args)``: what becomes of a function when it is compiled and run once."""

import dataclasses
import functools
import json
import time

import torch

from . import _records as records

_HERE = "strata"


@dataclasses.dataclass
class Explanation:
    """What was compiled, what was not, and why. As text by ``str()``, as data by the fields and ``json()``."""

    graphs: list  # name, kind, location, ops, kernels, library calls, copies, fallbacks, intermediate (bytes at most), seconds, phases
    fallbacks: list  # op, reason, location, where it runs
    graph_breaks: list  # reason, location
    recompilations: list  # function, location, reason
    times: dict  # calls, and seconds: total, dynamo, aot_autograd, strata
    memory: dict  # bytes of intermediate values; on CUDA also PyTorch's peak

    def json(self, **how):
        """The fields as JSON."""
        return json.dumps(dataclasses.asdict(self), **{"indent": 2, **how})

    @property
    def kernels(self):
        """All kernels, in the order of the graphs."""
        return [s for g in self.graphs for s in g["steps"] if s["kind"] == "kernel"]

    def __str__(self):
        return "\n".join(_text(self))


def explain(fn, **compile_args):
    """Compiles `fn` afresh (Dynamo forgets what it had compiled), calls it, and says what happened.

    `compile_args` go to ``torch.compile``. The call of what this returns gives an `Explanation`. A backward graph is compiled, and
    explained, if ``backward=True`` is given: it runs from the sum of the results that have a gradient. ``calls=[(…), …]`` are positional
    arguments of further calls, which may compile again.
    """
    backward, calls = compile_args.pop("backward", False), compile_args.pop("calls", [])

    @functools.wraps(getattr(fn, "forward", fn))
    def run(*args, **kwargs):
        return _explain(fn, compile_args, backward, [(args, kwargs), *((c, {}) for c in calls)])

    return run


def _explain(fn, compile_args, backward, calls):
    from torch._dynamo import output_graph, utils

    torch._dynamo.reset()
    utils.clear_compilation_metrics()
    breaks = len(output_graph.graph_break_reasons)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    found = []
    end = records.collect(found)
    try:
        start = time.perf_counter()
        compiled = torch.compile(fn, **{"backend": _HERE, **compile_args})
        for args, kwargs in calls:
            out = compiled(*args, **kwargs)
            if backward:
                results = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
                sum(t.float().sum() for t in results).backward()
        total = time.perf_counter() - start
    finally:
        end()
    metrics = [m for m in utils.get_compilation_metrics() if not m.is_runtime]
    graphs = [r for r in found if r["record"] == "graph"]
    return Explanation(
        graphs=[{k: v for k, v in g.items() if k != "record"} for g in graphs],
        fallbacks=[{k: v for k, v in r.items() if k != "record"} for r in found if r["record"] == "fallback"],
        graph_breaks=_breaks(output_graph.graph_break_reasons[breaks:]),
        recompilations=[
            {"function": m.co_name, "location": f"{m.co_filename}:{m.co_firstlineno}", "reason": m.recompile_reason.split(": ", 1)[-1]} for m in metrics if m.recompile_reason
        ],
        times=_times(metrics, graphs, len(calls), total),
        memory=_memory(graphs),
    )


def _breaks(reasons):
    out = []
    for r in reasons:
        frame = r.user_stack[-1] if r.user_stack else None
        entry = {"reason": r.reason.split("\n")[0], "location": f"{frame.filename}:{frame.lineno}" if frame else "", "detail": r.reason}
        if entry not in out:
            out.append(entry)
    return out


def _times(metrics, graphs, n, total):
    seconds = lambda us: (us or 0) / 1e6
    strata = sum(g["seconds"] for g in graphs)
    dynamo = sum(seconds(m.dynamo_cumulative_compile_time_us) for m in metrics)
    aot = sum(seconds(m.aot_autograd_cumulative_compile_time_us) for m in metrics)
    return {"calls": n, "total": total, "dynamo": max(dynamo - aot, 0.0), "aot_autograd": max(aot - strata, 0.0), "strata": strata}


def _memory(graphs):
    out = {"intermediate": [{"graph": g["name"], "bytes": g["intermediate"]} for g in graphs if g["compiled"]]}
    if torch.cuda.is_available():
        out["peak"] = torch.cuda.max_memory_allocated()
    return out


def _text(e):
    kernels = sum(len([s for s in g["steps"] if s["kind"] == "kernel"]) for g in e.graphs)
    calls = sum(len([s for s in g["steps"] if s["kind"] == "library"]) for g in e.graphs)
    yield (
        f"{_many(len(e.graphs), 'graph')}, {_many(kernels, 'kernel')}, {_many(calls, 'library call')}, {_many(len(e.fallbacks), 'fallback')}, "
        f"{_many(len(e.graph_breaks), 'graph break')}, {_many(len(e.recompilations), 'recompilation')}"
    )
    for g in e.graphs:
        yield ""
        head = f"graph {g['name']}: {_many(g['ops'], 'op')}, {g['location'] or 'no source line'}"
        if not g["compiled"]:
            yield f"{head}: runs in PyTorch, op by op"
            yield f"  because {g['reason']}"
            continue
        yield f"{head}, intermediate values {_bytes(g['intermediate'])}, compiled in {g['seconds']:.2f} s"
        for s in g["steps"]:
            ops = ", ".join(s["ops"])
            text = {"kernel": f"kernel {s['name']}: {ops}", "library": f"library {s['name']}", "copy": "copy to another layout"}[s["kind"]]
            yield f"  {text}{_at(s['location'])}"
    if e.fallbacks:
        yield ""
        yield "run by PyTorch"
        for f in e.fallbacks:
            yield f"  {f['op']}: {f['reason']}{_at(f['location'])}"
    if e.graph_breaks:
        yield ""
        yield "graph breaks"
        for b in e.graph_breaks:
            yield f"  {b['reason']}{_at(b['location'])}"
    if e.recompilations:
        yield ""
        yield "compiled again"
        for r in e.recompilations:
            yield f"  {r['function']}: {r['reason']}{_at(r['location'])}"
    t = e.times
    yield ""
    yield f"{_many(t['calls'], 'call')} {t['total']:.2f} s: Dynamo {t['dynamo']:.2f} s, AOTAutograd {t['aot_autograd']:.2f} s, Strata {t['strata']:.2f} s"
    if "peak" in e.memory:
        yield f"peak of device memory {_bytes(e.memory['peak'])}"


def _many(n, what):
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _bytes(n):
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.4g} {unit}"
        n /= 1024
    return f"{n:.4g} GiB"


def _at(location):
    return f"  [{location}]" if location else ""
