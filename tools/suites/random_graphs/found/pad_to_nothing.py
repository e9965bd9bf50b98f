"""Random program 138, reduced (eager): eager: a whole graph runs in PyTorch: error: offset 1 is out-of-bounds: 1 >= 1
note: see current operation: %1 = 'tensor.extract_slice'(%arg0) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 0, 1, 0>, static_sizes = array<i64: 1, 0, 1>, static_strides = array<i64: 1, 1, 1"""

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
