"""The backend function: from what Dynamo captured to what AOTAutograd calls."""

import atexit
import contextlib
import functools
import os
import shutil
import sysconfig
import tempfile
import threading

import torch

from . import _cache
from . import _events as events
from . import strata_native as native
from ._fallback import Fallbacks
from ._serialize import serialize
from ._sizes import Unsupported

_MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_OPTIONS = ("numerics", "fallback", "dump_dir", "cache_dir")
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


def _prepare(cache_dir):
    """Takes PyTorch's functions, and where there is no cache starts the server without waiting for it. Problems show when something is
    compiled."""
    global _ready
    with _setup:
        if _ready:
            return
        _ready = True
        with contextlib.suppress(Exception):
            native.use_exchange_table(torch.Tensor.__dlpack_c_exchange_api__)
            native.use_torch(torch, os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_python.so"))
        with contextlib.suppress(Exception):
            if not native.cache_has_entries(cache_dir):
                native.start_server(find_server())
            atexit.register(native.stop_server)


def _reproducers():
    folder = os.environ.get("STRATA_CACHE_DIR") or os.path.join(tempfile.gettempdir(), f"strata-{os.getuid()}")
    return os.path.join(folder, "reproducers")


def _check(mode, options):
    if mode not in _MODES:
        raise ValueError(f"backend 'strata' has no mode {mode!r}; known: {', '.join(map(str, _MODES[1:]))}")
    for name in options or {}:
        if name not in _OPTIONS:
            raise ValueError(f"backend 'strata' has no option {name!r}; known: {', '.join(_OPTIONS)}")
    return dict(options or {})


# What PyTorch's own decompositions express by ops that have a lowering, besides those of core ATen.
_FURTHER = """
    _addmm_activation _euclidean_dist _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d addbmm
    bucketize diag dist fmax fmin grid_sampler_2d ldexp lcm narrow_copy nll_loss rrelu_with_noise_backward
    tril_indices triu_indices upsample_bicubic2d upsample_bilinear2d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_trilinear3d special_ndtr batch_norm_backward
"""


@functools.cache
def _decompositions():
    from torch._decomp import core_aten_decompositions, get_decompositions

    table = dict(core_aten_decompositions())
    table.update(get_decompositions([getattr(torch.ops.aten, name) for name in _FURTHER.split()]))
    # It hands the backward op the probabilities for the logarithms of the sums, and hides the attention.
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    return table


def backend(gm, example_inputs, *, mode=None, options=None):
    """Compiles what Dynamo captured. A function, so that torch.compile passes it `mode` and `options`."""
    from torch._dynamo.backends.common import aot_autograd

    options = _check(mode, options)
    _prepare(options.get("cache_dir"))

    def compiler(kind):
        def compile_graph(fx, inputs):
            return compile_fx(fx, inputs, kind, options)

        return compile_graph

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=_decompositions(),
    )(gm, example_inputs)


def compile_fx(gm, inputs, kind, options):
    """A callable for one graph: compiled, or PyTorch's own op by op with an event that says why."""
    name = f"{kind}_{next(_numbers)}"
    graph = None
    try:
        graph = serialize(gm, inputs, name)
        compiled = _compile(gm, graph, options)
    except Unsupported as e:
        return _eager(gm, str(e), graph, "this graph runs in PyTorch, op by op")
    except native.StrataError as e:
        return _eager(gm, e.args[0], graph, e.args[2])
    except (RuntimeError, ValueError, AttributeError) as e:
        return _eager(gm, f"{type(e).__name__}: {e}", graph, "please report this graph")
    if kind == "forward":
        _report_strides(graph)
    return compiled


def _compile(gm, graph, options):
    target, ordinal = "cpu", 0
    if graph.device.type == "cuda":
        ordinal = graph.device.index or 0
        major, minor = torch.cuda.get_device_capability(ordinal)
        target = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    options = {"reproducer_dir": _reproducers(), "source_name": graph.name, **options}
    threads, fallbacks = torch.get_num_threads(), Fallbacks(graph.objects, graph.device)
    compiled = native.compile(graph, target, ordinal, threads, options, gm, fallbacks, functools.partial(_failed, graph.location), find_server())
    _cache.record(compiled.key, options.get("cache_dir"))
    events.count("compiles")
    for name, n in compiled.counts().items():
        if name != "host_calls":
            events.count(name, n)
    return compiled


def _failed(location, reason, next_step):
    events.count("eager_graphs")
    events.emit("fallbacks", f"a compiled graph failed and runs in PyTorch from now on: {reason}", location, next_step)


def _eager(gm, reason, graph, next_step):
    """PyTorch runs the graph."""
    events.count("eager_graphs")
    events.emit("fallbacks", f"a whole graph runs in PyTorch: {reason}", graph.location if graph else "", next_step)
    return _boxed(lambda args: gm(*args))


def _boxed(f):
    """AOTAutograd's calling convention: one list, which the callee empties. A plain function, as PyTorch wraps it further."""

    def run(args):
        taken = list(args)
        args.clear()
        return f(taken)

    run._boxed_call = True
    return run


def _report_strides(graph):
    """Tells AOTAutograd how results lie in memory, so that the backward graph expects them so. Only numbers can be told."""
    context = torch._guards.TracingContext.try_get()
    if context is None or getattr(context, "output_strides", None) is None:
        return
    for r in graph.results:
        known = r.strides is not None and all(isinstance(s, int) for s in r.strides)
        context.output_strides.append(tuple(r.strides) if known else None)
