"""Random program 12, reduced. It gave (wrong): results[0]: shares memory with argument 0 instead of None

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

b1 = torch.bool


def program(a0):
    v7 = a0.clone()
    return (v7, )


def inputs():
    return [
        torch.tensor([True], dtype=b1).as_strided((1, 1, 1), (1, 1, 1), 0),  # a0
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
