"""Jobs in child processes: one that dies or hangs is a result, not the end.

A worker is this file run with `MODULE:FUNCTION`; it answers a line of JSON with a line of JSON. What else it prints goes to standard error.
"""

import importlib
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))


class Worker:
    """One child at a time, started when there is work and again after `most` jobs: what a process gathers is let go."""

    def __init__(self, function, timeout_s, most=250, python=sys.executable):
        self.function, self.timeout_s, self.most, self.python = function, timeout_s, most, python
        self.child, self.done = None, 0

    def start(self):
        self.child = subprocess.Popen(
            [self.python, os.path.abspath(__file__), self.function],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.done = 0

    def ask(self, job):
        """The answer; {"status": "died" or "hung"} where none came."""
        if self.child is None or self.done >= self.most:
            self.stop()
            self.start()
        self.done += 1
        try:
            self.child.stdin.write(json.dumps(job).encode() + b"\n")
            self.child.stdin.flush()
            line = self.line()
        except (BrokenPipeError, TimeoutError) as e:
            hung = isinstance(e, TimeoutError)
            self.stop(kill=hung)
            return {"status": "hung", "problems": {"hung": f"no answer within {self.timeout_s} s"}} if hung else self.died()
        return json.loads(line) if line else self.died()

    def line(self):
        waiting, text = selectors.DefaultSelector(), b""
        waiting.register(self.child.stdout, selectors.EVENT_READ)
        while not text.endswith(b"\n"):
            if not waiting.select(self.timeout_s):
                raise TimeoutError
            part = os.read(self.child.stdout.fileno(), 1 << 16)
            if not part:
                return b""
            text += part
        return text

    def died(self):
        status = self.child.wait()
        self.child = None
        try:
            name = signal.Signals(-status).name if status < 0 else f"status {status}"
        except ValueError:
            name = f"status {status}"
        return {"status": "died", "problems": {"died": f"the process ended with {name}"}}

    def stop(self, kill=False):
        if self.child is None:
            return
        if kill:
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()
        self.child = None


def over(function, jobs, count, timeout_s, most=250):
    """Yields (job, answer) of each job as they come, by `count` workers."""
    waiting, answers = queue.SimpleQueue(), queue.SimpleQueue()
    jobs = list(jobs)
    for job in jobs:
        waiting.put(job)

    def work():
        worker = Worker(function, timeout_s, most)
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                worker.stop()
                return
            answers.put((job, worker.ask(job)))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(count, len(jobs)))]
    for t in threads:
        t.start()
    for _ in jobs:
        yield answers.get()
    for t in threads:
        t.join()


def serve(function):
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        answers.write(json.dumps(function(json.loads(line))).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    module, name = sys.argv[1].split(":")
    sys.path[:0] = [HERE, os.path.join(HERE, "random_graphs"), os.path.join(HERE, "..", "bench")]
    serve(getattr(importlib.import_module(module), name))
