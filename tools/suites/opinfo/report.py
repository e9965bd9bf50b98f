"""Totals, verdicts to compare with, and the page of all ops."""

import collections
import json
import os

import torch
from classes import COUNTED


def key(r):
    return f"{r['name']} {r['dtype']} {r['mode']} {r['sample']}"


def _file(device, folder):
    version = torch.__version__.split("+")[0]
    return os.path.join(folder, f"inductor-{version}-{torch.device(device).type}.json")


def verdicts(device, folder):
    """What Inductor passed, by sample: recorded once a version of PyTorch. Empty where nothing is recorded."""
    try:
        with open(_file(device, folder)) as f:
            recorded = json.load(f)
    except FileNotFoundError:
        return {}
    out = {}
    for task, letters in recorded["verdicts"].items():
        for i, letter in enumerate(letters):
            if letter != "-":
                out[f"{task} {i}"] = letter == "p"
    return out


def write_verdicts(path, records, args):
    """One letter a sample: p passed, f failed, d died, - not run. What the file says of other tasks stays."""
    tasks = collections.defaultdict(dict)
    lines = {}
    if os.path.exists(path):
        with open(path) as f:
            lines = json.load(f)["verdicts"]
    for r in records:
        letter = "-" if "skipped" in r else "d" if "died" in r else "p" if r["passed"] else "f"
        tasks[f"{r['name']} {r['dtype']} {r['mode']}"][r["sample"]] = letter
    lines.update({t: "".join(s.get(i, "-") for i in range(max(s) + 1)) for t, s in tasks.items()})
    with open(path, "w") as f:
        head = {"backend": args.backend, "device": args.device, "torch": torch.__version__}
        json.dump({**head, "verdicts": dict(sorted(lines.items()))}, f, indent=0, ensure_ascii=False)
        f.write("\n")


def native(r):
    """No fallback, and something of ours runs."""
    return bool(r.get("passed")) and r.get("fallbacks") == 0 and r.get("kernels", 0) > 0


def _share(a, b):
    return round(a / b, 4) if b else None


def totals(records, theirs, args):
    """The numbers that the bars are about."""
    ran = [r for r in records if "skipped" not in r]
    for r in ran:
        r["native"] = native(r)
        if key(r) in theirs:
            r["inductor"] = theirs[key(r)]
    compared = [r for r in ran if r.get("inductor")]
    work = [r for r in ran if r["mode"] != "error"]
    counted = [r for r in work if r["mode"] == "forward" and r["class"] in COUNTED]
    out = {
        "backend": args.backend,
        "device": args.device,
        "torch": torch.__version__,
        "slice": args.slice,
        "samples": len(ran),
        "skipped": len(records) - len(ran),
        "passed": sum(r["passed"] for r in ran),
        "failed": sum(not r["passed"] and "died" not in r for r in ran),
        "died": sum("died" in r for r in ran),
        "inductor_passed": len(compared),
        "both_passed": sum(r["passed"] for r in compared),
        "native": sum(r["native"] for r in work),
        "fallback": sum(bool(r.get("fallbacks")) for r in work),
    }
    out["both_share"] = _share(out["both_passed"], out["inductor_passed"])
    out["by_mode"] = {
        m: {
            "samples": len(of),
            "passed": sum(r["passed"] for r in of),
            "inductor_passed": sum(bool(r.get("inductor")) for r in of),
            "both_passed": sum(r["passed"] and bool(r.get("inductor")) for r in of),
        }
        for m in ("forward", "backward", "error")
        if (of := [r for r in ran if r["mode"] == m])
    }
    out["by_class"] = {
        c: {"samples": len(of), "native": sum(r["native"] for r in of), "share": _share(sum(r["native"] for r in of), len(of))}
        for c in (*COUNTED, "other")
        if (of := [r for r in work if r["mode"] == "forward" and r["class"] == c])
    }
    out["counted_samples"], out["counted_native"] = len(counted), sum(r["native"] for r in counted)
    out["native_share"] = _share(out["counted_native"], out["counted_samples"])
    return out


def print_totals(t, records):
    print(f"{t['backend']} on {t['device']}, torch {t['torch']}, slice {t['slice']}: {t['seconds']} s")
    print(f"  {t['samples']} samples: {t['passed']} passed, {t['failed']} failed, {t['died']} died; {t['skipped']} that PyTorch cannot run")
    if t["inductor_passed"]:
        print(f"  of {t['inductor_passed']} that Inductor passes, {t['both_passed']} pass ({t['both_share']:.1%})")
    for m, of in t["by_mode"].items():
        both = f", {of['both_passed']} of Inductor's {of['inductor_passed']}" if of["inductor_passed"] else ""
        print(f"  {m:9} {of['passed']} of {of['samples']}{both}")
    if t["backend"] == "strata":
        for c, of in t["by_class"].items():
            print(f"  {c:10} {of['native']} of {of['samples']} forward samples without fallback ({of['share']:.1%})")
        if t["native_share"] is not None:
            print(f"  the first five classes together: {t['native_share']:.1%}")
    failures = collections.Counter(f"{r['name']} {r['mode']}: {r.get('error') or 'died ' + str(r.get('died'))}" for r in records if r.get("passed") is False)
    for text, n in sorted(failures.items())[:60]:
        print(f"  FAILED {n}x {text}")
    if len(failures) > 60:
        print(f"  … and {len(failures) - 60} further kinds of failures: --json has all")


def _state(of):
    ran = [r for r in of if "skipped" not in r and r["mode"] != "error"]
    if not ran:
        return "not run", "; ".join(sorted({r["skipped"] for r in of if "skipped" in r}))[:160]
    bad = [r for r in of if r.get("passed") is False]
    if bad:
        r = bad[0]
        why = r.get("error") or f"the process died ({r['died']})"
        return "failing", f"{r['dtype']} {r['mode']} {r['sample']}: {why} ({len(bad)} of {len(of)})"
    if all(r["native"] for r in ran):
        return "native", ""
    reasons = sorted({x for r in ran for x in r.get("reasons", ())})
    if any(r.get("fallbacks") for r in ran):
        some = "partly native" if any(r["native"] for r in ran) else "fallback"
        return some, "; ".join(reasons)[:240]
    return ("partly native" if any(r["native"] for r in ran) else "nothing compiled"), "no tensor program is left to compile in some samples"


def write_status(path, records, t):
    """docs/status/opinfo.md."""
    ops = collections.defaultdict(list)
    for r in records:
        ops[r["name"]].append(r)
    states = {name: _state(of) for name, of in ops.items()}
    count = collections.Counter(s for s, _ in states.values())
    lines = [
        "# PyTorch's op database",
        "",
        f"Written by `cargo xtask suite opinfo --device {t['device']} --status FILE`: torch {t['torch'].split('+')[0]}, {t['samples']} samples.",
        "An op is *native* when no sample of it falls back to PyTorch; forward in all dtypes that it supports of f32, bf16, f16, i64, bool,",
        "backward in f32.",
        "",
        ", ".join(f"{n} {s}" for s, n in count.most_common()) + ".",
        "",
        "| op | class | state | reason |",
        "|---|---|---|---|",
    ]
    for name in sorted(ops):
        state, why = states[name]
        why = why.replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {name} | {ops[name][0]['class']} | {state} | {why} |")
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
