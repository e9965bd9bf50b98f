"""Random program 49528, reduced (eager): the slice that a pad begins with, of an operand that is empty, began outside of it."""

import torch
import torch.nn.functional as F

nan, inf = float("nan"), float("inf")
f32 = torch.float32


def program(a1):
    v0 = F.pad(a1, (1, -1, 2, 0), value=0)
    return (v0, )


def inputs():
    return [
        torch.tensor([], dtype=f32).as_strided((0, 1), (1, 1), 0),  # a1
    ]


GRAD, DYNAMIC = False, None
