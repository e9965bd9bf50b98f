"""Random program 110, reduced. It gave (error): error: RuntimeError: Unable to cast Python instance of type <class 'NoneType'> to C++ type '?'

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

f32 = torch.float32


def program(a0):
    v0 = torch.zeros_like(a0)
    v1 = v0.tanh() ** 2
    v2 = a0.tanh() ** 3
    v4 = F.pad(v2, (1, 1), mode='circular')
    return (v1, v2, v4, )


def inputs():
    return [
        torch.tensor([], dtype=f32).as_strided((1, 0, 1), (1, 1, 1), 0).requires_grad_(),  # a0
    ]


GRAD, DYNAMIC = True, None


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
