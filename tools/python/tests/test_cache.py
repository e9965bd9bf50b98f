"""Compiled graphs outlive their process: found without a server, compiled again where an entry is damaged, carried as artifacts."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import torch

import strata
from strata import strata_native as native

SCRIPT = """
import json, os, sys, torch, strata
from strata import strata_native as native

artifacts, mode = sys.argv[1:]
if mode == "load":
    torch.compiler.load_cache_artifacts(open(artifacts, "rb").read())
f = torch.compile(lambda x: torch.relu(x).sum(-1) * torch.linalg.inv_ex(torch.eye(2) + 0 * x[:, :2])[0].sum(-1), backend="strata")
result = f(torch.arange(6.0).reshape(2, 3) - 2).round().tolist()
server = native.server_pid()
if mode == "save":
    saved, info = torch.compiler.save_cache_artifacts()
    open(artifacts, "wb").write(saved)
    assert len(info.strata_artifacts) == 1, info
print(json.dumps({"result": result, "server": server is not None, "events": strata.events(), **strata.counters()}))
"""


def process(folder, cache, mode="run"):
    script = folder / "user.py"
    script.write_text(textwrap.dedent(SCRIPT).lstrip())
    env = dict(os.environ, STRATA_CACHE_DIR=str(cache))
    done = subprocess.run([sys.executable, script, folder / "artifacts", mode], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout.splitlines()[-1])
    assert out["result"] == [0.0, 6.0] and out["eager_graphs"] == 0 and out["compiles"] == 1
    return out


def entries(cache):
    return sorted(cache.glob("*.strata-cache"), key=lambda f: f.stat().st_size)


def test_a_second_process_needs_no_server(tmp_path):
    cache = tmp_path / "cache"
    first = process(tmp_path, cache, "save")
    assert first["cache_hits"] == 0 and first["server"]
    second = process(tmp_path, cache)
    assert second["cache_hits"] == 1 and not second["server"]
    # What fell back is said again.
    assert second["fallbacks"] == first["fallbacks"] > 0 and second["kernels"] == first["kernels"]
    # Another machine, as it were: the artifacts alone, then the folder that they filled.
    other = tmp_path / "other"
    loaded = process(tmp_path, other, "load")
    assert loaded["cache_hits"] == 1 and not loaded["server"]
    assert process(tmp_path, other)["cache_hits"] == 1

    graph = entries(cache)[-1]
    whole = graph.read_bytes()
    for damaged in (whole[:-1], whole[:50] + bytes([whole[50] ^ 1]) + whole[51:], b""):
        graph.write_bytes(damaged)
        again = process(tmp_path, cache)
        assert again["cache_hits"] == 0 and again["server"]
        assert [e["kind"] for e in again["events"] if "damaged" in e["reason"]] == ["cache_damaged"]
        assert graph.read_bytes() == whole, "the same graph gives the same bytes"


def test_a_folder_that_cannot_be_written_costs_only_the_cache(tmp_path):
    cache = tmp_path / "cache"
    cache.write_text("a file where the folder should be")
    out = process(tmp_path, cache)
    assert out["cache_hits"] == 0
    assert any("is not kept" in e["reason"] for e in out["events"])


def test_one_process_finds_what_it_compiled_and_options_tell_graphs_apart(tmp_path):
    x = torch.randn(5)

    def run(**options):
        torch._dynamo.reset()
        strata.reset_counters()
        f = torch.compile(lambda x: x.bfloat16() * 3.3 + 1, backend="strata", options={"cache_dir": str(tmp_path), **options})
        torch.testing.assert_close(f(x), x.bfloat16() * 3.3 + 1)
        return strata.counters()["cache_hits"]

    assert [run(), run(), run(numerics="strict"), run(numerics="strict"), run()] == [0, 1, 0, 1, 1]
    assert len(entries(pathlib.Path(tmp_path))) == 3  # two graphs, and which compiler made them
    # Dumps are written, whatever is in the cache.
    assert run(dump_dir=str(tmp_path / "dump")) == 0 and list((tmp_path / "dump").iterdir())


def test_keys_are_checked():
    for bad in ("", "xyz", "0" * 63, "g" * 64):
        try:
            native.cache_get(bad)
        except native.StrataError as e:
            assert "no key" in str(e)
        else:
            raise AssertionError(bad)
    assert native.cache_get("0" * 64) is None
