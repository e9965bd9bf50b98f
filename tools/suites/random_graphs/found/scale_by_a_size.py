"""Random program 1277, reduced. It gave (eager): eager: a whole graph runs in PyTorch: an argument of type SymFloat

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

f32 = torch.float32


def program(a0):
    v0 = F.scaled_dot_product_attention(a0, a0.flip(-2), a0.tanh())
    return (v0, )


def inputs():
    return [
        torch.tensor([-1.902, -1.529], dtype=f32).as_strided((1, 1, 2), (2, 2, 1), 0),  # a0
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
