"""Whole models with random weights through torch.compile: eager, Inductor and Strata side by side in one run.

usage   python torch_models.py [MODEL ...]   of zoo.py: gpt2 gpt2_short bert llama experts lstm t5 whisper resnet50 vit convnext unet;
                                             default gpt2 gpt2_short resnet50
        --device cuda|cpu                    default: cuda where there is a GPU. Batches on a CPU are smaller
        --backends eager,inductor,strata
        --small                              small models, to see that everything runs
        --dynamic                            symbolic sizes
        --json FILE                          appends a line a model and backend
        --profile                            also the device time of a call by kernel name (on a CPU, PyTorch's ops by name)

Weights and inputs are bf16 on a GPU, f32 on a CPU; inference. A model's figures:
  ms a call   from an idle device to an idle device, the median of 20 calls after two
  host        ms until a call returns, the device still at work; likewise
  first       seconds of the first call, compilation included, with empty caches. Each backend has compiled one small
              function in the process before
  error       relative L2 distance of the output of the second call to PyTorch's in float64
  k·l·f       Strata's own kernels, library calls, and ops left to PyTorch, in one call
Strata's row is ok if its error is at most 1.5 times the largest of the other backends' and one rounding of the exact result.
The exit status is 1 where it is not, or where Strata failed or left a graph to PyTorch.
"""

import argparse
import copy
import sys

import torch

import measure
import zoo


DEFAULT = ("gpt2", "gpt2_short", "resnet50")


def tried(backend, model, inputs, exact, args, clock):
    torch._dynamo.reset()
    counters, row = measure.Counters(backend), {"backend": backend}
    f = measure.compiled(model, backend, args.dynamic or None)
    row["first_s"] = measure.seconds(lambda: f(*inputs), clock)
    row["error"] = measure.distance(f(*inputs), exact)
    row |= counters.row()
    row["ms"] = measure.median([1e3 * measure.seconds(lambda: f(*inputs), clock) for _ in range(20)])
    row["host_ms"] = measure.median([measure.host_ms(f, inputs, clock) for _ in range(20)])
    if args.profile:
        row["profile"] = measure.profile(f, inputs, clock)
    return row


def rows_of(name, args, clock):
    torch.manual_seed(0)
    model, inputs = zoo.MODELS[name].build(args.device, args.small)
    dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
    model, inputs = model.eval().to(args.device, dtype), tuple(x.to(args.device, dtype if x.is_floating_point() else None) for x in inputs)
    rows = []
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(*measure.wide(inputs))
        clock.release()
        for backend in args.backends:
            try:
                rows.append(tried(backend, model, inputs, exact, args, clock))
            except Exception as e:
                rows.append({"backend": backend, "failed": measure.problem(e)})
        measure.judge(rows, measure.distance(exact.to(dtype), exact))
    common = {"model": name, "dtype": str(dtype)[6:], "input": [list(x.shape) for x in inputs], "dynamic": args.dynamic}
    return [common | r for r in rows]


def show(row):
    counted = "·".join(str(row[n]) for n in ("kernels", "library_calls", "fallbacks")) if "kernels" in row else ""
    figures = "".join(
        f"{row[k]:{width}}" if k in row else " " * int(width.split(".")[0])
        for k, width in (("ms", "10.3f"), ("host_ms", "10.3f"), ("first_s", "9.2f"), ("error", "10.1e"), ("allowed", "10.1e"))
    )
    print(f"{row['model']:12s} {row['backend']:9s}{figures}  {counted:12s} {row.get('failed') or row.get('verdict', '')}", flush=True)
    for event in row.get("events", [])[:5] if not row.get("ok", True) or row.get("fallbacks") else []:
        print(f"    {event}")
    if "profile" in row:
        print(f"    {row['profile']['total_ms']:.3f} ms in all, of these")
        for k in row["profile"]["kernels"]:
            print(f"    {k['ms']:9.3f} ms {k['calls']:6.1f} x  {k['name'][:110]}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*")
    p.add_argument("--device", choices=("cuda", "cpu"), default=measure.default_device())
    p.add_argument("--backends", default=measure.BACKENDS)
    p.add_argument("--json")
    for flag in ("--small", "--dynamic", "--profile"):
        p.add_argument(flag, action="store_true")
    args = p.parse_args()
    args.backends = measure.backends(args.backends)
    for name in args.models:
        if name not in zoo.MODELS:
            sys.exit(f"no model is called {name}; known: {', '.join(zoo.MODELS)}")
    caches, log, clock, good = measure.fresh_caches(), measure.Log(args.json), measure.Clock(args.device), True
    head = {"script": "torch_models", **measure.machine(args.device), "backends": args.backends, "small": args.small}
    log.write(head)
    print(f"{head['name']}, torch {head['torch']}")
    print(f"{'model':12s} {'backend':9s}{'ms':>10s}{'host':>10s}{'first s':>9s}{'error':>10s}{'allowed':>10s}  {'k·l·f':12s} verdict", flush=True)
    for backend in args.backends:
        try:
            measure.warm_up(backend, args.device)
        except Exception:
            pass  # its rows will tell
    for name in args.models or DEFAULT:
        for row in rows_of(name, args, clock):
            log.write(row)
            show(row)
            good &= row.get("ok", True)
    caches.cleanup()
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
