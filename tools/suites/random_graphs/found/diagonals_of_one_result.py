"""Random program 49848, reduced (wrong): a result was a view of another that holds only a part of its memory."""

import torch
import torch.nn.functional as F

nan, inf = float("nan"), float("inf")
i64 = torch.int64


def program(v1):
    v2 = torch.clamp(v1, -1, 2)
    v4 = v2.diagonal(-1, 0, 1)
    v6 = v2.diagonal(1, 0, 1)
    return (v4, v6, )


def inputs():
    return [
        torch.tensor([1, 4, 1, -4, -4, -3], dtype=i64).as_strided((2, 3), (3, 1), 0),  # v1
    ]


GRAD, DYNAMIC = False, None
