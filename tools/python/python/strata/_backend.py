"""The backend function: from what Dynamo captured to what AOTAutograd calls."""

import atexit
import contextlib
import functools
import operator
import os
import re
import shutil
import sysconfig
import threading
import time

import torch

from . import _cache, _crosscheck, _cuts, _options, _out_of_range, _records, _split, reproduce
from . import _events as events
from . import strata_native as native
from ._decompositions import decompositions
from ._expand import expand
from ._fallback import Fallbacks
from ._serialize import serialize
from ._sizes import Unsupported

_NODE = re.compile(r"node (\w+) \(")
_numbers = iter(range(10**9))
_setup = threading.Lock()
_ready = False


def find_server():
    """The compile server: STRATA_SERVER, `strata` beside the package or in Python's scripts folder, else on PATH."""
    if os.environ.get("STRATA_SERVER"):
        return None  # the client reads it, and says what is wrong with it
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.join(here, "bin"), sysconfig.get_path("scripts")):
        path = os.path.join(folder, "strata")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return shutil.which("strata")


def _functions():
    native.use_exchange_table(torch.Tensor.__dlpack_c_exchange_api__)
    native.use_torch(torch, os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_python.so"))


def _prepare(cache_dir):
    """Takes PyTorch's functions, and where there is no cache starts the server without waiting for it. Problems show when something is
    compiled."""
    global _ready
    with _setup:
        if _ready:
            return
        _ready = True
        with contextlib.suppress(Exception):
            _functions()
        with contextlib.suppress(Exception):
            if not native.cache_has_entries(cache_dir):
                native.start_server(find_server())
            atexit.register(native.stop_server)


def _strict(options):
    return options.get("numerics") == "strict"


def backend(gm, example_inputs, *, mode=None, options=None):
    """Compiles what Dynamo captured. A function, so that torch.compile passes it `mode` and `options`."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    options = _options.parse(mode, options)
    _prepare(options.get("cache_dir"))
    _report_dynamo(gm)
    if mode in ("reduce-overhead", "max-autotune") and any(isinstance(x, torch.Tensor) and x.is_cuda for x in example_inputs):
        events.emit("skipped_cuda_graphs", f"mode {mode!r} asks for CUDA graphs, which are not made yet", "", "results are the same; calls cost what they cost by default")

    def compiler(kind):
        def compile_graph(fx, inputs):
            return compile_fx(fx, inputs, kind, options)

        return compile_graph

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(_strict(options)),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def _report_dynamo(gm):
    """Takes what Dynamo knows of this graph into our events: that tracing stopped after it, or why it is compiled again."""
    from torch._dynamo.utils import get_metrics_context

    stopped = getattr(gm, "compile_subgraph_reason", None)
    if stopped is not None and stopped.graph_break:
        frame = stopped.user_stack[-1] if stopped.user_stack else None
        place = f"{frame.filename}:{frame.lineno}" if frame else ""
        events.emit("graph_breaks", stopped.reason.split("\n")[0], place, "TORCH_LOGS=graph_breaks says more")
    metrics = get_metrics_context()
    # Outside of Dynamo the context still holds what the last compilation left in it.
    again = metrics.in_progress() and metrics._metrics.get("recompile_reason")
    if again:
        nodes = gm.graph.nodes if hasattr(gm, "graph") else ()
        first = next((n for n in nodes if n.op not in ("placeholder", "get_attr", "output")), None)
        events.emit("recompiles", again, _split.where(first), "mark what changes as dynamic, or compile with dynamic=True")


def compile_fx(gm, inputs, kind, options):
    """A callable for one graph: compiled, or PyTorch's own op by op with an event that says why."""
    expand(gm, decompositions(_strict(options)))
    run, strides = _compile_parts(gm, inputs, kind, options)
    if kind == "forward":
        _report_strides(strides)
    return run


def _compile_parts(gm, inputs, kind, options):
    """A callable, and the strides of its results: one compiled graph, or several with PyTorch's ops between them."""
    if node := _cuts.mistold(gm):
        reason = f"{node.target}: PyTorch tells a size of its result that it does not have"
        return _in_pytorch(gm, f"{kind}_{next(_numbers)}", kind, reason, _split.where(node), "this graph runs in PyTorch, op by op", options)
    cuts = _cuts.find(gm)
    before = _records.mark()
    for _ in gm.graph.nodes:
        try:
            if cuts:
                return _split_graph(gm, inputs, kind, options, cuts)
            return compile_whole(gm, inputs, kind, options)
        except _Refused as e:
            cuts[e.node] = e.reason
            _records.forget(before)
    raise AssertionError("a node was refused twice")


class _Refused(Exception):
    """The compiler cannot take a node; PyTorch may run it between two compiled graphs."""

    def __init__(self, node, reason):
        super().__init__(f"{node}: {reason}")
        self.node, self.reason = node, reason


def _split_graph(gm, inputs, kind, options, cuts):
    def piece(part, given):
        return compile_whole(part, given, kind, options)

    def body(part, given, kind):
        return _compile_parts(part, given, kind, options)[0]

    module, strides = _split.Split(gm, inputs, cuts, kind, piece, body).build()
    for node in gm.graph.nodes:
        if cuts.get(node.name):
            _options.fallback(options, str(node.target), cuts[node.name], _split.where(node), "PyTorch runs it between two compiled graphs")
    if options.get("dump_dir"):
        _records.dump(options, f"{kind}_{next(_numbers)}_split", fx__py=gm.print_readable(print_output=False), pieces__py=module.print_readable(print_output=False))
    run = lambda args: module(args)
    run._boxed_call = True
    return run, strides


def compile_whole(gm, inputs, kind, options):
    """A callable for a graph of which the compiler is given all, and the strides of its results."""
    name = f"{kind}_{next(_numbers)}"
    graph, failure, start = None, None, time.perf_counter()
    try:
        graph = serialize(gm, inputs, name, _strict(options))
        graph.owns = kind == "backward"
        run = _compile(gm, graph, options)
    except Unsupported as e:
        node, reason, next_step = e.node, str(e), "this graph runs in PyTorch, op by op"
    except native.StrataError as e:
        named = _NODE.match(e.args[0])
        node, reason, next_step, failure = named and named[1], e.args[0], e.args[2], e
    except (RuntimeError, ValueError, AttributeError) as e:
        node, reason, next_step, failure = None, f"{type(e).__name__}: {e}", "please report this graph", e
    else:
        plan = run.plan()
        _record(gm, graph, kind, run, time.perf_counter() - start)
        for op, reason, location in _records.host_calls(plan):
            _options.fallback(options, op, reason, location, event=False)
        run = _crosscheck.checked(run, gm, options, graph.location)
        return run, [r.strides for r in graph.results]
    if node and any(n.name == node and n.op == "call_function" for n in gm.graph.nodes):
        raise _Refused(node, reason)
    location = graph.location if graph else _split.where(next((n for n in gm.graph.nodes if n.op == "call_function"), None))
    if failure is not None:
        path = reproduce.write(gm, reason, options)
        next_step = f"{next_step}; to reproduce: python {path}" if path else next_step
        if torch._dynamo.config.repro_after is not None:
            raise RuntimeError(f"{reason}\n  where: {location}\n  next: {next_step}") from failure
    return _in_pytorch(gm, name, kind, reason, location, next_step, options)


def _in_pytorch(gm, name, kind, reason, location, next_step, options):
    """The graph as PyTorch runs it, op by op."""
    output = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    events.count("eager_graphs")
    _records.note(record="graph", name=name, kind=kind, compiled=False, reason=reason, location=location, ops=_ops(gm), steps=[], intermediate=0, seconds=0.0, phases={})
    _options.fallback(options, "a whole graph runs in PyTorch", reason, location, next_step)
    return _boxed(lambda args: gm(*args)), [None] * len(output.args[0])


def _ops(gm):
    return sum(n.op == "call_function" and n.target is not operator.getitem for n in gm.graph.nodes)


def _record(gm, graph, kind, run, seconds):
    if _records.wanted():
        phases = {name: ns / 1e9 for name, ns in run.timings()}
        _records.note(
            record="graph", name=graph.name, kind=kind, compiled=True, location=graph.location, ops=_ops(gm), steps=_records.steps(run.plan()),
            intermediate=run.intermediate_bytes(), seconds=seconds, phases=phases,
        )


def _dumped(gm, graph, options):
    """The options for the compiler: what it writes for people goes to a folder of the graph's own."""
    options = {k: v for k, v in options.items() if k != "fallback"}
    if options.get("dump_dir"):
        options["dump_dir"] = _records.dump(options, graph.name, fx__py=gm.print_readable(print_output=False), graph__json=graph.text)
    return options


def _compile(gm, graph, options):
    target, ordinal = "cpu", 0
    if graph.device.type == "cuda":
        ordinal = graph.device.index or 0
        major, minor = torch.cuda.get_device_capability(ordinal)
        target = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    options = {"reproducer_dir": reproduce.folder(), "source_name": graph.name, **_dumped(gm, graph, options)}
    threads, fallbacks = torch.get_num_threads(), Fallbacks(graph.objects, graph.device)
    failed, outside = (functools.partial(f, *given) for f, given in ((_failed, [graph.location]), (_out_of_range.run, [gm, graph.location])))
    compiled = native.compile(graph, target, ordinal, threads, options, gm, fallbacks, failed, outside, find_server())
    _cache.record(compiled.key, options.get("cache_dir"))
    events.count("compiles")
    for name, n in compiled.counts().items():
        if name != "host_calls":
            events.count(name, n)
    return compiled


def _failed(location, reason, next_step):
    events.count("eager_graphs")
    events.emit("fallbacks", f"a compiled graph failed and runs in PyTorch from now on: {reason}", location, next_step)


def _boxed(f):
    """AOTAutograd's calling convention: one list, which the callee empties. A plain function, as PyTorch wraps it further."""

    def run(args):
        taken = list(args)
        args.clear()
        return f(taken)

    run._boxed_call = True
    return run


def _report_strides(results):
    """Tells AOTAutograd how results lie in memory, so that the backward graph expects them so. Only numbers can be told."""
    context = torch._guards.TracingContext.try_get()
    if context is None or getattr(context, "output_strides", None) is None:
        return
    for strides in results:
        known = strides is not None and all(isinstance(s, int) for s in strides)
        context.output_strides.append(tuple(strides) if known else None)


