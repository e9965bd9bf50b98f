"""What reduced programs are run by: those of `found/` through here, others hold a copy, so that they are scripts of their own.

usage   python rerun.py found/NAME.py"""

import runpy
import sys

import torch


def run(f, given, grad):
    """The results of a program, then gradients if they are wanted, then its arguments, to which it may have written."""
    results = f(*given)
    if grad:
        leaves = [a for a in given if a.requires_grad]
        roots = [r for r in results if r.requires_grad]
        results = [*results, *torch.autograd.grad(roots, leaves, [torch.ones_like(r) for r in roots], allow_unused=True)]
    return [*results, *given]


def show(program, inputs, grad, dynamic):
    """Prints the results of PyTorch and of Strata."""
    torch.manual_seed(0)
    compiled = torch.compile(program, backend="strata", fullgraph=True, dynamic=bool(dynamic) or None)
    for want, got in zip(run(program, inputs(), grad), run(compiled, inputs(), grad)):
        print("PyTorch", want, "\nStrata ", got)


if __name__ == "__main__":
    m = runpy.run_path(sys.argv[1])
    show(m["program"], m["inputs"], m["GRAD"], m["DYNAMIC"])
