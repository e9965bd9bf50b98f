"""Random program 4132, reduced (eager): eager: a whole graph runs in PyTorch: error: output slice_2: [0, 1) is not inside dimension 2 of size 0 (C3)   next: to see it again: strata opt --run-reproducer /tmp/strata-0/reproducers/strata-bd5341d0d600.json"""

import torch
import torch.nn.functional as F

nan, inf = float("nan"), float("inf")
i64 = torch.int64


def program(v0):
    v1 = v0[:, 5:7:2, :-1:3]
    return (v1, )


def inputs():
    return [
        torch.tensor([1, -1, 0, 0, -1, -1, 1, -1, -1, 0, 0, -1, 0, 0, 0, 0, 1, 0, -1, 0, 0, -1, 0, -1], dtype=i64).as_strided((3, 8, 1), (8, 1, 0), 0),  # v0
    ]


GRAD, DYNAMIC = False, None
