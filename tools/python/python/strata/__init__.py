"""Strata as a backend of torch.compile: ``torch.compile(model, backend="strata")``.

Options: ``numerics`` ("default", "strict"), ``fallback`` ("allow", "warn", "error"), ``dump_dir``. What falls back, crashes or is
recompiled is an event: ``STRATA_LOGS=fallbacks,...`` prints them, ``events()`` and ``counters()`` return them.
"""

from ._backend import backend
from ._events import counters, events, reset_counters

__all__ = ["backend", "counters", "events", "reset_counters"]
