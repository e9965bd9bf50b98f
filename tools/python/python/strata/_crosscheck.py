"""``STRATA_CROSSCHECK=N``: the first N calls of every compiled graph are compared with PyTorch's own run of it."""

import os

import torch

from . import _cuts, reproduce


class WrongResult(RuntimeError):
    """A compiled graph gave something else than PyTorch; the message names a reproducer."""


def calls():
    """How many calls of a graph are compared; all where PyTorch's minifier looks for wrong numbers after AOTAutograd."""
    config = torch._dynamo.config
    if config.repro_after == "aot" and config.repro_level == 4:
        return float("inf")
    try:
        return int(os.environ.get("STRATA_CROSSCHECK") or 0)
    except ValueError:
        return 0


def checked(run, gm, options, location):
    """`run`, compared as often as is asked; graphs that draw random numbers are not."""
    left = calls()
    if left <= 0 or any(_cuts.random(n) for n in gm.graph.nodes):
        return run

    def compared(args):
        nonlocal left
        if left <= 0:
            return run(args)
        left -= 1
        given = list(args)
        with torch.no_grad():
            want = gm(*given)
        got = run(args)
        wrong = reproduce.difference(got, want)
        if wrong is not None:
            path = reproduce.write(gm, wrong, options, given)
            raise WrongResult(f"a compiled graph is wrong: {wrong}\n  where: {location}\n  next: python {path}")
        return got

    compared._boxed_call = True
    return compared
