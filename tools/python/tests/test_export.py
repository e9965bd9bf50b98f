"""Models in files: exported, run by `strata run` without Python, loaded again as functions of tensors."""

import os
import re
import subprocess

import numpy as np
import pytest
import torch
import torch.nn as nn

import strata
import zoo
from conftest import compare
from strata import _backend


class Net(nn.Module):
    """Tied weights, a buffer, a constant, several inputs and results."""

    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.back = nn.Linear(8, 8, bias=False)
        self.back.weight = self.fc.weight
        self.register_buffer("scale", torch.linspace(1, 2, 8))

    def forward(self, x, mask=None, *, shift):
        y = self.back(torch.relu(self.fc(x))) * self.scale + torch.tensor([0.5] * 8)
        if mask is not None:
            y = torch.where(mask, y, -1.0)
        return {"norm": self.norm(y) + shift, "pair": (y.t(), y.sum(-1))}


def strata_run(path, folder, **inputs):
    """The results of `strata run`, by name."""
    program = os.environ.get("STRATA_SERVER") or _backend.find_server()
    command = [program, "run", str(path), "--output-dir", str(folder)]
    for name, t in inputs.items():
        np.save(folder / f"{name}.npy", t.numpy())
        command += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    return {line.split(":")[0]: torch.from_numpy(np.load(folder / f"{line.split(':')[0]}.npy")) for line in done.stdout.splitlines()}


def test_a_model_by_name_with_dynamic_sizes(tmp_path):
    net, path = Net().eval(), tmp_path / "net.strata"
    rows = torch.export.Dim("rows", min=2, max=64)
    x, mask, shift = torch.randn(5, 8), torch.rand(5, 8) > 0.5, torch.randn(8)
    strata.export(net, (x, mask), {"shift": shift}, path=path, dynamic_shapes={"x": {0: rows}, "mask": {0: rows}, "shift": None})
    loaded = strata.load(path)
    # The tied weight once: two of fc, two of norm, the buffer, and the constant.
    assert len(set(re.findall(r"in constants at (\d+)", loaded.plan()))) == 6
    assert loaded.inputs == ["x", "mask", "shift"] and loaded.device == "cpu" and '"rows"' in loaded.plan()
    for n in (2, 5, 33):
        x, mask = torch.randn(n, 8), torch.rand(n, 8) > 0.5
        with torch.no_grad():
            want = net(x, mask, shift=shift)
        got = loaded(x, mask, shift=shift)
        assert got.keys() == want.keys() and isinstance(got["pair"], tuple)
        compare(got, want)
        compare(loaded(x, mask=mask, shift=shift), want)
        # Tensors that lie otherwise are copied.
        compare(loaded(x.t().contiguous().t(), mask, shift=shift), want)
    with pytest.raises(strata.strata_native.StrataError, match="rows"):
        loaded(torch.randn(99, 8), torch.rand(99, 8) > 0.5, shift=shift)
    with pytest.raises(TypeError, match="form"):
        loaded(x, mask)

    results = strata_run(path, tmp_path, x=x, mask=mask, shift=shift)
    assert list(results) == loaded.outputs
    flat = [want["norm"], *want["pair"]]
    compare([results[name] for name in loaded.outputs], flat)


@pytest.mark.parametrize("name", ["gpt2", "resnet50"])
def test_models(name, tmp_path):
    model, inputs = zoo.MODELS[name].build("cpu", True)
    model, path = model.eval(), tmp_path / "model.strata"
    strata.export(model, inputs, path=path, target="x86-64-v3")
    with torch.no_grad():
        want = model(*inputs)
    torch.testing.assert_close(strata.load(path)(*inputs), want, atol=2e-4, rtol=2e-4)
    (result,) = strata_run(path, tmp_path, **dict(zip(strata.load(path).inputs, inputs))).values()
    torch.testing.assert_close(result, want, atol=2e-4, rtol=2e-4)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    net, x = nn.Linear(4, 4).eval(), torch.randn(2, 4)
    for name in ("a", "b"):
        strata.export(net, (x,), path=tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_ops_that_would_run_in_pytorch_are_named_with_their_lines(tmp_path):
    class Model(nn.Module):
        def forward(self, x):
            y = torch.linalg.inv_ex(x)[0]
            return torch.linalg.cholesky_ex(y)[0] + 1

    line, path = Model.forward.__code__.co_firstlineno, tmp_path / "x.strata"
    with pytest.raises(strata.ExportError) as e:
        strata.export(Model(), (torch.eye(3),), path=path)
    text = str(e.value)
    assert f"linalg_inv_ex.default" in text and f"{__file__}:{line + 1}" in text, text
    assert "linalg_cholesky_ex.default" in text and f"{__file__}:{line + 2}" in text, text
    assert not path.exists()


def test_what_no_file_can_hold(tmp_path):
    def refused(model, args, match):
        with pytest.raises(strata.ExportError, match=match):
            strata.export(model, args, path=tmp_path / "x.strata")

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls.add_(1)
            return x + self.calls

    class Numbers(nn.Module):
        def forward(self, x):
            return x + 1, 3

    refused(Counting(), (torch.randn(2),), "writes to calls")
    refused(Numbers(), (torch.randn(2),), "int 3")
    refused(nn.Identity(), (torch.zeros(2, dtype=torch.uint16),), "uint16")
    with pytest.raises(ValueError, match="known"):
        strata.export(nn.Identity(), (torch.zeros(2),), path=tmp_path / "x", options={"nonsense": 1})


def test_files_that_are_none(tmp_path):
    (tmp_path / "x.strata").write_bytes(b"something else")
    with pytest.raises(strata.strata_native.StrataError, match="not a Strata artifact"):
        strata.load(tmp_path / "x.strata")
    with pytest.raises(strata.strata_native.StrataError, match="open the artifact"):
        strata.load(tmp_path / "missing.strata")


def test_a_file_of_strata_compile(tmp_path):
    source, path = tmp_path / "f.mlir", tmp_path / "f.strata"
    source.write_text('func.func @f(%a: tensor<4xf32> {graph.name = "a"}, %b: tensor<4xf32> {graph.name = "b"}) -> tensor<4xf32> {\n'
                      "  %0 = graph.sub %a, %b : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n")
    program = os.environ.get("STRATA_SERVER") or _backend.find_server()
    subprocess.run([program, "compile", source, "-o", path], check=True, timeout=300)
    f, a, b = strata.load(path), torch.randn(4), torch.randn(4)
    torch.testing.assert_close(f(a, b=b), a - b)
    torch.testing.assert_close(f(b=b, a=a), a - b)
    for args, kwargs in (((a,), {}), ((a, b, b), {}), ((a,), {"a": b}), ((a, b), {"c": b})):
        with pytest.raises(TypeError, match="takes a, b"):
            f(*args, **kwargs)
