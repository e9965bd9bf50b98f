"""Random program 4132, reduced (eager): eager: a whole graph runs in PyTorch: error: output slice_2: [0, 1) is not inside dimension 2 of size 0 (C3)   next: to see it again: strata opt --run-reproducer /tmp/strata-0/reproducers/strata-bd5341d0d600.json

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

nan, inf = float("nan"), float("inf")
i64 = torch.int64


def program(v0):
    v1 = v0[:, 5:7:2, :-1:3]
    return (v1, )


def inputs():
    return [
        torch.tensor([1, -1, 0, 0, -1, -1, 1, -1, -1, 0, 0, -1, 0, 0, 0, 0, 1, 0, -1, 0, 0, -1, 0, -1], dtype=i64).as_strided((3, 8, 1), (8, 1, 0), 0),  # v0
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
