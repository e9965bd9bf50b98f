"""Random program 1138, reduced (wrong): results[0]: shares memory with argument None instead of 0

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

f32 = torch.float32


def program(a1):
    v7 = a1.unbind(0)[5]
    return (v7, )


def inputs():
    return [
        torch.tensor([-1.411, 1.111, 0.501, -0.721, 0.632, 0.339], dtype=f32).as_strided((6, 1), (1, 1), 0).requires_grad_(),  # a1
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
