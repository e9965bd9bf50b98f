"""Seconds of the first call of a compiled model, each in a process of its own, and whose they are.

usage   python first_call.py [MODEL ...]     as torch_models.py; default gpt2 vit resnet50
        --device cuda|cpu                    default: cuda where there is a GPU
        --backends aot_eager,inductor,strata
        --repeat N                           processes for each figure, of which the median counts; default 3
        --small                              small models, to see that everything runs
        --json FILE                          appends a line a model, backend and state of the caches

States: `cold`, empty caches, and `warm`, with the caches that the cold process left. A process imports PyTorch, makes the model and
(on a GPU) runs it once without compiling; then the clock runs from torch.compile to the first result.
  seconds   of the first call
  own       minus those of aot_eager, which traces the same and compiles nothing
  share     own as a part of Inductor's own
Weights and inputs are bf16 on a GPU, f32 on a CPU; inference.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import measure

FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "STRATA_CACHE_DIR")


def child(name, device, backend, small):
    """One process: prints the figures as JSON."""
    import torch

    import zoo

    torch.manual_seed(0)
    model, inputs = zoo.MODELS[name].build(device, small)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = model.eval().to(device, dtype)
    inputs = [x.to(device, dtype if x.is_floating_point() else None) for x in inputs]
    clock = measure.Clock(device)
    with torch.no_grad():
        if device == "cuda":
            model(*inputs)
        row = {"seconds": measure.seconds(lambda: measure.compiled(model, backend)(*inputs), clock)}
    if backend == "strata":
        import strata

        counted = strata.counters()
        row |= {n: counted[n] for n in ("compiles", "cache_hits", "eager_graphs", "fallbacks")}
    print(json.dumps(row))


def measured(name, args, backend, folder):
    env = dict(os.environ, CUDA_CACHE_DISABLE="1", **{f: os.path.join(folder, f.lower()) for f in FOLDERS})
    command = [sys.executable, __file__, "--child", name, args.device, backend, str(int(args.small))]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        return {"failed": done.stderr[-500:]}
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(name, args):
    """Backends take turns, so that whatever else the machine does meets all."""
    runs = {}
    for _ in range(args.repeat):
        for backend in args.backends:
            with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
                for state in ("cold", "warm"):
                    runs.setdefault((backend, state), []).append(measured(name, args, backend, folder))
    rows = []
    for (backend, state), found in runs.items():
        row = {"model": name, "backend": backend, "state": state} | found[-1]
        good = [r["seconds"] for r in found if "seconds" in r]
        if good:
            row |= {"seconds": measure.median(good), "all_seconds": good}
        rows.append(row)
    seconds = {(r["backend"], r["state"]): r["seconds"] for r in rows if "seconds" in r}
    for r in rows:
        base = seconds.get(("aot_eager", r["state"]))
        if base is None or "seconds" not in r or r["backend"] == "aot_eager":
            continue
        r["own"] = r["seconds"] - base
        inductor = seconds.get(("inductor", r["state"]))
        if inductor is not None and inductor > base:
            r["share"] = r["own"] / (inductor - base)
    return rows


def main():
    if sys.argv[1:2] == ["--child"]:
        name, device, backend, small = sys.argv[2:]
        return child(name, device, backend, small == "1")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*")
    p.add_argument("--device", choices=("cuda", "cpu"), default=measure.default_device())
    p.add_argument("--backends", default="aot_eager,inductor,strata")
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--json")
    p.add_argument("--small", action="store_true")
    args = p.parse_args()
    args.backends = measure.backends(args.backends)
    import zoo

    models = args.models or [m for m in ("gpt2", "vit", "resnet50") if m in zoo.MODELS]
    for name in models:
        if name not in zoo.MODELS:
            sys.exit(f"no model is called {name}; known: {', '.join(zoo.MODELS)}")
    log, head = measure.Log(args.json), {"script": "first_call", **measure.machine(args.device), "small": args.small}
    log.write(head)
    print(f"{head['name']}, torch {head['torch']}, {head['threads']} threads")
    print(f"{'model':10s} {'backend':10s} {'caches':6s}{'seconds':>9s}{'own':>8s}{'share':>8s}", flush=True)
    for name in models:
        for row in rows_of(name, args):
            log.write(row)
            figures = "".join(f"{row[k]:{w}}" for k, w in (("seconds", "9.2f"), ("own", "8.2f"), ("share", "8.2f")) if k in row)
            print(f"{name:10s} {row['backend']:10s} {row['state']:6s}{figures}  {row.get('failed', '')}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
