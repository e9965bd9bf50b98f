"""Single kernels through torch.compile: eager, Inductor and Strata side by side in one run.

usage   python kernels.py [NAME ...]   names or groups of cases, with * and ?; default all. --list shows them
        --device cuda|cpu              default: cuda where there is a GPU. The sizes on a CPU are smaller
        --backends eager,inductor,strata
        --dtype bf16|f16|f32           default: bf16 on a GPU, f32 on a CPU; some cases have a type of their own
        --small                        tiny sizes, to see that everything runs
        --odd                          odd sizes, in f32, f16 and bf16; bf16 rows that are parts of longer ones; f32 data one
                                       element after an aligned address
        --json FILE                    appends a line a case and backend
        --plot FILE.svg                shares of the floor as bars
        --limit 180                    seconds without a sign of life, after which a backend counts as hung

A case's figures, all from the same inputs, types and run:
  floor       the least time for the bytes that must be read and written: what is both read and written at the rate at which
              this device copies, what more is read at the rate at which it reads, both measured first (the best of several
              ways and sizes). Of products and attention the flops at the best rate of a matrix product, where that is longer.
  ms a call   on a GPU: of many calls recorded in one CUDA graph, the time of a replay divided by the calls. The calls go through
              several sets of inputs, and write to as many sets of outputs, together four times as large as the L2 cache. On a
              CPU, and where a backend cannot be recorded (marked *): of calls in a plain loop. The median of 12 samples,
              the backends taking turns.
  share       floor / ms a call, of Strata; ind/str: Inductor's ms a call / Strata's
  loop        ms a call in a plain loop, so with what a launch costs
  first       seconds of the first call, compilation included, with empty caches. Each backend has compiled one other
              function in the process before
  error       the largest relative L2 distance of an output to PyTorch's in float64, of the first call and, on a GPU, of outputs
              that are overwritten and then computed anew by a replay
  k·l·f       Strata's own kernels, library calls, and ops left to PyTorch, in one call
Strata's row is ok if its error is at most 1.5 times the largest of: the other backends', and the exact result rounded to the
output's type (the type's epsilon, of outputs with under 1000 numbers). The exit status is 1 where it is not, or where Strata
failed or left the whole graph to PyTorch. A backend that ends the process or takes too long loses its row; the others' are
measured again without it.
"""

import argparse
import gc
import multiprocessing
import sys

import torch

import cases
import measure
import plot

VARIANTS = (("f32", ""), ("f16", ""), ("bf16", ""), ("bf16", "strided"), ("f32", "offset"))
COLUMNS = (
    ("kernel", 36), ("floor", 8), ("eager", 9), ("inductor", 9), ("strata", 9), ("share", 6), ("ind/str", 7),
    ("loop: ind", 9), ("strata", 8), ("first: ind", 10), ("strata", 7), ("error", 7), ("allowed", 7), ("k·l·f", 8), ("verdict", 14),
)  # fmt: skip


# ---- in the process that measures ----
def compile_and_check(backend, case, sets, exact, clock):
    """The function as the backend has it, its results' form, and a row with error and first call."""
    torch._dynamo.reset()
    counters, row = measure.Counters(backend), {"backend": backend}
    f = measure.compiled(case.fn, backend)
    results = []
    row["first_s"] = measure.seconds(lambda: results.append(f(*sets[0])), clock)
    row["error"] = measure.distance(results, exact)
    return f, results[0], row | counters.row()


def measure_case(case, variant, args, rates, tell):
    """A row for each backend. `tell(backend)` before each says who is at work."""
    tell("eager")
    gc.collect()
    clock = measure.Clock(args.device)
    sets = [case.inputs(args.device, *variant, seed=0)]
    with torch.no_grad():
        exact = case.exact(sets[0])
        outputs = case.fn(*sets[0])
        clock.release()
        n = clock.sets(measure.size(sets[0]) + measure.size(outputs), most=2 if args.small else 64)
        sets += [case.inputs(args.device, *variant, seed=i) for i in range(1, n)]
        common = {
            "case": case.name, "group": case.group, "dtype": case.dtype or variant[0], "layout": variant[1],
            "shapes": [list(t.shape) for t in sets[0]], "sets": n, "floor_ms": case.floor_ms(sets[0], outputs, rates),
            "least_error": measure.rounding(outputs, exact),
        }  # fmt: skip
        rows, running = [], []
        for backend in args.backends:
            tell(backend)
            try:
                f, got, row = compile_and_check(backend, case, sets, exact, clock)
                forms = [[(t.shape, t.dtype) for t in measure.tree_leaves(o)] for o in (got, outputs)]
                if forms[0] != forms[1]:
                    raise RuntimeError(f"the results are {forms[0]}, eager's {forms[1]}")
                del got
                calls = measure.Calls(f, sets, clock)
                if clock.cuda:
                    record(calls, row, exact)
                running.append((backend, row, calls))
            except Exception as e:
                row = {"backend": backend, "failed": measure.problem(e)}
                clock.sync()  # raises once more where the device is of no further use
            rows.append(row)
        sample(running, tell)
    return [common | row for row in rows]


def record(calls, row, exact):
    try:
        calls.capture()
        row["error"] = max(row["error"], measure.distance(calls.replayed(), exact))
    except Exception as e:
        row["not_recorded"] = measure.problem(e)
        calls.graph = None
        calls.clock.sync()


def sample(running, tell):
    loops, replays = ({b: [] for b, _, _ in running} for _ in range(2))
    for turn in range(measure.SAMPLES + 1):
        for backend, _, calls in running:
            tell(backend)
            taken = calls.loop(), calls.replay() if calls.graph else None
            if turn:  # the first turn warms up
                loops[backend].append(taken[0])
                replays[backend].append(taken[1])
    for backend, row, calls in running:
        row["loop_ms"] = measure.median(loops[backend])
        row["ms"] = measure.median(replays[backend]) if calls.graph else row["loop_ms"]
        if calls.clock.cuda:
            row["recorded"] = calls.graph is not None


def work(pipe, args):
    """Answers ("rates", products) and (index, variant, backends, rates) until told None."""
    table = cases.every(args.sizes)
    for backend in args.backends:
        pipe.send(("at", backend))
        try:
            measure.warm_up(backend, args.device)
        except Exception:
            pass  # its rows will tell
    while (job := pipe.recv()) is not None:
        if job[0] == "rates":
            clock = measure.Clock(args.device)
            pipe.send(("done", measure.rates(clock, args.device, args.small, "inductor" in args.backends, products=job[1])))
            continue
        index, variant, args.backends, rates = job
        pipe.send(("done", measure_case(table[index], variant, args, rates, lambda backend: pipe.send(("at", backend)))))


# ---- in the process that asks ----
class Worker:
    """The process that measures. A new one is started where it ends or is silent for too long."""

    def __init__(self, args):
        self.args, self.process = args, None

    def ask(self, job):
        """("done", answer), or ("lost", who was at work and why)."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=work, args=(theirs, self.args), daemon=True)
            self.process.start()
            theirs.close()
        at = "eager"
        try:
            self.pipe.send(job)
            while self.pipe.poll(self.args.limit):
                kind, value = self.pipe.recv()
                if kind == "done":
                    return kind, value
                at = value
            why = f"no answer in {self.args.limit} s"
        except (EOFError, ConnectionError):
            self.process.join(10)
            why = f"the process ended with status {self.process.exitcode}"
        self.stop()
        return "lost", (at, why)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def run_case(worker, index, case, variant, backends, rates):
    """All backends' rows; whoever takes the process down loses its own."""
    left, rows = list(backends), []
    while left:
        kind, answer = worker.ask((index, variant, left, rates))
        if kind == "done":
            rows += answer
            break
        who, why = answer
        # The exact result counts as eager's work. Where that ends the process again, there is nothing to compare with.
        gone = [who] if who in left else left
        rows += [{"backend": b, "failed": why} for b in gone]
        left = [b for b in left if b not in gone]
    common = {"case": case.name, "group": case.group, "dtype": case.dtype or variant[0], "layout": variant[1]}
    rows = [common | r for r in rows]
    measure.judge(rows, max(r.get("least_error", 0) for r in rows))
    for r in rows:
        if "ms" in r:
            r["share"] = r["floor_ms"] / r["ms"]
    return sorted(rows, key=lambda r: backends.index(r["backend"]))


def number(row, key, digits, mark=""):
    value = row.get(key)
    return f"{value:.{digits}f}{mark}" if value is not None else "failed" if "failed" in row else "-"


def line(name, rows):
    by = {r["backend"]: r for r in rows}
    eager, inductor, strata = (by.get(b, {}) for b in ("eager", "inductor", "strata"))
    floor = next((r["floor_ms"] for r in rows if "floor_ms" in r), None)
    ms = [number(r, "ms", 4, "" if r.get("recorded", True) else "*") for r in (eager, inductor, strata)]
    counted = "·".join(str(strata[n]) for n in ("kernels", "library_calls", "fallbacks")) if "kernels" in strata else "-"
    error, allowed = (f"{strata[k]:.1e}" if k in strata else "-" for k in ("error", "allowed"))
    ratio = f"{inductor['ms'] / strata['ms']:.2f}" if "ms" in inductor and "ms" in strata else "-"
    share = f"{100 * strata['share']:.0f} %" if "share" in strata else "-"
    cells = [
        name, "-" if floor is None else f"{floor:.4f}", *ms, share, ratio, number(inductor, "loop_ms", 4), number(strata, "loop_ms", 4),
        number(inductor, "first_s", 2), number(strata, "first_s", 2), error, allowed, counted, strata.get("verdict", "-"),
    ]  # fmt: skip
    return row_text(cells)


def row_text(cells):
    return "| " + " | ".join(c.ljust(w) if w > 20 else c.rjust(w) for c, (_, w) in zip(cells, COLUMNS)) + " |"


def summary(rows):
    """A line a group: geometric means, and the worst ratio by name."""
    for group in dict.fromkeys(r["group"] for r in rows):
        by = {}
        for r in rows:
            if r["group"] == group and "ms" in r:
                by.setdefault((r["case"], r["dtype"], r["layout"]), {})[r["backend"]] = r
        strata = {k: b["strata"] for k, b in by.items() if "strata" in b}
        text = f"{group}: {len(strata)} measured, {100 * measure.geomean([r['share'] for r in strata.values()]):.0f} % of the floor"
        for other in ("inductor", "eager"):
            ratios = {k: by[k][other]["ms"] / r["ms"] for k, r in strata.items() if other in by[k]}
            if ratios:
                worst = min(ratios, key=ratios.get)
                text += f"; {other} / strata {measure.geomean(list(ratios.values())):.2f}, least {ratios[worst]:.2f} ({worst[0]})"
        if strata:
            print(text)
    for r in rows:
        if "failed" in r or not r.get("ok", True):
            print(f"{r['case']}, {r['backend']}: {r.get('failed') or r['verdict']} {'; '.join(r.get('events', [])[:2])}")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*")
    p.add_argument("--device", choices=("cuda", "cpu"), default=measure.default_device())
    p.add_argument("--backends", default=measure.BACKENDS)
    p.add_argument("--dtype", choices=tuple(cases.DTYPES))
    for flag in ("--small", "--odd", "--list"):
        p.add_argument(flag, action="store_true")
    p.add_argument("--json")
    p.add_argument("--plot")
    p.add_argument("--limit", type=int, default=180)
    args = p.parse_args()
    args.dtype = args.dtype or ("bf16" if args.device == "cuda" else "f32")
    args.sizes = " ".join(["small"] * args.small + ["odd"] * args.odd) or args.device
    args.backends = measure.backends(args.backends)
    return args


def main():
    args = arguments()
    table = cases.every(args.sizes)
    try:
        wanted = cases.chosen(table, args.names)
    except LookupError as e:
        sys.exit(str(e))
    if args.list:
        for c in wanted:
            print(f"{c.name:36s} {c.group}")
        return 0
    caches, log, rows = measure.fresh_caches(), measure.Log(args.json), []
    worker = Worker(args)
    kind, rates = worker.ask(("rates", any(c.flops for c in wanted)))
    if kind == "lost":
        sys.exit(f"the device's rates could not be measured: {rates[1]}")
    head = {"script": "kernels", **measure.machine(args.device), **rates, "backends": args.backends, "sizes": args.sizes}
    log.write(head)
    print(", ".join(f"{k} {v if isinstance(v, str) else f'{v:.1f}'}" for k, v in head.items() if k in ("name", "torch", *rates)), flush=True)
    print(row_text([name for name, _ in COLUMNS]) + "\n" + row_text(["-" * w for _, w in COLUMNS]), flush=True)
    for c in wanted:
        for variant in [v for v in VARIANTS if not c.dtype or v[0] == c.dtype] if args.odd else [(args.dtype, "")]:
            one = run_case(worker, table.index(c), c, variant, args.backends, rates)
            for r in one:
                log.write(r)
            rows += one
            print(line(c.name + (f" {'-'.join(filter(None, variant))}" if args.odd else ""), one), flush=True)
    worker.stop()
    summary(rows)
    if args.plot:
        plot.draw(rows, args.plot)
    caches.cleanup()
    return int("strata" in args.backends and not all(r["ok"] for r in rows if r["backend"] == "strata"))


if __name__ == "__main__":
    sys.exit(main())
