"""Random program 138, reduced (eager): eager: a whole graph runs in PyTorch: error: offset 1 is out-of-bounds: 1 >= 1
note: see current operation: %1 = 'tensor.extract_slice'(%arg0) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 0, 1, 0>, static_sizes = array<i64: 1, 0, 1>, static_strides = array<i64: 1, 1, 1

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

f32 = torch.float32


def program(v1):
    v4 = F.pad(v1, (2, 0, -1, 2), value=2)
    v5 = v4.repeat_interleave(2, 0)
    return (v5, )


def inputs():
    return [
        torch.tensor([-0.332], dtype=f32).as_strided((1, 1, 1), (1, 1, 1), 0),  # v1
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
