"""What a call of a compiled function costs the host, beside a backend that does nothing.

usage   python call.py [CASE ...]            inputs_1 inputs_149 outputs_100; default all
        --device cuda|cpu                    default: cuda where there is a GPU
        --backends nothing,strata            also eager, inductor, ...
        --calls N                            default 2000
        --json FILE                          appends a line a case and backend

A case adds up some tensors of 8 numbers: `inputs_149` has 149 inputs and one result. `nothing` gets the same graph through the same
Dynamo and AOTAutograd, and returns tensors made beforehand. All backends' calls alternate. A line's figures, in µs a call until it
returns, the device still at work:
  median, least     over all calls
  above             median minus that of `nothing`
  work              of that, strata's kernels or their launches, measured alone
  own               above minus work
"""

import argparse
import sys
import time
import unittest.mock

import torch

import measure


def add(xs):
    return sum(xs[1:], xs[0] * 2)


def many(xs):
    return [xs[0] + i for i in range(100)]


CASES = {"inputs_1": (1, add), "inputs_149": (149, add), "outputs_100": (1, many)}


def nothing(gm, example_inputs):
    """A backend of no work: what its first call computed is what all calls return."""
    from torch._dynamo.backends.common import aot_autograd

    def compile_fx(fx, inputs):
        results = []

        def run(args):
            if not results:
                results.extend(fx(*args))
            args.clear()
            return list(results)

        run._boxed_call = True
        return run

    return aot_autograd(fw_compiler=compile_fx, inference_compiler=compile_fx)(gm, example_inputs)


def recording(made):
    """Strata, with what it compiles kept in a list."""
    import strata
    from strata import _backend

    def backend(gm, example_inputs):
        def kept(*args):
            made.append(compile_fx(*args))
            return made[-1]

        compile_fx = _backend.compile_fx
        with unittest.mock.patch.object(_backend, "compile_fx", kept):
            return strata.backend(gm, example_inputs)

    return backend


def rows_of(name, args, clock):
    n, f = CASES[name]
    xs = [torch.randn(8, device=args.device) for _ in range(n)]
    functions, rows, made = {}, [], []
    own = {"nothing": nothing, "strata": recording(made)}
    torch._dynamo.reset()
    for backend in args.backends:
        functions[backend] = f if backend == "eager" else torch.compile(f, backend=own.get(backend, backend), fullgraph=True)
    # Alternately, so that whatever else the machine does meets all.
    times = {b: [] for b in functions}
    for i in range(args.calls + 3):
        for backend, g in functions.items():
            start = time.perf_counter_ns()
            g(xs)
            times[backend].append((time.perf_counter_ns() - start) / 1e3)
        if i % 50 == 0:
            clock.sync()
    for backend, t in times.items():
        row = {"case": name, "inputs": n, "backend": backend, "median_us": measure.median(t[3:]), "least_us": min(t)}
        if "nothing" in times:
            row["above_us"] = row["median_us"] - measure.median(times["nothing"][3:])
        if backend == "strata" and "nothing" in times:
            row["work_us"] = made[-1].step_time(list(xs), 200) / 1e3
            row["own_us"] = row["above_us"] - row["work_us"]
        rows.append(row)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cases", nargs="*")
    p.add_argument("--device", choices=("cuda", "cpu"), default=measure.default_device())
    p.add_argument("--backends", default="nothing,strata")
    p.add_argument("--calls", type=int, default=2000)
    p.add_argument("--json")
    args = p.parse_args()
    known = [b for b in args.backends.split(",") if b != "nothing"]
    measure.backends(",".join(known))
    args.backends = args.backends.split(",")
    for name in args.cases:
        if name not in CASES:
            sys.exit(f"no case is called {name}; known: {', '.join(CASES)}")
    log, clock = measure.Log(args.json), measure.Clock(args.device)
    head = {"script": "call", **measure.machine(args.device), "calls": args.calls}
    log.write(head)
    print(f"{head['name']}, torch {head['torch']}, {head['threads']} threads")
    columns = ("median", "least", "above", "work", "own")
    print(f"{'case':12s} {'backend':9s}{''.join(f'{c:>9s}' for c in columns)}   µs a call")
    with torch.no_grad():
        for name in args.cases or CASES:
            for row in rows_of(name, args, clock):
                log.write(row)
                figures = "".join(f"{row[c + '_us']:9.1f}" for c in columns if c + "_us" in row)
                print(f"{row['case']:12s} {row['backend']:9s}{figures}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
