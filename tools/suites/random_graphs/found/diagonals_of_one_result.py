"""Random program 49848, reduced (wrong): a result was a view of another that holds only a part of its memory.

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

nan, inf = float("nan"), float("inf")
i64 = torch.int64


def program(v1):
    v2 = torch.clamp(v1, -1, 2)
    v4 = v2.diagonal(-1, 0, 1)
    v6 = v2.diagonal(1, 0, 1)
    return (v4, v6, )


def inputs():
    return [
        torch.tensor([1, 4, 1, -4, -4, -3], dtype=i64).as_strided((2, 3), (3, 1), 0),  # v1
    ]


GRAD, DYNAMIC = False, None


def run(f, given):
    results = f(*given)
    if GRAD:
        leaves = [a for a in given if a.requires_grad]
        roots = [r for r in results if r.requires_grad]
        results = [*results, *torch.autograd.grad(roots, leaves, [torch.ones_like(r) for r in roots], allow_unused=True)]
    return [*results, *given]


if __name__ == "__main__":
    torch.manual_seed(0)
    compiled = torch.compile(program, backend="strata", fullgraph=True)
    for want, got in zip(run(program, inputs()), run(compiled, inputs())):
        print("PyTorch", want, "\nStrata ", got)
