"""`strata.explain`, options, events of Dynamo's, dumps, reproducers and PyTorch's minifier."""

import json
import os
import re
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch

import strata
from strata._backend import find_server
from conftest import alone, check


def normal(text):
    """Without seconds and this file's folder."""
    text = text.replace(os.path.dirname(__file__) + os.sep, "")
    return re.sub(r"\d+\.\d\d s", "N s", text)


def explained(x, w):
    y = (x @ w).relu() * 2
    print("", end="")
    return y.exp().logcumsumexp(0) + 1


@alone
def test_the_text_of_an_explanation():
    line = explained.__code__.co_firstlineno
    text = re.sub(r"inference_\d+", "inference_N", normal(str(strata.explain(explained)(torch.randn(3, 4), torch.randn(4, 4)))))
    assert text == textwrap.dedent(f"""\
        2 graphs, 3 kernels, 1 library call, 1 fallback, 1 graph break, 0 recompilations

        graph inference_N: 3 ops, test_explain.py:{line + 1}, intermediate values 256 B, compiled in N s
          library product  [test_explain.py:{line + 1}]
          kernel k0: max, mul  [test_explain.py:{line + 1}]

        graph inference_N: 3 ops, test_explain.py:{line + 3}, intermediate values 512 B, compiled in N s
          kernel k0: exp  [test_explain.py:{line + 3}]
          kernel k1: add  [test_explain.py:{line + 3}]

        run by PyTorch
          aten.logcumsumexp.default: no lowering for this op  [test_explain.py:{line + 3}]

        graph breaks
          Failed to trace builtin operator  [test_explain.py:{line + 2}]

        1 call N s: Dynamo N s, AOTAutograd N s, Strata N s""")


def test_the_data_of_an_explanation():
    def f(x):
        return (x * 2).sum()

    e = strata.explain(f, backward=True, calls=[(torch.randn(5, requires_grad=True),)])(torch.randn(3, requires_grad=True))
    data = json.loads(e.json())
    assert set(data) == {"graphs", "fallbacks", "graph_breaks", "recompilations", "times", "memory"}
    assert [g["kind"] for g in data["graphs"]] == ["forward", "backward"] * 2 and all(g["compiled"] for g in data["graphs"])
    assert data["times"]["strata"] > 0 and data["times"]["total"] > data["times"]["strata"] and len(data["memory"]["intermediate"]) == 4
    (again,) = data["recompilations"]
    assert again["function"] == "f" and "size mismatch" in again["reason"]
    assert again["location"] == f"{__file__}:{f.__code__.co_firstlineno}"
    assert [k["ops"] for k in e.kernels][0]
    (event,) = [e for e in strata.events() if e["kind"] == "recompiles"]
    assert "size mismatch" in event["reason"] and event["location"] == f"{__file__}:{f.__code__.co_firstlineno + 1}"


def test_graph_breaks_are_events():
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    torch.compile(f, backend="strata")(torch.ones(2))
    (event,) = strata.events()
    assert (event["kind"], event["location"]) == ("graph_breaks", f"{__file__}:{f.__code__.co_firstlineno + 2}")


# -- options --


@pytest.mark.parametrize("how,text", [
    (dict(options={"fallbck": "warn"}), "no option 'fallbck'; did you mean 'fallback'? known: numerics, fallback, dump_dir, cache_dir"),
    (dict(options={"fallback": "warning"}), "no fallback 'warning'; did you mean 'warn'? known: allow, warn, error"),
    (dict(options={"numerics": 3}), "no numerics 3; known: default, strict"),
    (dict(options={"dump_dir": 3}), "option dump_dir of backend 'strata' is a folder's path, not 3"),
    (dict(mode="max-autotun"), "no mode 'max-autotun'; did you mean 'max-autotune'?"),
])
def test_options_that_do_not_exist(how, text):
    with pytest.raises(Exception, match=re.escape(text)):
        torch.compile(lambda x: x + 1, backend="strata", **how)(torch.ones(1))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes(mode):
    check(lambda x: x * 2 + 1, torch.randn(3), mode=mode)


def running(x):
    return (x * 2).logcumsumexp(0) + 1


def masks(x):
    return x[x > 0] * 2


@pytest.mark.parametrize("f,op", [(running, "aten.logcumsumexp.default: no lowering"), (masks, "aten.index.Tensor: the size of its result depends on values")])
def test_fallback_warns_or_stops(f, op):
    x, line = torch.tensor([3.0, -1.0, 2.0]), f"{__file__}:{f.__code__.co_firstlineno + 1}"
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        with pytest.warns(strata.FallbackWarning, match=re.escape(op)) as caught:
            torch.testing.assert_close(torch.compile(f, backend="strata", options={"fallback": "warn"})(x), f(x))
        (told,) = [str(w.message) for w in caught if w.category is strata.FallbackWarning]
        assert line in told and "next: " in told
        with warnings.catch_warnings():
            warnings.simplefilter("error", strata.FallbackWarning)
            torch.compile(f, backend="strata", options={"fallback": "allow"})(x)
        with pytest.raises(Exception, match=re.escape(op)) as raised:
            torch.compile(f, backend="strata", options={"fallback": "error"})(x)
    assert line in str(raised.value) and 'options={"fallback": "warn"}' in str(raised.value)


def test_dumps(tmp_path):
    def f(x):
        return (x * 2)[x > 0].sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.compile(f, backend="strata", options={"dump_dir": tmp_path})(torch.ones(3))
    folders = {p.name.rsplit("_", 1)[-1]: p for p in tmp_path.iterdir()}
    assert len(folders) == 3 and "split" in folders
    assert "self.piece_0(" in (folders.pop("split") / "pieces.py").read_text()
    for folder in folders.values():
        assert {p.name for p in folder.iterdir()} >= {"fx.py", "graph.json", "1-graph.mlir", "4-loop.mlir", "plan.txt"}


# -- reproducers --

# A server that dies of every graph with a relu in it, and hands others to the real one.
DYING = """#!{python}
import os, subprocess, sys
server = subprocess.Popen([{server!r}, *sys.argv[1:]], stdin=subprocess.PIPE)
last = b""
while chunk := os.read(0, 1 << 20):
    # A read may end within the name.
    if b"aten.relu" in last[-9:] + chunk:
        print("LLVM ERROR: planted", file=sys.stderr)
        server.kill()
        os.abort()
    server.stdin.write(chunk)
    server.stdin.flush()
    last = chunk
"""


def run(folder, file, *args, **env):
    done = subprocess.run([sys.executable, str(file), *args], capture_output=True, text=True, cwd=folder, env={**os.environ, **env}, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def dying(tmp_path):
    server = tmp_path / "strata"
    server.write_text(DYING.format(python=sys.executable, server=os.environ.get("STRATA_SERVER") or find_server()))
    server.chmod(0o755)
    return dict(STRATA_SERVER=str(server), STRATA_CACHE_DIR=str(tmp_path / "cache"), STRATA_LOGS="none")


USER = """
import torch, strata
f = torch.compile(lambda x, n: (x.relu().t() + torch.tensor([1.0, 2.0])) @ x * n, backend="strata", dynamic=True)
print(f(torch.ones(2, 3)[:, :2], 3).tolist())
print(strata.events()[-1]["next_step"].rsplit("python ", 1)[-1])
"""


def test_a_failed_compilation_leaves_a_reproducer(tmp_path, dying):
    (tmp_path / "user.py").write_text(USER)
    code, out, err = run(tmp_path, tmp_path / "user.py", **dying)
    assert code == 0, err
    path = out.splitlines()[-1]
    text = open(path).read()
    assert "LLVM ERROR: planted" in text and "torch.ops.aten.relu.default" in text and "/strata" not in text.split("class Graph")[1]
    code, out, _ = run(tmp_path, path, **dying)
    assert code == 1 and "planted" in out
    code, out, err = run(tmp_path, path)  # with a server that works
    assert (code, out) == (0, "no difference from PyTorch\n"), (out, err)
    code, out, err = run(tmp_path, path, "minify", **dying)
    assert code == 0 and out.splitlines()[-1].startswith("1 ops: "), (out, err)
    assert run(tmp_path, out.splitlines()[-1].split(": ")[1], **dying)[0] == 1


def test_the_minifier_of_dynamo(tmp_path, dying):
    (tmp_path / "user.py").write_text("import torch\ntorch.compile(lambda x: x.relu() + 1, backend='strata')(torch.ones(2))\n")
    repro = dict(TORCHDYNAMO_REPRO_AFTER="dynamo", TORCHDYNAMO_REPRO_LEVEL="2", TORCH_COMPILE_DEBUG_DIR=str(tmp_path), **dying)
    code, _, err = run(tmp_path, tmp_path / "user.py", **repro)
    assert code != 0 and "LLVM ERROR: planted" in err
    (launcher,) = tmp_path.rglob("minifier_launcher.py")
    assert "backend='strata'" in launcher.read_text()
    code, out, err = run(tmp_path, launcher, **dying)
    assert "Wrote minimal repro out to repro.py" in out + err, f"exit status {code}\n{out}\n{err}"


def test_wrong_numbers_are_found_and_leave_a_reproducer(tmp_path, monkeypatch):
    from strata import _backend

    monkeypatch.setenv("STRATA_CROSSCHECK", "2")
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path))
    check(lambda x: (x.relu() * 2, x.sum(-1), x.argmax()), torch.randn(3, 4))

    class Off:
        """A compiled graph whose first result is off by a thousandth."""

        def __init__(self, run):
            self.run = run

        def __getattr__(self, name):
            return getattr(self.run, name)

        def __call__(self, args):
            out = self.run(args)
            return [out[0] * 1.001, *out[1:]]

    compile_graph = _backend._compile
    monkeypatch.setattr(_backend, "_compile", lambda *a: Off(compile_graph(*a)))
    with pytest.raises(strata.WrongResult, match="result 0 differs") as raised:
        torch.compile(lambda x: (x.relu() * 3, x + 1), backend="strata")(torch.ones(3, 4))
    path = str(raised.value).rsplit("python ", 1)[1]
    assert "torch.ops.aten.relu.default" in open(path).read() and "tensor([3, 4], [4, 1], torch.float32" in open(path).read()
