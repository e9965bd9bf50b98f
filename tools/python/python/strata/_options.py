"""What ``torch.compile(..., backend="strata", mode=..., options={...})`` takes."""

import difflib
import os
import warnings

from . import _events as events
from . import _records as records

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_CHOICES = {"numerics": ("default", "strict"), "fallback": ("allow", "warn", "error")}
_PATHS = ("dump_dir", "cache_dir")
OPTIONS = (*_CHOICES, *_PATHS)
_ADVICE = "results are right without a change; to have it compiled, write it with other ops"


class FallbackError(RuntimeError):
    """Something runs in PyTorch, and ``options={"fallback": "error"}`` says that nothing may."""


class FallbackWarning(UserWarning):
    """Something runs in PyTorch, and ``options={"fallback": "warn"}`` asks to be told."""


def _one_of(what, given, known):
    near = difflib.get_close_matches(str(given), known, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ValueError(f"backend 'strata' has no {what} {given!r}; {hint}known: {', '.join(known)}")


def parse(mode, options):
    """The options, checked."""
    if mode is not None and mode not in MODES:
        raise _one_of("mode", mode, MODES)
    out = {}
    for name, value in (options or {}).items():
        if name not in OPTIONS:
            raise _one_of("option", name, OPTIONS)
        if name in _CHOICES and value not in _CHOICES[name]:
            raise _one_of(f"{name}", value, _CHOICES[name])
        if name in _PATHS:
            try:
                value = os.path.abspath(os.path.expanduser(os.fspath(value)))
            except TypeError:
                raise ValueError(f"option {name} of backend 'strata' is a folder's path, not {value!r}") from None
        out[name] = value
    return out


def fallback(options, op, reason, location, next_step="", event=True):
    """Something runs in PyTorch: an event, a record, and what the option says."""
    records.note(record="fallback", op=op, reason=reason, location=location)
    if event:
        events.emit("fallbacks", f"{op}: {reason}", location, next_step)
    how = options.get("fallback", "allow")
    if how == "allow":
        return
    text = f"{op}: {reason}\n  where: {location or 'unknown'}\n  next: {next_step or _ADVICE}"
    if how == "error":
        raise FallbackError(f'{text}; or compile with options={{"fallback": "warn"}}')
    warnings.warn(text, FallbackWarning, stacklevel=2)
