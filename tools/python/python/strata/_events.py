"""Counters and events of this process."""

import threading

from . import strata_native as native

_lock = threading.Lock()
_counts = {}
_NAMES = ("compiles", "eager_graphs", "kernels", "library_calls", "copies", "calls")


def count(name, n=1):
    with _lock:
        _counts[name] = _counts.get(name, 0) + n


def counters():
    """What was compiled and what fell back since the last reset.

    ``compiles``: graphs compiled; ``eager_graphs``: graphs that run in PyTorch, op by op; ``kernels``, ``library_calls``, ``copies``,
    ``fallbacks``: own kernels, products and convolutions, layout copies, and ops run by PyTorch, in one run of each graph compiled;
    ``calls``: runs of compiled graphs; ``cache_hits``: graphs that had been compiled before, perhaps by another process. Further kinds of events are there by name where there were any.
    """
    with _lock:
        out = {name: _counts.get(name, 0) for name in _NAMES}
    out["fallbacks"] = 0
    out.update(native.counters())
    return out


def reset_counters():
    """Sets all counters to 0 and forgets the events."""
    with _lock:
        _counts.clear()
    native.reset_events()


def events():
    """The events since the last reset, as dictionaries: kind, reason, location, cost, next_step."""
    return native.events()


def emit(kind, reason, location="", next_step=""):
    native.emit(kind, reason, location, next_step)
