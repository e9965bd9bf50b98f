"""Random PyTorch programs with Strata beside eager PyTorch: views, writes, types, broadcasting, reductions, products, sizes that vary.

usage   python random_graphs.py            a thousand programs; each week others
        --count N                          how many programs (1000)
        --seed S                           numbers S * 10^6, S * 10^6 + 1, …; default 0
        --slice i/n                        of n runs of N programs the i-th; default: the week of the year of 52
        --jobs J                           processes; default: the processors
        --json FILE                        a line of JSON a program, and one with the sums
        --keep DIR                         reduced failing programs, as scripts of their own
        --reduce M                         of each kind of fault at most so many are reduced; default 1 where --keep is given, else 0
        --only NUMBER                      one program: its source and its verdict; with --keep it is reduced if it fails

Results are compared by type, shape, strides, the arguments whose memory they share, and values; written arguments and gradients
likewise. A value is right if its error against float64 is at most 3 times PyTorch's own, or that of rounding noise in every step.
The exit status is 1 where a program failed.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "random_graphs")]

import workers  # noqa: E402

FAILED = ("wrong", "error", "eager", "died", "hung")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--slice", default=f"{datetime.date.today().isocalendar().week % 52}/52")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--json")
    p.add_argument("--keep", type=pathlib.Path)
    p.add_argument("--reduce", type=int)
    p.add_argument("--only", type=int)
    p.add_argument("--timeout", type=float, default=60)
    args = p.parse_args()
    try:
        i, n = map(int, args.slice.split("/"))
    except ValueError:
        p.error(f"--slice is i/n, not {args.slice!r}")
    if not 0 <= i < n:
        p.error(f"--slice i/n needs 0 <= i < n, not {args.slice!r}")
    start = args.seed * 10**6 + i * args.count
    args.numbers = range(start, start + args.count)
    args.reduce = args.reduce if args.reduce is not None else int(args.keep is not None)
    return args


def signature(answer):
    """Programs that fail alike."""
    import shrink

    kind = shrink.kind(answer)
    return " ".join(k for k in kind if k) if kind else answer["status"]


def one(args):
    import generate

    program = generate.generate(args.only)
    if program is None:
        sys.exit(f"number {args.only} makes no program")
    print(program.source())
    for i in program.inputs:
        print(i)
    worker = workers.Worker("trial:trial_of_json", args.timeout)
    answer = worker.ask({"program": program.to_json()})
    print(json.dumps(answer, indent=1), flush=True)
    failed = answer["status"] in FAILED
    if failed and args.keep:
        file, p, _ = keep(answer | {"program": program.to_json()}, worker, args.keep)
        print(f"reduced to {len(p.steps)} steps: python {file}")
    worker.stop()
    return int(failed)


def keep(answer, worker, folder):
    """Reduces a failing program and writes it down."""
    import program
    import shrink

    p, a = shrink.shrink(program.Program.of_json(answer["program"]), lambda data: worker.ask({"program": data}))
    folder.mkdir(parents=True, exist_ok=True)
    # A path of this machine says nothing elsewhere.
    problem = "; ".join(f"{k}: {v}" for k, v in a.get("problems", {}).items()).replace("\\", "/").replace('"', "'").split("\n  next: ")[0].replace("\n", " ")
    file = folder / f"program_{p.number}.py"
    file.write_text(program.script(p, f"Random program {p.number}, reduced ({a['status']}): {problem[:300]}"))
    return file, p, a


def main():
    args = arguments()
    if args.only is not None:
        return one(args)
    log = open(args.json, "w") if args.json else None
    statuses, kinds, fallbacks, ops, started = collections.Counter(), collections.defaultdict(list), collections.Counter(), collections.Counter(), time.time()
    done = dynamic = 0
    for job, answer in workers.over("trial:trial_of_number", ({"number": n} for n in args.numbers), args.jobs, args.timeout):
        done += 1
        statuses[answer["status"]] += 1
        fallbacks.update(answer.get("fallbacks", ()))
        ops.update({k: answer.get("counters", {}).get(k, 0) for k in ("kernels", "library_calls", "fallbacks", "recompiled")})
        dynamic += "recompiled" in answer.get("counters", {})
        if answer["status"] in FAILED:
            kinds[signature(answer)].append(answer | {"number": job["number"]})
        if log:
            print(json.dumps({"number": job["number"], **answer}), file=log)
        if sys.stderr.isatty() or done % 100 == 0 or done == len(args.numbers):
            rate = done / (time.time() - started)
            print(f"\r{done}/{len(args.numbers)} programs, {rate:.1f} a second: {text_of(statuses)}", end="", file=sys.stderr, flush=True)
    took, spent = time.time() - started, os.times()
    spent = spent.children_user + spent.children_system
    print(file=sys.stderr)
    worker = workers.Worker("trial:trial_of_json", args.timeout)
    for name, answers in sorted(kinds.items(), key=lambda k: -len(k[1])):
        print(f"{len(answers)} × {name}: {', '.join(str(a['number']) for a in sorted(answers, key=lambda a: a['number'])[:12])}")
        for answer in sorted((a for a in answers if "program" in a), key=lambda a: a["number"])[: args.reduce]:
            file, p, a = keep(answer, worker, args.keep or pathlib.Path("random_graphs_failures"))
            print(f"    {file}, {len(p.steps)} steps: {a.get('problems')}")
    worker.stop()
    failed = sum(statuses[s] for s in FAILED)
    sums = {
        "script": "random_graphs", "programs": len(args.numbers) - statuses["none"], "first": args.numbers[0], "count": args.count,
        "failed": failed, "statuses": dict(statuses), "seconds": round(took, 1), "per_second": round(done / took, 2), "processor_seconds": round(spent, 1),
        "dynamic": dynamic, **dict(ops), "fallback_ops": dict(fallbacks.most_common()),
    }  # fmt: skip
    if log:
        print(json.dumps(sums), file=log)
    print(f"{sums['programs']} programs from number {args.numbers[0]} in {took:.0f} s ({spent:.0f} s of processor time): {text_of(statuses)}; {ops['kernels']} kernels, {ops['library_calls']} library calls, {ops['fallbacks']} ops left to PyTorch; {ops['recompiled']} of {dynamic} dynamic ones compiled again")
    return int(failed > 0)


def text_of(statuses):
    return ", ".join(f"{n} {s}" for s, n in sorted(statuses.items(), key=lambda x: -x[1]))


if __name__ == "__main__":
    sys.exit(main())
