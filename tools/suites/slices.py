"""The week's slices of the suites, as a test run counts them: a thousand random programs, and a part of PyTorch's op database.

usage   python slices.py [random_graphs] [opinfo]    default: both
        --week N                                      the week of the year; default: this one
        --jobs J                                      processes; default: the processors

Every week has programs and samples of its own, always the same ones. What is known to fail, `known.json` says with its reason: it counts
as skipped, and where it passes a line says so. Each failure is a line with the command that shows it; the last line counts.
The exit status is 1 where something failed.
"""

import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("random_graphs", "opinfo")
OPINFO_PARTS = 20  # of the op database, one a week
PATIENCE = 600  # seconds for what takes less than one: a busy machine is no failure


def known(part, file=HERE / "known.json"):
    """What is known to fail in a suite: name, in which * matches anything, -> reason."""
    return {name: entry["reason"] for entry in json.loads(file.read_text())[part] for name in entry["names"]}


def random_graphs(week, jobs, file):
    """[(name, what is wrong or None, command)] of the week's programs; those without a verdict have neither."""
    call("random_graphs.py", "--slice", f"{week % 52}/52", "--jobs", jobs, "--timeout", PATIENCE, "--json", file)
    rows = [row for row in map(json.loads, file.read_text().splitlines()) if "number" in row]
    for row in rows:
        if row["status"] in ("none", "pytorch"):
            continue
        problem = None if row["status"] == "ok" else "; ".join([row["status"], *(f"{k}: {v}" for k, v in row.get("problems", {}).items())])
        yield str(row["number"]), problem, f"cargo xtask suite random_graphs --only {row['number']}"


def opinfo(week, jobs, file):
    """Likewise of samples of the op database, on the CPU."""
    call("opinfo", "--device", "cpu", "--slice", f"{week % OPINFO_PARTS + 1}/{OPINFO_PARTS}", "--jobs", jobs, "--timeout", PATIENCE, "--json", file)
    for r in json.loads(file.read_text())["records"]:
        if "skipped" in r:
            continue
        problem = None if r["passed"] else r.get("error") or f"the process ended with {r.get('died')}"
        name = f"{r['name']} {r['dtype']} {r['mode']} {r['sample']}"
        yield name, problem, f"cargo xtask suite opinfo --only '{r['name']}' --dtype {r['dtype']} --mode {r['mode']}"


def call(script, *args):
    """Runs a suite; that something failed is in its file, but a suite that wrote none broke down."""
    done = subprocess.run([sys.executable, HERE / script, *map(str, args)])
    if not pathlib.Path(args[-1]).is_file() or done.returncode not in (0, 1):
        sys.exit(f"{script} broke down with exit status {done.returncode}")


def count(found, expected, write=print):
    """(passed, failed, skipped); says what failed, and what no longer does."""
    passed, failures, skipped = 0, {}, 0
    for name, problem, command in found:
        if problem is not None and any(fnmatch.fnmatchcase(name, n) for n in expected):
            skipped += 1
        elif problem is not None:
            failures.setdefault(command, []).append((name, problem))
        else:
            passed += 1
            if name in expected:
                write(f"passes: {name}, known to fail ({expected[name]}); take it out of tools/suites/known.json")
    for command, of in failures.items():
        for name, problem in of:
            # The command first: a summary repeats it up to the dash.
            write(f"FAILED {command} - {name}: {' '.join(problem.split())[:300]}")
    return passed, sum(map(len, failures.values())), skipped


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*")
    p.add_argument("--week", type=int, default=datetime.date.today().isocalendar().week)
    p.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = p.parse_args()
    for part in args.parts:
        if part not in PARTS:
            p.error(f"there is no part {part!r}; known: {', '.join(PARTS)}")
    started, sums = time.time(), [0, 0, 0]
    with tempfile.TemporaryDirectory(prefix="strata-slices-", ignore_cleanup_errors=True) as folder:
        # No run finds what an earlier one compiled.
        os.environ["STRATA_CACHE_DIR"] = os.path.join(folder, "cache")
        for part in args.parts or PARTS:
            print(f"week {args.week}: {part}", flush=True)
            found = globals()[part](args.week, args.jobs, pathlib.Path(folder) / f"{part}.json")
            sums = [a + b for a, b in zip(sums, count(found, known(part)))]
    passed, failed, skipped = sums
    print(f"{failed} failed, {passed} passed, {skipped} skipped in {time.time() - started:.1f}s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
