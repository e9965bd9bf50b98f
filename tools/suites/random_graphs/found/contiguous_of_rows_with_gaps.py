"""Random program 4198, reduced. It gave (wrong): results[0]: strides (2, 1) instead of (1, 1)

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

nan, inf = float("nan"), float("inf")
f32 = torch.float32


def program(a1):
    v2 = a1.contiguous()
    return (v2, )


def inputs():
    return [
        torch.tensor([1.331, 1.482, 1.296], dtype=f32).as_strided((2, 1), (2, 1), 0),  # a1
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
