"""What the benchmarks share: timing, the rates of the device, distances, counters, JSON lines."""

import json
import math
import os
import statistics
import sys
import tempfile
import time

import torch
from torch.utils._pytree import tree_leaves, tree_map

BACKENDS = "eager,inductor,strata"
SAMPLES = 12


def default_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def fresh_caches():
    """Compilers of this process and its children find their caches empty. The folder goes when what is returned does."""
    folder = tempfile.TemporaryDirectory(prefix="strata-bench-", ignore_cleanup_errors=True)
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "STRATA_CACHE_DIR"):
        os.environ[name] = os.path.join(folder.name, name.lower())
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    return folder


def compiled(f, backend, dynamic=False):
    return f if backend == "eager" else torch.compile(f, backend=backend, dynamic=dynamic, fullgraph=True)


def warm_up(backend, device):
    """The first compilation of a process loads and starts what all later ones use; no first call below pays for it."""
    x = torch.ones(48, 80, device=device)
    compiled(lambda x: (x + 1).sum(-1), backend)(x)


class Counters:
    """Strata's counters and events since it was made; nothing for other backends."""

    def __init__(self, backend):
        self.module = None
        if backend == "strata":
            import strata

            strata.reset_counters()
            self.module = strata

    def row(self):
        if self.module is None:
            return {}
        counted = self.module.counters()
        names = ("kernels", "library_calls", "copies", "fallbacks", "eager_graphs", "compiles")
        events = [f"{e['kind']}: {e['reason']} ({e['location']})" for e in self.module.events()]
        return {n: counted.get(n, 0) for n in names} | {"events": events}


def size(tree):
    """Bytes of the tensors."""
    return sum(t.numel() * t.element_size() for t in tree_leaves(tree) if isinstance(t, torch.Tensor))


def wide(tree):
    """Floating-point tensors in float64."""
    return tree_map(lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t, tree)


def distance(got, exact):
    """The largest relative L2 distance of a result to its exact value; infinite where one is not finite or of another shape."""
    got, exact, worst = tree_leaves(got), tree_leaves(exact), 0.0
    if len(got) != len(exact):
        return math.inf
    for g, e in zip(got, exact):
        if g.shape != e.shape:
            return math.inf
        norm = torch.linalg.vector_norm(e.double()).item()
        d = torch.linalg.vector_norm(g.double() - e.double()).item() / max(norm, 1e-30)
        worst = max(worst, d if math.isfinite(d) else math.inf)
    return worst


def rounding(results, exact):
    """The distance of the exact values rounded to the results' types. Of under 1000 numbers the type's epsilon: few numbers may
    happen to round well."""
    worst = 0.0
    for r, e in zip(tree_leaves(results), tree_leaves(exact)):
        if r.is_floating_point():
            worst = max(worst, distance(e.to(r.dtype), e) if e.numel() >= 1000 else torch.finfo(r.dtype).eps)
    return worst


def judge(rows, least):
    """Adds to strata's row what error is allowed, 1.5 times the largest of the other backends' and of `least`, and whether it is ok."""
    others = [r["error"] for r in rows if r["backend"] != "strata" and "error" in r]
    allowed = 1.5 * max([e for e in others if math.isfinite(e)] + [least])
    for r in rows:
        if r["backend"] != "strata":
            continue
        r["allowed"] = allowed
        if "failed" in r:
            r["verdict"] = "failed"
        elif r["eager_graphs"]:
            r["verdict"] = "ran in PyTorch"
        else:
            r["verdict"] = "ok" if r["error"] <= allowed else "wrong"
        r["ok"] = r["verdict"] == "ok"


def problem(e):
    return f"{type(e).__name__}: {e}".strip()[:500]


class Clock:
    """Times work on a device: between events on a GPU, by the clock on a CPU."""

    def __init__(self, device):
        self.cuda = device == "cuda"
        self.sync = torch.cuda.synchronize if self.cuda else lambda: None
        # What sets of inputs and outputs must exceed so that no call finds its data in the cache.
        self.cache = torch.cuda.get_device_properties(0).L2_cache_size if self.cuda else 32 << 20

    def ms(self, work):
        self.sync()
        if not self.cuda:
            start = time.perf_counter()
            work()
            return 1e3 * (time.perf_counter() - start)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        self.sync()
        return start.elapsed_time(end)

    def sets(self, bytes_of_one, most=64):
        """How many sets of inputs are rotated: four times the cache, at least three, in a quarter of the memory."""
        room = torch.cuda.mem_get_info()[0] / 4 if self.cuda else 4e9
        return max(1, int(min(most, max(3, math.ceil(4 * self.cache / bytes_of_one)), room // bytes_of_one)))


    def release(self):
        """Hands back what the last work left in PyTorch's pool."""
        if self.cuda:
            torch.cuda.empty_cache()


def seconds(work, clock):
    """By the clock, from an idle device to an idle device."""
    clock.sync()
    start = time.perf_counter()
    work()
    clock.sync()
    return time.perf_counter() - start


class Calls:
    """A function called over sets of inputs in turn. `loop()`: ms a call in a plain loop; `replay()`: ms a call inside a CUDA graph."""

    def __init__(self, f, sets, clock):
        self.f, self.sets, self.clock, self.graph = f, sets, clock, None
        once = [self._plain(len(sets)) for _ in range(2)][1]
        # About 10 ms a sample, a whole number of turns.
        self.n = len(sets) * max(1, math.ceil(min(300, 10 / max(once, 1e-4)) / len(sets)))

    def _plain(self, n):
        def work():
            for i in range(n):
                self.f(*self.sets[i % len(self.sets)])

        return self.clock.ms(work) / n

    def loop(self):
        return self._plain(self.n)

    def capture(self):
        """Records `n` calls. Each set's last outputs stay alive, so outputs rotate through memory as inputs do."""
        self.outputs, graph = [None] * len(self.sets), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(self.n):
                self.outputs[i % len(self.sets)] = self.f(*self.sets[i % len(self.sets)])
        self.graph = graph

    def replay(self):
        return self.clock.ms(self.graph.replay) / self.n

    def replayed(self):
        """The first set's outputs, overwritten and computed anew by a replay: the graph does the work that is timed."""
        for t in tree_leaves(self.outputs[0]):
            t.fill_(1)
        self.graph.replay()
        self.clock.sync()
        return self.outputs[0]


def host_ms(f, inputs, clock):
    """ms until one call returns, whether or not the device is done."""
    clock.sync()
    start = time.perf_counter()
    f(*inputs)
    took = 1e3 * (time.perf_counter() - start)
    clock.sync()
    return took


def best(f, sets, clock):
    """The shortest of some samples' ms a call: of a rate, what the device can do counts. Infinite where it cannot be recorded."""
    calls = Calls(f, sets, clock)
    if clock.cuda:
        try:
            calls.capture()
        except RuntimeError:
            return math.inf
    return min((calls.replay if clock.cuda else calls.loop)() for _ in range(SAMPLES))


def rates(clock, device, small=False, inductor=False, products=False):
    """GB/s copied (bytes read plus bytes written) and read, and TFLOP/s of matrix products: the best of several sizes and ways."""
    out = {"copy_gbs": 0.0, "read_gbs": 0.0}
    reads = [lambda x: torch.sum(x), lambda x: torch.dot(x, x)]
    if inductor:
        reads.append(torch.compile(lambda x: x.sum(), dynamic=False))
    for megabytes in [2] if small else [128, 512, 2048] if clock.cuda else [64]:
        xs = [torch.randn(megabytes << 18, device=device) for _ in range(4)]
        ms = best(lambda x, y: y.copy_(x), [(xs[0], xs[1]), (xs[2], xs[3])], clock)
        out["copy_gbs"] = max(out["copy_gbs"], 2e-6 * size(xs[0]) / ms)
        for f in reads:
            out["read_gbs"] = max(out["read_gbs"], 1e-6 * size(xs[0]) / best(f, [(x,) for x in xs], clock))
    if products:
        out["tflops"] = 0.0
        dtype = torch.bfloat16 if clock.cuda else torch.float32
        for n in [128] if small else [4096, 8192] if clock.cuda else [1024]:
            a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
            for y in (b, b.t()):
                out["tflops"] = max(out["tflops"], 2e-9 * n**3 / best(torch.matmul, [(a, y), (b, y)], clock))
    return out


def profile(f, inputs, clock, top=20):
    """Device time of one call by kernel name (on a CPU: time in PyTorch's ops by name), the longest first."""
    kinds = [torch.profiler.ProfilerActivity.CUDA if clock.cuda else torch.profiler.ProfilerActivity.CPU]
    calls = 3
    f(*inputs), clock.sync()
    with torch.profiler.profile(activities=kinds, acc_events=True) as p:
        for _ in range(calls):
            f(*inputs)
        clock.sync()
    time_of = (lambda e: e.self_device_time_total) if clock.cuda else (lambda e: e.self_cpu_time_total)
    entries = sorted(p.key_averages(), key=lambda e: (-time_of(e), e.key))
    rows = [{"name": e.key, "ms": 1e-3 * time_of(e) / calls, "calls": e.count / calls} for e in entries if time_of(e) > 0]
    return {"total_ms": sum(r["ms"] for r in rows), "kernels": rows[:top]}


def median(values):
    return statistics.median(values)


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def machine(device):
    """What a line of figures needs to be read later."""
    name = torch.cuda.get_device_name() if device == "cuda" else processor()
    return {"device": device, "name": name, "torch": torch.__version__, "threads": torch.get_num_threads()}


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown"


class Log:
    """Appends JSON lines to a file; none without a name."""

    def __init__(self, file):
        self.file = file

    def write(self, row):
        if self.file:
            with open(self.file, "a") as f:
                print(json.dumps(row), file=f)


def load(file):
    with open(file) as f:
        return [json.loads(line) for line in f]


def backends(text):
    """The backends asked for, in order; ends the program where one is unknown to PyTorch."""
    names = [b for b in text.split(",") if b]
    known = ["eager", *torch._dynamo.list_backends(exclude_tags=())]
    for b in names:
        if b not in known:
            sys.exit(f"PyTorch knows no backend {b!r} here; it knows {', '.join(known)}")
    return names
