"""Random program 49725, reduced (wrong): a result was a view of another that holds only a part of its memory.

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

nan, inf = float("nan"), float("inf")
f32 = torch.float32


def program(a2):
    v0 = (a2.tanh().abs() + 0.5) ** -1.5
    v2 = v0.unfold(1, 2, 1)
    v5 = torch.as_strided(v0, (2, 4), (1, 2))
    return (v2, v5, )


def inputs():
    return [
        torch.tensor([-0.707, 1.48, 0.107, -0.468, 0.048, 0.877, -0.04, -1.993, -0.737], dtype=f32).as_strided((3, 3), (3, 1), 0),  # a2
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
