"""Random program 49199, reduced (wrong): a part of an argument, at a place that depends on its size, was the first part.

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

nan, inf = float("nan"), float("inf")
i64 = torch.int64


def program(a0):
    v2 = torch.tensor_split(a0, 3, 0)[1]
    return (v2, )


def inputs():
    return [
        torch.tensor([2, -4], dtype=i64).as_strided((2, 1), (1, 1), 0),  # a0
    ]


GRAD, DYNAMIC = False, [7, 11]


def run(f, given):
    results = f(*given)
    if GRAD:
        leaves = [a for a in given if a.requires_grad]
        roots = [r for r in results if r.requires_grad]
        results = [*results, *torch.autograd.grad(roots, leaves, [torch.ones_like(r) for r in roots], allow_unused=True)]
    return [*results, *given]


if __name__ == "__main__":
    torch.manual_seed(0)
    compiled = torch.compile(program, backend="strata", fullgraph=True, dynamic=True)
    for want, got in zip(run(program, inputs()), run(compiled, inputs())):
        print("PyTorch", want, "\nStrata ", got)
