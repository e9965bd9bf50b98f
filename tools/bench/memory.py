"""The most memory that a device holds while a model runs: eager, Inductor and Strata, each in a process of its own.

usage   python memory.py [MODEL ...]         as torch_models.py; default gpt2 resnet50
        --backends eager,inductor,strata
        --training                           a step: forward, backward, no optimizer
        --small                              small models, to see that everything runs
        --device cpu                         likewise: `torch` is then the most that the process held, and says little
        --json FILE                          appends a line a model and backend

Weights and inputs are bf16. A line's figures, in MiB, of the calls after the first:
  torch     the peak of what PyTorch's allocator had given out
  reserved  the peak of what it had taken from the device: what nvidia-smi would show of it
  outside   what the device had less afterwards, that PyTorch's allocator does not know of: contexts and libraries aside (eager's is
            taken off), memory that a backend took for itself
  peak      torch + outside
  of eager  peak as a part of eager's; `less 64` with one workspace of 64 MiB taken off
"""

import argparse
import json
import resource
import subprocess
import sys

import torch

import measure

MIB = 1 << 20
WORKSPACE = 64


def child(name, backend, device, training, small):
    """One process: prints the figures as JSON."""
    import zoo

    torch.manual_seed(0)
    model, inputs = zoo.MODELS[name].build(device, small)
    model = model.train(training).to(device, torch.bfloat16)
    inputs = [x.to(device, torch.bfloat16 if x.is_floating_point() else None) for x in inputs]
    f = measure.compiled(model, backend)

    def step():
        if not training:
            with torch.no_grad():
                return f(*inputs)
        result = f(*inputs)
        loss = result.float().square().mean()
        loss.backward()
        model.zero_grad(set_to_none=True)
        return loss.detach()

    # Compilation and libraries' first calls take memory for a moment that no later call does.
    for _ in range(3):
        step()
    row = (of_gpu if device == "cuda" else of_process)(step)
    print(json.dumps(row | measured_counters(backend)))


def of_gpu(step):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return {
        "torch_mib": torch.cuda.max_memory_allocated() / MIB,
        "reserved_mib": torch.cuda.max_memory_reserved() / MIB,
        "outside_mib": (total - free - torch.cuda.memory_reserved()) / MIB,
    }


def of_process(step):
    for _ in range(3):
        step()
    return {"torch_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB, "reserved_mib": 0.0, "outside_mib": 0.0}


def measured_counters(backend):
    if backend != "strata":
        return {}
    import strata

    counted = strata.counters()
    return {n: counted[n] for n in ("eager_graphs", "fallbacks", "kernels", "library_calls")}


def rows_of(name, args):
    rows = []
    for backend in args.backends:
        command = [sys.executable, __file__, "--child", name, backend, args.device, str(int(args.training)), str(int(args.small))]
        done = subprocess.run(command, capture_output=True, text=True)
        row = {"failed": done.stderr[-500:]} if done.returncode else json.loads(done.stdout.splitlines()[-1])
        rows.append({"model": name, "backend": backend, "training": args.training} | row)
    compare(rows)
    return rows


def compare(rows):
    """Adds peaks, and what part of eager's they are. Every process has a context as eager's has, which has nothing else outside."""
    eager = next((r for r in rows if r["backend"] == "eager" and "torch_mib" in r), None)
    context = eager["outside_mib"] if eager else 0.0
    for r in (r for r in rows if "torch_mib" in r):
        r["outside_mib"] -= context
        r["peak_mib"] = r["torch_mib"] + max(r["outside_mib"], 0.0)
        if eager:
            r["of_eager"] = r["peak_mib"] / eager["torch_mib"]
            r["less_64"] = (r["peak_mib"] - (WORKSPACE if r["backend"] == "strata" else 0)) / eager["torch_mib"]


def main():
    if sys.argv[1:2] == ["--child"]:
        name, backend, device, training, small = sys.argv[2:]
        return child(name, backend, device, training == "1", small == "1")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--backends", default=measure.BACKENDS)
    p.add_argument("--json")
    for flag in ("--training", "--small"):
        p.add_argument(flag, action="store_true")
    args = p.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no GPU here: a CPU's memory is not measured; --device cpu only shows that everything runs")
    import zoo

    args.backends = measure.backends(args.backends)
    for name in args.models:
        if name not in zoo.MODELS:
            sys.exit(f"no model is called {name}; known: {', '.join(zoo.MODELS)}")
    log, head = measure.Log(args.json), {"script": "memory", **measure.machine(args.device), "training": args.training, "small": args.small}
    log.write(head)
    columns = (("torch_mib", "10.1f"), ("reserved_mib", "10.1f"), ("outside_mib", "10.1f"), ("peak_mib", "10.1f"), ("of_eager", "10.3f"), ("less_64", "10.3f"))
    print(f"{head['name']}, torch {head['torch']}, {'training' if args.training else 'inference'}")
    print(f"{'model':12s} {'backend':9s}" + "".join(f"{c.removesuffix('_mib').replace('_', ' '):>10s}" for c, _ in columns))
    for name in args.models or ("gpt2", "resnet50"):
        for row in rows_of(name, args):
            log.write(row)
            figures = "".join(f"{row[k]:{w}}" for k, w in columns if k in row)
            print(f"{name:12s} {row['backend']:9s}{figures}  {row.get('failed', '')}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
