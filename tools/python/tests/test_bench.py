"""The benchmark's scripts run, say what they measured, and notice a wrong result."""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree

import pytest
import torch

import cases
import kernels
import measure
import plot
import torch_models
from conftest import BENCH


def run(script, *args):
    done = subprocess.run([sys.executable, BENCH / script, *args], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_kernels(tmp_path):
    rows, picture = tmp_path / "rows.json", tmp_path / "shares.svg"
    text = run(
        "kernels.py", "softmax_4k", "cumsum_rows", "--device", "cpu", "--small", "--backends", "eager,strata", "--json", rows, "--plot", picture
    )
    head, *lines = map(json.loads, rows.read_text().splitlines())
    assert head["script"] == "kernels" and head["copy_gbs"] > 0 and head["read_gbs"] > 0
    assert [(r["case"], r["backend"]) for r in lines] == [(c, b) for c in ("softmax_4k", "cumsum_rows") for b in ("eager", "strata")]
    for r in lines:
        assert r["ms"] > 0 and r["first_s"] > 0 and r["error"] < 1e-6 and math.isclose(r["share"], r["floor_ms"] / r["ms"])
    assert lines[1]["ok"] and (lines[1]["kernels"], lines[1]["fallbacks"]) == (1, 0)
    assert "softmax_4k" in text and "% of the floor" in text
    assert "softmax_4k" in "".join(xml.etree.ElementTree.parse(picture).getroot().itertext())


def test_kernels_in_odd_sizes_and_layouts(tmp_path):
    rows = tmp_path / "rows.json"
    run("kernels.py", "silu_mul", "--device", "cpu", "--small", "--odd", "--backends", "eager,strata", "--json", rows)
    ours = [r for r in map(json.loads, rows.read_text().splitlines()[1:]) if r["backend"] == "strata"]
    assert [(r["dtype"], r["layout"]) for r in ours] == list(kernels.VARIANTS) and all(r["ok"] for r in ours)


def test_models(tmp_path):
    rows = tmp_path / "rows.json"
    text = run("torch_models.py", "gpt2", "--device", "cpu", "--small", "--backends", "eager,strata", "--profile", "--json", rows)
    head, eager, ours = map(json.loads, rows.read_text().splitlines())
    assert head["script"] == "torch_models"
    assert ours["ok"] and ours["eager_graphs"] == 0 and ours["kernels"] > 0 and ours["library_calls"] > 0
    assert any("addmm" in k["name"] for k in eager["profile"]["kernels"])
    assert "gpt2" in text


class Crashing:
    """A worker whose process ends whenever one backend is at work."""

    def __init__(self, culprit):
        self.culprit, self.asked = culprit, []

    def ask(self, job):
        backends = job[2]
        self.asked.append(backends)
        if self.culprit in backends or self.culprit == "exact":
            return "lost", ("eager" if self.culprit == "exact" else self.culprit, "the process ended with status -11")
        return "done", [{"backend": b, "error": 0.0, "ms": 2.0, "floor_ms": 1.0, "least_error": 1e-7, "eager_graphs": 0} for b in backends]


def test_a_backend_that_crashes_loses_only_its_own_row():
    case, backends = cases.every("small")[0], ["eager", "inductor", "strata"]
    worker = Crashing("inductor")
    eager, inductor, strata = kernels.run_case(worker, 0, case, ("f32", ""), backends, {})
    assert worker.asked == [backends, ["eager", "strata"]]
    assert eager["share"] == 0.5 and strata["ok"] and "status -11" in inductor["failed"]
    strata = kernels.run_case(Crashing("strata"), 0, case, ("f32", ""), backends, {})[2]
    assert not strata["ok"] and strata["verdict"] == "failed" and "status -11" in strata["failed"]


def test_a_case_that_always_crashes_ends():
    rows = kernels.run_case(Crashing("exact"), 0, cases.every("small")[0], ("f32", ""), ["eager", "strata"], {})
    assert [r["backend"] for r in rows] == ["eager", "strata"] and not rows[1]["ok"]


@pytest.mark.parametrize("main,args", [(kernels.main, ["nonesuch"]), (kernels.main, ["--backends", "nonesuch"]), (torch_models.main, ["nonesuch"])])
def test_an_unknown_name_is_an_error(monkeypatch, main, args):
    monkeypatch.setattr(sys, "argv", ["script", "--device", "cpu", *args])
    with pytest.raises(SystemExit, match="nonesuch"):
        main()


@pytest.mark.parametrize(
    "row,verdict",
    [
        ({"error": 1.4e-3, "eager_graphs": 0}, "ok"),
        ({"error": 1.6e-3, "eager_graphs": 0}, "wrong"),
        ({"error": math.inf, "eager_graphs": 0}, "wrong"),
        ({"error": 0.0, "eager_graphs": 1}, "ran in PyTorch"),
        ({"failed": "no"}, "failed"),
    ],
)
def test_verdicts(row, verdict):
    rows = [{"backend": "eager", "error": 1e-3}, {"backend": "inductor", "failed": "no"}, {"backend": "strata"} | row]
    measure.judge(rows, 5e-4)
    assert rows[2]["verdict"] == verdict and rows[2]["ok"] == (verdict == "ok")


def test_floors():
    rates = {"copy_gbs": 2.0, "read_gbs": 1.0, "tflops": 1e-3}
    inputs = [torch.zeros(1000, 1000), torch.zeros(1000, 1000)]
    by_name = {c.name: c for c in cases.every("cpu")}
    # 8 MB in, 4 MB out: 8 MB copied and 4 MB read.
    assert math.isclose(by_name["silu_mul"].floor_ms(inputs, inputs[0], rates), 4 + 4)
    product = cases.Case("product", "products", (), cases.product, flops=2 * 1000**3)
    assert math.isclose(product.floor_ms(inputs, inputs[0], rates), 2000)
    # Of the table two rows of 4 kB, and 24 bytes of tokens.
    lookup = [torch.tensor([5, 7, 5]), inputs[0], torch.zeros(0)]
    assert cases.distinct_rows(lookup) == 24 + 8000


def test_every_case_computes_what_its_exact_form_does():
    for kind in ("small", "small odd"):
        for c in cases.every(kind):
            inputs = c.inputs("cpu", "f32", "offset", seed=0)
            assert measure.distance(c.fn(*inputs), c.exact(inputs)) < 1e-5, c.name
    names = [c.name for c in cases.every("cuda")]
    assert len(set(names)) == len(names)


def test_distances_see_what_is_not_finite_or_missing():
    x = torch.ones(4)
    assert measure.distance(x * math.nan, x) == math.inf
    assert measure.distance([x], [x, x]) == math.inf
    assert measure.distance(x[:2], x) == math.inf
    assert math.isclose(measure.distance(x * 1.5, x), 0.5)


def test_a_picture_of_shares_above_one(tmp_path):
    file = tmp_path / "x.svg"
    plot.draw([{"case": "a<b", "layout": "", "dtype": "f32", "backend": b, "share": s} for b, s in (("inductor", 0.5), ("strata", 1.5))], file)
    assert "150" in file.read_text() and "a&lt;b" in file.read_text()


# -- the stages for a machine with an H200 --


def h200(monkeypatch, name):
    if not (BENCH / "h200").is_dir():
        pytest.skip("the stages are not beside these tests")
    monkeypatch.syspath_prepend(str(BENCH / "h200"))
    return __import__(name)


@pytest.mark.parametrize("stage", ["correctness", "measure"])
def test_steps_call_what_there_is(monkeypatch, tmp_path, stage):
    steps = h200(monkeypatch, "steps")
    for small in (False, True):
        args = argparse.Namespace(stage=stage, device="cpu", small=small, captioning=tmp_path)
        every = steps.of(args)
        assert len({s.name for s in every}) == len(every) > 8 and all(s.seconds > 0 for s in every)
        for s in every:
            script = s.command[0]
            assert script == "-m" or script.exists() or script.parent == tmp_path, s


def test_captions_are_judged_beside_eager_with_the_same_padding(monkeypatch):
    captions = h200(monkeypatch, "captions")
    row = lambda name, backend, *losses: {"row": name, "backend": backend, "losses": losses, "norms": [2.0] * len(losses)}
    rows = [row("static_eager", "eager", 1.0, 2.0), row("static_compile", "strata", 1.0, 2.00001), row("static_optimizer", "strata", 1.0, 2.0001)]
    rows += [row("dynamic_true", "strata", 1.0), {"row": "modular", "backend": "strata", "error": "timeout"}, row("static_max_autotune", "strata", 1.0, float("nan"))]
    verdicts = {v["row"]: v["verdict"] for v in captions.verdicts(rows)}
    assert verdicts == {
        "static_compile": "ok", "static_optimizer": "outside the tolerance", "dynamic_true": "no eager row to compare with", "modular": "timeout",
        "static_max_autotune": "outside the tolerance",
    }  # fmt: skip


def test_what_a_step_started_ends_with_it(monkeypatch, tmp_path):
    run = h200(monkeypatch, "run")
    child = "import os, pathlib, subprocess, sys, time\n"
    child += f"p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\npathlib.Path({str(tmp_path / 'pid')!r}).write_text(f'{{p.pid}}\\n')\ntime.sleep(600)"
    step = subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
        assert step.poll() is None
    grandchild = int((tmp_path / "pid").read_text())
    assert grandchild in run.descendants(step.pid)
    run.end(step)
    assert step.poll() is not None
    gone = lambda: not (p := pathlib.Path(f"/proc/{grandchild}/stat")).exists() or p.read_text().rpartition(")")[2].split()[0] == "Z"
    for _ in range(1000):
        if gone():
            return
        time.sleep(0.01)
    pytest.fail("it is still there")
