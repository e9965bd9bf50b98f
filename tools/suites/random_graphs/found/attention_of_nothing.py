"""Random program 77000107, reduced (wrong): a row of attention without any score above minus infinity gives zeros, not NaN."""

import torch
import torch.nn.functional as F

inf = float("inf")


def program(a1):
    v0 = F.scaled_dot_product_attention(a1, a1.flip(-2), a1.tanh(), is_causal=True)
    return (v0, )


def inputs():
    return [torch.tensor([-1.341, -1.2, -inf, 1.566, -1.797, 1.831, 1.33, 0.255]).view(2, 2, 2, 1)]


GRAD, DYNAMIC = False, None
