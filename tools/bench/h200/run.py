"""All that has to be shown on a machine with an H200, in two stages of under nine minutes each.

usage   python run.py correctness|measure
        --wheels FOLDER        wheels to unpack: ours, and those that this Python lacks. Without it: what is installed
        --strata FILE          the compiler: a program, or one packed as .xz. Default: on PATH, or STRATA_SERVER
        --captioning FOLDER    a folder with captioning.py and its models.py; without it those steps are left out
        --out FOLDER           gets results.jsonl (a line a row, as it comes), log.txt and summary.txt; default: h200-out
        --budget S             seconds for the stage; default 530
        --patience N           a step is ended at N times its seconds; default 2
        --jobs J               steps at once in `correctness`, shared out among the GPUs; default: a third of the processors. `measure` runs one at a time
        --only STEP,…          steps by name, * matches anything; --list shows them with their seconds, in order of importance
        --device cpu --small   a dry run: that everything runs; the figures say nothing

A step is a process. It starts if the budget leaves it half of its seconds, and is ended late or when the budget is over;
what was not run or cut off is named in the summary, with why. Needs Python 3.11 or newer and torch 2.11, no network.
The exit status is 1 where a step failed.
"""

import argparse
import fnmatch
import json
import lzma
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from importlib import metadata

import captions
import steps

TAIL = 6000  # characters of a step's output that are kept


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("stage", choices=steps.STAGES)
    p.add_argument("--wheels", type=pathlib.Path)
    p.add_argument("--strata", type=pathlib.Path)
    p.add_argument("--captioning", type=pathlib.Path)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("h200-out"))
    p.add_argument("--budget", type=float, default=530)
    p.add_argument("--patience", type=float, default=2)
    p.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) // 3))
    p.add_argument("--only", default="*")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--small", action="store_true")
    p.add_argument("--list", action="store_true")
    args = p.parse_args()
    for given in (args.wheels, args.strata, args.captioning):
        if given is not None and not given.exists():
            p.error(f"there is no {given}")
    if args.strata and args.strata.suffix == ".zst":
        p.error(f"unpack {args.strata} first: Python has no zstd")
    return args


def unpacked(wheels, into):
    """A folder for PYTHONPATH: our wheel, and those whose package this Python lacks."""
    for wheel in sorted(wheels.glob("*.whl")):
        name = wheel.name.split("-")[0]
        try:
            metadata.version(name)
            ours = name.startswith("strata")
        except metadata.PackageNotFoundError:
            ours = True
        if ours:
            with zipfile.ZipFile(wheel) as z:
                z.extractall(into)
    return into


def program(file, into):
    """The compiler as a program named `strata`, on PATH."""
    into.mkdir()
    to = into / "strata"
    with lzma.open(file) if file.suffix == ".xz" else open(file, "rb") as given, open(to, "wb") as f:
        shutil.copyfileobj(given, f)
    to.chmod(0o755)
    return to


def environment(args, top):
    env = dict(os.environ, CUDA_CACHE_DISABLE="1", PYTHONUNBUFFERED="1", TMPDIR=str(top))
    paths = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
    if args.wheels:
        paths.insert(0, str(unpacked(args.wheels, top / "site")))
    if args.strata:
        strata = program(args.strata, top / "bin")
        env |= {"STRATA_SERVER": str(strata), "STRATA_BIN": str(strata), "PATH": f"{strata.parent}{os.pathsep}{env['PATH']}"}
    env["PYTHONPATH"] = os.pathsep.join(paths)
    return env


def gpus():
    """The GPUs' numbers, as CUDA_VISIBLE_DEVICES takes them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return given.split(",") if given else [str(i) for i in range(len(list(pathlib.Path("/proc/driver/nvidia/gpus").glob("*"))) or 1)]


class Run:
    """Runs steps within the budget and writes down what comes."""

    def __init__(self, args, top):
        self.args, self.top, self.env = args, top, environment(args, top)
        self.end, self.lock, self.done, self.rows, self.children = time.time() + args.budget, threading.Lock(), [], [], set()
        self.gpus = gpus() if args.device == "cuda" else []
        args.out.mkdir(parents=True, exist_ok=True)
        self.results, self.log = (open(args.out / name, "a") for name in ("results.jsonl", "log.txt"))

    def write(self, row):
        with self.lock:
            print(json.dumps(row), file=self.results, flush=True)

    def finished(self, step, status, began, reason="", output=""):
        row = {"stage": self.args.stage, "step": step.name, "status": status, "seconds": round(time.time() - began, 1), "reason": reason}
        self.write(row)
        with self.lock:
            self.done.append(row)
            print(f"=== {step.name}: {status} in {row['seconds']} s  {reason}\n{output[-TAIL:]}", file=self.log, flush=True)
            print(f"{status:10s} {step.name:34s} {row['seconds']:7.1f} s  {reason[:120]}", flush=True)

    def one(self, step, worker):
        began, left = time.time(), self.end - time.time()
        if step.missing:
            return self.finished(step, "skipped", began, step.missing)
        if left < step.seconds / 2:
            return self.finished(step, "not run", began, f"{left:.0f} s of the budget were left, it takes about {step.seconds}")
        limit = min(left, self.args.patience * step.seconds)
        folder = self.top / re.sub(r"\W", "_", step.name)
        folder.mkdir()
        env = self.env | {f: str(folder / f.lower()) for f in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "STRATA_CACHE_DIR")} | step.env
        if self.gpus and not step.all_gpus:
            env["CUDA_VISIBLE_DEVICES"] = self.gpus[worker % len(self.gpus)]
        rows, text = folder / "rows.json", folder / "output.txt"
        with open(text, "wb") as out:
            told = {steps.ROWS: rows, steps.LIMIT: max(5, int(limit) - 20)}
            command = [sys.executable, *(str(told.get(a, a)) for a in step.command)]
            # A group of its own, so that what it starts ends with it.
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True)
            self.children.add(child)
            try:
                code = child.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            end(child)
            self.children.remove(child)
        output = text.read_text(errors="replace")
        for row in found(rows, output, step):
            self.rows.append((step, row))
            self.write({"stage": self.args.stage, "step": step.name, **row})
        if code is None:
            return self.finished(step, "cut off", began, f"after {limit:.0f} s", output)
        reason = "" if code == 0 else f"exit status {code}: " + (output.strip().splitlines() or [""])[-1]
        self.finished(step, "passed" if code == 0 else "failed", began, reason, output)

    def all(self, todo):
        waiting = queue.SimpleQueue()
        for step in todo:
            waiting.put(step)

        def work(worker):
            while True:
                try:
                    step = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    self.one(step, worker)
                except Exception as e:
                    self.finished(step, "failed", time.time(), f"{type(e).__name__}: {e}")

        threads = [threading.Thread(target=work, args=(i,)) for i in range(self.args.jobs if self.args.stage == "correctness" else 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


    def stopped(self, number, _):
        """Whoever ends this process ends the steps, too; what they have found is written down."""
        for child in list(self.children):
            end(child)
        self.write({"stage": self.args.stage, "status": f"ended by signal {number}"})
        os._exit(1)


def descendants(pid):
    """A process and all that it started, also in groups of their own."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold spaces.
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    out = [pid]
    for p in out:
        out += [c for c, parent in parents.items() if parent == p]
    return out


def end(child):
    """Ends a step and what it has left running."""
    for pid in descendants(child.pid) if child.poll() is None else ():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def found(file, output, step):
    """The rows of a step: from its file, or what it printed last."""
    if file.is_file():
        text = file.read_text().strip()
        try:
            row = json.loads(text)
            if "records" in row:
                # Of thousands of samples those that failed.
                row["failures"] = [r for r in row.pop("records") if r.get("passed") is False]
            return [row]
        except ValueError:
            return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    last = (output.strip().splitlines() or [""])[-1]
    return [json.loads(last)] if step.prints and last.startswith("{") else []


def summary(run, args):
    lines = [f"{args.stage} on {args.device}{', small' if args.small else ''}"]
    lines += [f"{r['status']:10s} {r['step']:34s} {r['seconds']:7.1f} s  {r['reason']}" for r in run.done]
    verdicts = captions.verdicts([row for step, row in run.rows if step.name.startswith("captioning ")])
    for row in verdicts:
        run.write({"stage": args.stage, "step": "captioning verdicts", **row})
        lines.append(captions.line(row))
    bad = [r["step"] for r in run.done if r["status"] == "failed"] + [f"captioning {r['row']}" for r in verdicts if r["backend"] != "inductor" and not r["verdict"].startswith("ok")]
    left = [r["step"] for r in run.done if r["status"] in ("not run", "cut off")]
    counted = ", ".join(f"{sum(r['status'] == s for r in run.done)} {s}" for s in ("passed", "failed", "skipped", "not run", "cut off"))
    lines += [counted] + ([f"failed: {', '.join(bad)}"] if bad else []) + ([f"without a result: {', '.join(left)}"] if left else [])
    (args.out / "summary.txt").write_text("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines[len(run.done) + 1 :]))
    return int(bool(bad))


def main():
    args = arguments()
    todo = [s for s in steps.of(args) if any(fnmatch.fnmatchcase(s.name, p) for p in args.only.split(","))]
    if args.list:
        for s in todo:
            print(f"{s.name:34s} {s.seconds:5d} s  {s.missing or ''}")
        return 0
    with tempfile.TemporaryDirectory(prefix="strata-h200-", ignore_cleanup_errors=True) as top:
        run = Run(args, pathlib.Path(top))
        signal.signal(signal.SIGTERM, run.stopped)
        run.all(todo)
        return summary(run, args)


if __name__ == "__main__":
    sys.exit(main())
