"""What a compilation was like, for `explain` and for folders of dumps."""

import os
import re

_sinks = []
_LOC = re.compile(r'loc\("((?:[^"\\]|\\.)*?)(?::0)?"\)')
_KERNEL = re.compile(r'^  kernel (\w+) = @(\w+) .*?"([^"]*)"', re.M)
_STEP = re.compile(r"^  (launch|product|convolution|copy|host) (.*)$", re.M)


def collect(sink):
    """Has a list receive all records from now on; returns the function that ends it."""
    _sinks.append(sink)
    return lambda: _sinks.remove(sink)


def wanted():
    return bool(_sinks)


def mark():
    """Where the records stand, for `forget`."""
    return [(sink, len(sink)) for sink in _sinks]


def forget(marks):
    """Drops the records since then: what they tell of is done again in another way."""
    for sink, n in marks:
        del sink[n:]


def note(**record):
    for sink in list(_sinks):
        sink.append(record)


def host_calls(plan):
    """Ops without lowering that PyTorch runs within a compiled graph: name, reason, location. Its libraries' have no reason."""
    out = []
    for kind, rest in _STEP.findall(plan):
        if kind == "host":
            name = rest.split("(", 1)[0].removeprefix("@")
            reason = re.search(r'reason "((?:[^"\\]|\\.)*)"', rest)
            if reason and reason[1]:
                out.append((name, reason[1], _location(rest)))
    return out


def steps(plan):
    """The launches and library calls of a plan, in order, with the user's lines."""
    ops = {name: summary.split(",") for name, _, summary in _KERNEL.findall(plan)}
    out = []
    for kind, rest in _STEP.findall(plan):
        if kind == "launch":
            kernel = rest.split("(", 1)[0]
            out.append({"kind": "kernel", "name": kernel, "ops": ops.get(kernel, []), "location": _location(rest)})
        elif kind == "host" and 'reason ""' in rest:
            name = rest.split("(", 1)[0].removeprefix("@")
            out.append({"kind": "library", "name": name, "ops": [name], "location": _location(rest)})
        elif kind in ("product", "convolution"):
            out.append({"kind": "library", "name": kind, "ops": [kind], "location": _location(rest)})
        elif kind == "copy":
            out.append({"kind": "copy", "name": "copy", "ops": [], "location": _location(rest)})
    return out


def _location(text):
    found = _LOC.search(text)
    return found[1] if found else ""


def dump(options, name, **files):
    """Writes texts of a graph into its folder under ``dump_dir``, and has the compiler write its levels there."""
    folder = os.path.join(options["dump_dir"], name)
    os.makedirs(folder, exist_ok=True)
    for file, text in files.items():
        with open(os.path.join(folder, file.replace("__", ".")), "w") as f:
            f.write(text)
    return folder
