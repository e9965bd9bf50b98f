"""Random program 1138, reduced (wrong): results[0]: shares memory with argument None instead of 0"""

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
