"""Stand-alone Python reproducers: a graph and inputs of its shapes in one file that anyone can run, or shrink.

``python FILE`` compiles and compares with PyTorch, ``python FILE minify`` looks for a smaller graph that fails in the same way and writes it beside.
"""

import hashlib
import os
import re
import sys
import tempfile

import torch
from torch.fx import GraphModule

from . import _events as events
from ._sizes import hints


def folder():
    """Where reproducers go, the compiler's too."""
    top = os.environ.get("STRATA_CACHE_DIR") or os.path.join(tempfile.gettempdir(), f"strata-{os.getuid()}")
    return os.path.join(top, "reproducers")


def write(gm, reason, options, given=None, where=None):
    """Writes the reproducer of a graph; its path. A failure to write is no failure: None."""
    try:
        text = source(gm, reason, options, given)
        name = f"repro-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}.py"
        path = os.path.join(where or folder(), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path
    except Exception:
        return None


def source(gm, reason, options, given=None):
    """The text of a reproducer. Sizes that were symbols are the numbers that they stood for."""
    code = gm.graph.python_code("self")
    numbers = {}
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    values = given or [n.meta.get("val") for n in placeholders]
    inputs = [f"    {_value(v, numbers)},  # {n.name}" for n, v in zip(placeholders, values)]
    held = [_held(gm, n.target) for n in gm.graph.nodes if n.op == "get_attr"]
    kept = {k: v for k, v in options.items() if k in ("numerics", "fallback")}
    names = [name for name in ("device", "inf", "nan") if re.search(rf"\b{name}\b", code.src)]
    imports = ["import torch", *([f"from torch import {', '.join(names)}"] if names else [])]
    parts = [
        '"""' + "\n".join(["A graph that failed in Strata.", "", *str(reason).replace('"""', "'''").splitlines(), "", f"PyTorch {torch.__version__}"]) + '\n"""',
        "\n".join([*imports, "", "from strata import reproduce"]),
        "\n\nclass Graph(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n" + "".join(f"        {h}\n" for h in dict.fromkeys(held)),
        "\n".join("    " + line if line else "" for line in code.src.strip("\n").splitlines()),
        "\n\ntensor = reproduce.tensor",
        "inputs = [\n" + "\n".join(inputs) + "\n]",
        f'if __name__ == "__main__":\n    reproduce.main(Graph(), inputs, {kept!r})\n',
    ]
    return "\n".join(parts)


def _value(v, numbers):
    if isinstance(v, torch.Tensor):
        shape, strides = [_number(n, numbers) for n in v.shape], [_number(s, numbers) for s in v.stride()]
        return f"tensor({shape}, {strides}, {v.dtype}, {str(v.device)!r})"
    return repr(_number(v, numbers)) if isinstance(v, (int, torch.SymInt)) else repr(v)


def _number(n, numbers):
    """The number for which a size stood when it was traced; 4 for those that only a run tells."""
    if isinstance(n, int):
        return n
    e = n.node.expr
    for s in e.free_symbols:
        if s not in numbers:
            numbers[s] = int(hints(n.node.shape_env).get(s, 4))
    return int(e.subs(numbers))


def _held(gm, target):
    value = gm
    for part in target.split("."):
        value = getattr(value, part)
    name = target.replace(".", "_")
    if isinstance(value, GraphModule):
        raise ValueError("graphs within graphs are not written")
    if value.numel() <= 64 and not isinstance(value, torch._subclasses.FakeTensor):
        return f"self.{name} = torch.tensor({value.tolist()!r}, dtype={value.dtype}, device={str(value.device)!r})"
    return f"self.{name} = reproduce.tensor({list(value.shape)}, {list(value.stride())}, {value.dtype}, {str(value.device)!r})"


# -- what the written files call --


def tensor(shape, strides, dtype, device):
    """A tensor that lies so in memory, with values that are the same in every run."""
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    if dtype.is_floating_point or dtype.is_complex:
        value = torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    else:
        value = torch.randint(0, 2, shape, generator=generator).to(dtype)
    device = device if not device.startswith("cuda") or torch.cuda.is_available() else "cpu"
    if 0 in strides and value.numel():
        return torch.as_strided(value.reshape(-1).to(device), shape, strides)
    return torch.empty_strided(shape, strides, dtype=dtype, device=device).copy_(value)


def outcome(graph, inputs, options):
    """What is wrong when Strata runs the graph, or None."""
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    from ._backend import _prepare, compile_fx

    _prepare(None)
    fakes = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
    given = [fakes.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs]
    gm = torch.fx.symbolic_trace(graph) if not isinstance(graph, GraphModule) else graph
    with fakes:
        FakeTensorProp(gm, fakes).propagate_dont_convert_inputs(*given)
    for node, value in zip((n for n in gm.graph.nodes if n.op == "placeholder"), given):
        node.meta.setdefault("val", value)
    with torch.no_grad(), torch._dynamo.config.patch(repro_after="aot", repro_level=1):
        torch.manual_seed(0)
        want = gm(*inputs)
        try:
            run = compile_fx(gm, given, "inference", dict(options))
            torch.manual_seed(0)
            got = run(list(inputs))
        except Exception as e:
            return f"{type(e).__name__}: {e}"
    return difference(got, want)


_TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float64: 1e-9, torch.float8_e4m3fn: 0.13, torch.float8_e5m2: 0.26}


def difference(got, want):
    """How results differ beyond rounding, or None."""
    for k, (g, w) in enumerate(zip(got, want)):
        if not isinstance(w, torch.Tensor):
            continue
        if (g.shape, g.dtype) != (w.shape, w.dtype):
            return f"result {k} is {g.dtype} {list(g.shape)}, in PyTorch {w.dtype} {list(w.shape)}"
        tolerance = _TOLERANCE.get(w.dtype, 1e-4)
        # PyTorch has no arithmetic in floats of eight bits.
        g, w = (t.float() if t.is_floating_point() and t.element_size() == 1 else t for t in (g, w))
        near = torch.allclose(g, w, rtol=tolerance, atol=tolerance * max(1.0, _scale(w)), equal_nan=True) if w.is_floating_point() else torch.equal(g, w)
        if not near:
            return f"result {k} differs: up to {(g.double() - w.double()).abs().max().item():.3g} of {_scale(w):.3g}"
    return None


def _scale(t):
    t = t.detach().double()
    t = t[t.isfinite()]
    return t.abs().max().item() if t.numel() else 0.0


def main(graph, inputs, options):
    """Runs a reproducer; exits with 1 if it still fails."""
    if sys.argv[1:] == ["minify"]:
        return minify(graph, inputs, options)
    wrong = outcome(graph, inputs, options)
    print(wrong or "no difference from PyTorch")
    for e in events.events():
        if e["kind"] == "fallbacks":
            print(f"in PyTorch: {e['reason']}")
    sys.exit(1 if wrong else 0)


def minify(graph, inputs, options):
    """Looks for a smaller graph that fails, and writes it as a reproducer."""
    from functorch.compile import minifier

    def fails(gm, given):
        try:
            return outcome(torch.fx.GraphModule(gm, gm.graph), list(given), options) is not None
        except Exception:
            return False  # PyTorch itself cannot run it: not a smaller case of the same

    gm = torch.fx.symbolic_trace(graph)
    small, given = minifier(gm, list(inputs), fails, dump_state=lambda *a: None)
    wrong = outcome(small, list(given), options)
    path = write(small, wrong, options, list(given), os.path.dirname(os.path.abspath(sys.argv[0])))
    nodes = sum(n.op == "call_function" for n in small.graph.nodes)
    print(f"{nodes} ops: {path}")
