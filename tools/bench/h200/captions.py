"""Verdicts on the rows of captioning.py with CHECK=1: losses and gradients' norms of every step beside eager's with the same padding.

Twenty steps of Adam amplify a last bit: where a row of Inductor's is outside the tolerance, too, being nearer than it is enough.
"""

EAGER = {
    "static_compile": "static_eager", "static_optimizer": "static_eager", "static_reduce_overhead": "static_eager", "static_max_autotune": "static_eager",
    "dynamic_mark": "dynamic_eager", "modular": "dynamic_eager", "regional": "dynamic_eager", "dynamic_true": "dynamic_eager_1",
    "dynamic_8_static": "dynamic_eager_32",
    # Every fourth batch is padded to another length, which changes no loss.
    "dynamic_mark_64": "dynamic_eager",
}  # fmt: skip
TOLERANCE = {"losses": 1e-5, "norms": 1e-4}


def far(ours, theirs):
    return max(abs(a - b) / abs(b) if a == a else 9.9 for a, b in zip(ours, theirs, strict=True))


def verdicts(rows):
    """A row each of a backend's: how far it is from eager's at the worst step, and whether that is within the tolerance."""
    eager = {r["row"]: r for r in rows if r.get("backend") == "eager" and "losses" in r}
    theirs = {r["row"]: r for r in rows if r.get("backend") == "inductor" and "losses" in r}
    out = []
    for r in rows:
        if r.get("backend") == "eager":
            continue
        twin, other = eager.get(EAGER.get(r["row"])), theirs.get(r["row"])
        verdict = {k: r.get(k) for k in ("row", "backend", "first20_s", "graphs", "fallbacks", "kernels")}
        if "error" in r:
            verdict["verdict"] = r["error"]
        elif twin is None:
            verdict["verdict"] = "no eager row to compare with"
        else:
            distances = {k: far(r[k], twin[k]) for k in TOLERANCE}
            verdict |= {f"far_{k}": d for k, d in distances.items()}
            if all(distances[k] <= t for k, t in TOLERANCE.items()):
                verdict["verdict"] = "ok"
            elif other is not None and other is not r and all(distances[k] <= far(other[k], twin[k]) for k in TOLERANCE):
                verdict["verdict"] = "ok: nearer than Inductor"
            else:
                verdict["verdict"] = "outside the tolerance"
        out.append(verdict)
    return out


def line(v):
    figures = f"loss {v['far_losses']:.1e}, norm {v['far_norms']:.1e}" if "far_losses" in v else ""
    return f"{v['row']:24s} {v['backend']:9s} {figures}  {v['graphs']} graphs, {v['fallbacks']} fallbacks: {v['verdict']}"
