"""Random program 183, reduced. It gave (eager): eager: a whole graph runs in PyTorch: error: node as_strided_scatter (aten.as_strided_scatter.default): aten.as_strided_scatter.default reads the memory of an operand that is not contiguous"""

import torch
import torch.nn.functional as F

f32 = torch.float32
i64 = torch.int64


def program(a2, v0):
    v4 = F.embedding(a2, v0)
    v5 = torch.as_strided(v4, (2, 3), (1, 2))
    return (v5, )


def inputs():
    return [
        torch.tensor([0, 2, 1, 2, 0, 1], dtype=i64).as_strided((2, 3), (3, 1), 0),  # a2
        torch.tensor([-0.332, 0.881, -2.0], dtype=f32).as_strided((3, 1), (1, 1), 0).requires_grad_(),  # v0
    ]


GRAD, DYNAMIC = True, None
