"""Random program 5, reduced. It gave (wrong): results[0]: strides (8, 4, 1) instead of (5, 1, 1)

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

f32 = torch.float32


def program(v4):
    v5 = torch.cumsum(v4, 0)
    v6 = v5.unfold(1, 4, 1)
    return (v6, )


def inputs():
    return [
        torch.tensor([-0.332, 0.881, -2.0, -0.791, -1.413], dtype=f32).as_strided((1, 5), (5, 1), 0),  # v4
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
