"""Whole models with Strata: results and gradients of a training step against float64, beside eager PyTorch and Inductor.

usage   python models.py
        --device cpu|cuda      default: cuda where there is a GPU
        --size small|full      default: small on a CPU, full on a GPU
        --only NAME,…          of: {names}
        --dtype f32|bf16|f16   of weights and inputs; default: f32 on a CPU, bf16 on a GPU
        --steps forward,train  default: both
        --inductor             measures Inductor, too
        --jobs J               processes at once; default 1
        --json FILE            a line of JSON a model and step

Each model runs in a process of its own. A row:
  error       relative L2 distance to float64 of the results; in training of the loss and of all gradients together
  k·l·f       Strata's own kernels, library calls, and ops left to PyTorch, in one call
  share       ops left to PyTorch of all ops (nodes of the graphs that Strata was given)
  compile     seconds of the first call
A row is right if Strata's error is at most {slack} times the largest of the others' and of one rounding, no whole graph ran in PyTorch, and at
most {most:.0%} of the ops did; forward in {strict} none. The exit status is 1 where a row is not.
"""

import argparse
import collections
import copy
import json
import math
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BENCH = next(f for f in (HERE.parent / "bench", HERE.parent) if (f / "zoo.py").is_file())
sys.path[:0] = [str(HERE), str(BENCH)]

import workers  # noqa: E402

NAMES = ("gpt2", "bert", "llama", "t5", "experts", "whisper", "lstm", "resnet50", "vit", "convnext", "unet")
STRICT = ("gpt2", "vit", "bert", "llama", "resnet50")
SLACK, MOST = 1.5, 0.03


def arguments():
    text = __doc__.format(names=" ".join(NAMES), slack=SLACK, most=MOST, strict=", ".join(STRICT))
    p = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", choices=("cpu", "cuda"))
    p.add_argument("--size", choices=("small", "full"))
    p.add_argument("--only", default=",".join(NAMES))
    p.add_argument("--dtype", choices=("f32", "bf16", "f16"))
    p.add_argument("--steps", default="forward,train")
    p.add_argument("--inductor", action="store_true")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--timeout", type=float, default=900)
    p.add_argument("--json")
    args = p.parse_args()
    args.only, args.steps = args.only.split(","), args.steps.split(",")
    for asked, known in ((args.only, NAMES), (args.steps, ("forward", "train"))):
        for name in asked:
            if name not in known:
                p.error(f"unknown: {name}; known: {', '.join(known)}")
    if args.device is None:
        import torch

        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    args.size = args.size or ("small" if args.device == "cpu" else "full")
    args.dtype = args.dtype or ("f32" if args.device == "cpu" else "bf16")
    return args


class Nodes:
    """Counts the ops of the graphs that Strata is given."""

    def __init__(self):
        from strata import _backend

        self.module, self.compile_fx, self.count = _backend, _backend.compile_fx, 0

    def __enter__(self):
        def counted(gm, *rest, **named):
            import operator

            self.count += sum(n.op == "call_function" and n.target is not operator.getitem for n in gm.graph.nodes)
            return self.compile_fx(gm, *rest, **named)

        self.module.compile_fx = counted
        return self

    def __exit__(self, *_):
        self.module.compile_fx = self.compile_fx


def forward(model, inputs, compiled):
    import torch

    with torch.no_grad():
        return [compiled(model.forward)(*inputs)]


def train(model, inputs, compiled):
    """Loss, then gradients, of one step."""
    import torch

    import zoo

    model.zero_grad(set_to_none=True)
    loss = compiled(lambda *x: zoo.loss(model(*x)))(*inputs)
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return [loss.detach(), torch.cat([g.flatten().to(torch.float64 if g.device.type == "cpu" else torch.promote_types(g.dtype, torch.float32)) for g in grads])]


def judge(name, step, out):
    """What is wrong with a row; nothing if it is right."""
    allowed = SLACK * max([out[b]["error"] for b in ("eager", "inductor") if math.isfinite(out.get(b, {}).get("error", math.nan))] + [out["rounding"]])
    ours = out["strata"]
    out["allowed"] = allowed
    if "failed" in ours:
        return ours["failed"]
    if ours["eager_graphs"]:
        return "a whole graph ran in PyTorch"
    if not ours["error"] <= allowed:
        return f"error {ours['error']:.1e}, allowed {allowed:.1e}"
    share = ours["fallbacks"] / max(ours["nodes"], 1)
    if share > MOST or (ours["fallbacks"] and step == "forward" and name in STRICT):
        return f"{ours['fallbacks']} ops left to PyTorch"
    return None


def row(job):
    """One model and step, in a child: a worker's job."""
    import torch

    import measure
    import zoo

    name, step, device = job["model"], job["step"], job["device"]
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[job["dtype"]]
    caches, clock = measure.fresh_caches(), measure.Clock(device)
    run = {"forward": forward, "train": train}[step]
    torch.manual_seed(0)
    model, inputs = zoo.MODELS[name].build(device, job["size"] == "small")
    model = model.train(step == "train").to(device, dtype)
    inputs = [x.to(device, dtype if x.is_floating_point() else None) for x in inputs]

    def with_copy(kind, of=None):
        # Each has its own weights, and buffers that the step writes.
        m = copy.deepcopy(model)
        return run(m.double(), measure.wide(inputs), kind) if of == "double" else run(m, inputs, kind)

    exact = with_copy(lambda f: f, "double")
    exact = [e.to(torch.float64) for e in exact]
    out = {"rounding": torch.finfo(dtype).eps / 4}
    for backend in ("eager", *(["inductor"] if job["inductor"] else []), "strata"):
        clock.release()
        torch._dynamo.reset()
        counters = measure.Counters(backend)
        started, nodes = time.time(), 0
        try:
            compiled = lambda f: measure.compiled(f, backend)  # noqa: B023, E731
            if backend == "strata":
                measure.warm_up(backend, device)
                counters, started = measure.Counters(backend), time.time()
                with Nodes() as count:
                    results = with_copy(compiled)
                nodes = count.count
            else:
                results = with_copy(compiled)
            clock.sync()
            out[backend] = {"error": measure.distance(results, exact), "first_s": round(time.time() - started, 2)}
        except Exception as e:
            out[backend] = {"failed": measure.problem(e)}
            continue
        if backend == "strata":
            counted = counters.row()
            events = counted.pop("events")
            ops = collections.Counter(e.split(": ", 1)[1].split(" (", 1)[0] for e in events if ": aten." in e or "fallbacks:" in e)
            out[backend] |= counted | {"nodes": nodes, "events": dict(ops.most_common())}
    caches.cleanup()
    problem = judge(name, step, out)
    return {"status": "ok" if problem is None else "bad", "problem": problem, **out}


def show(job, answer):
    ours = answer.get("strata", {})
    if "error" in ours:
        errors = "".join(f"{answer[b]['error']:11.1e}" if "error" in answer.get(b, {}) else f"{'-':>11s}" for b in ("eager", "inductor", "strata"))
        counts = "·".join(str(ours[k]) for k in ("kernels", "library_calls", "fallbacks"))
        share = f"{ours['fallbacks'] / max(ours['nodes'], 1):7.1%}"
        print(f"{job['model']:9s} {job['step']:8s}{errors}  {counts:14s}{ours['nodes']:6d}{share}{ours['first_s']:8.1f} s  {answer['problem'] or 'ok'}", flush=True)
        for op, n in ours["events"].items():
            print(f"{'':18s} {n} × {op}")
    else:
        problem = answer.get("problem") or next(iter(answer.get("problems", {}).values()), answer.get("status"))
        print(f"{job['model']:9s} {job['step']:8s} {problem}", flush=True)


def main():
    args = arguments()
    jobs = [
        {"model": n, "step": s, "device": args.device, "size": args.size, "dtype": args.dtype, "inductor": args.inductor}
        for n in args.only
        for s in args.steps
    ]
    print(f"{args.device}, {args.size}, {args.dtype}")
    print(f"{'model':9s} {'step':8s}{'eager':>11s}{'inductor':>11s}{'strata':>11s}  {'k·l·f':14s}{'nodes':>6s}{'share':>7s}{'compile':>10s}  verdict")
    bad, answers = 0, {}
    for job, answer in workers.over("models:row", jobs, args.jobs, args.timeout, most=8):
        answers[job["model"], job["step"]] = answer
        bad += answer["status"] != "ok"
        show(job, answer)
    rows = [{**j, **answers[j["model"], j["step"]]} for j in jobs]
    nodes = sum(r.get("strata", {}).get("nodes", 0) for r in rows)
    left = sum(r.get("strata", {}).get("fallbacks", 0) for r in rows)
    print(f"{len(rows) - bad} of {len(rows)} right; {left} of {nodes} ops left to PyTorch ({left / max(nodes, 1):.1%})")
    if args.json:
        with open(args.json, "w") as f:
            for r in rows:
                print(json.dumps(r), file=f)
            print(json.dumps({"script": "models", "device": args.device, "size": args.size, "dtype": args.dtype, "rows": len(rows), "right": len(rows) - bad, "nodes": nodes, "fallbacks": left}), file=f)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
