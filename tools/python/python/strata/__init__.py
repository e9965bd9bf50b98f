"""Strata as a backend of torch.compile: ``torch.compile(model, backend="strata")``.

Options: ``numerics`` ("default", "strict"), ``fallback`` ("allow", "warn", "error"), ``dump_dir``, ``cache_dir``. What falls back, crashes or
is recompiled is an event: ``STRATA_LOGS=fallbacks,...`` prints them, ``events()`` and ``counters()`` return them; ``explain(f)(*args)``
says what becomes of a function. ``export(model, args, path=...)`` writes a model to a file, ``load(path)`` reads it.
``STRATA_CROSSCHECK=N`` compares the first N calls of every graph with PyTorch.
"""

from ._backend import backend
from ._crosscheck import WrongResult
from ._events import counters, events, reset_counters
from ._explain import Explanation, explain
from ._export import ExportError, Model, export, load
from ._options import FallbackError, FallbackWarning

__all__ = [
    "Explanation", "ExportError", "FallbackError", "FallbackWarning", "Model", "WrongResult", "backend", "counters", "events", "explain", "export", "load",
    "reset_counters",
]
