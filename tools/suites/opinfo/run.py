"""Hands tasks to worker processes, and restarts those that die."""

import fnmatch
import json
import os
import queue
import subprocess
import sys
import threading
import time

import samples
from classes import class_of

HERE = os.path.dirname(os.path.abspath(__file__))


def selected(args):
    """The tasks that the command line asks for."""
    names = samples.names()
    index, count = map(int, args.slice.split("/"))
    if not 1 <= index <= count:
        sys.exit(f"--slice {args.slice}: give i/n with 1 <= i <= n")
    modes = args.mode or samples.MODES
    out, known = [], set()
    if args.resume and args.record and os.path.exists(args.record):
        with open(args.record) as f:
            known = set(json.load(f)["verdicts"])
    for number, dtype, mode in samples.tasks(args.device, modes):
        if number % count != index - 1:
            continue
        if args.only and not any(fnmatch.fnmatchcase(names[number], p) for p in args.only):
            continue
        if args.kind and class_of(samples.op_db[number]) not in args.kind:
            continue
        if args.dtype and dtype not in args.dtype or f"{names[number]} {dtype} {mode}" in known:
            continue
        out.append(
            {
                "op": number,
                "name": names[number],
                "dtype": dtype,
                "mode": mode,
                "device": args.device,
                "from": 0,
                "together": args.together or args.backend != "strata",
            }
        )
    if not out:
        sys.exit("no op matches; names are those of torch.testing's op_db, as in `--only 'nn.functional.*'`")
    return out


class Worker(threading.Thread):
    """Feeds one process; a thread of its own."""

    def __init__(self, pool):
        super().__init__(daemon=True)
        self.pool, self.process, self.deadline = pool, None, None

    def start_process(self):
        a = self.pool.args
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "worker.py"), a.backend, a.numerics, str(self.pool.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("OPINFO_TRACE") else subprocess.DEVNULL,
            text=True,
        )

    def run(self):
        while time.time() < self.pool.until:
            try:
                t = self.pool.tasks.get_nowait()
            except queue.Empty:
                break
            self.do(dict(t))
        if self.process:
            self.process.stdin.close()
            self.process.wait()

    def do(self, t):
        while True:
            if self.process is None:
                self.start_process()
            at = group = None
            got, finished = [], False
            self.process.stdin.write(json.dumps(t) + "\n")
            self.process.stdin.flush()
            self.deadline = time.time() + self.pool.args.timeout + 60
            for line in self.process.stdout:
                said = json.loads(line)
                if "start" in said:
                    at, group = said["start"], said.get("group")
                    self.deadline = time.time() + self.pool.args.timeout * (4 if group else 1)
                elif "result" in said:
                    got.append(said["result"])
                    at = None
                else:
                    finished = True
                    break
            self.deadline = None
            self.pool.add(got)
            if finished:
                self.pool.progress()
                return
            code = self.process.wait()
            self.process = None
            if group:
                t["together"] = False
                continue
            at = 0 if at is None else at
            self.pool.add([{k: t[k] for k in ("name", "dtype", "mode")} | {"class": "other", "sample": at, "passed": False, "died": code}])
            t["from"] = at + 1


class Pool:
    def __init__(self, args):
        self.args, self.records, self.lock = args, [], threading.Lock()
        chosen = selected(args)
        self.tasks = queue.Queue()
        for t in chosen:
            self.tasks.put(t)
        self.total, self.done = len(chosen), 0
        cores = len(os.sched_getaffinity(0))
        self.jobs = min(args.jobs or cores, len(chosen))
        self.threads = 1
        self.shown = 0.0
        self.until = time.time() + args.limit

    def add(self, records):
        with self.lock:
            self.records += records

    def progress(self):
        with self.lock:
            self.done += 1
            if time.time() - self.shown < 2 and self.done < self.total:
                return
            self.shown = time.time()
            failed = sum(r.get("passed") is False for r in self.records)
            end = "\r" if sys.stderr.isatty() else "\n"
            if sys.stderr.isatty() or self.done % 100 < 2 or self.done == self.total:
                print(f"{self.done}/{self.total} tasks, {len(self.records)} samples, {failed} failed", end=end, file=sys.stderr)

    def run(self):
        workers = [Worker(self) for _ in range(self.jobs)]
        for w in workers:
            w.start()
        while any(w.is_alive() for w in workers):
            time.sleep(0.5)
            for w in workers:
                deadline, process = w.deadline, w.process
                if deadline and process and time.time() > deadline:
                    process.kill()
        self.records.sort(key=lambda r: (r["name"], r["dtype"], r["mode"], r["sample"]))
        return self.records


def run(args):
    """Runs everything that is asked for; a list of records."""
    return Pool(args).run()
