"""Arithmetic: extremes that leave out NaN, sums of products, distances."""

import math

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten


def _of_nothing(*tensors):
    return any(statically_known_true(t.numel() == 0) for t in tensors)


def _extreme_number(compare, strictly):
    """Of zeros of both signs PyTorch takes the first, in bfloat16 the second."""

    def extreme(a, b):
        common = torch.result_type(a, b)
        a, b = a.to(common), b.to(common)
        if not common.is_floating_point:
            return (torch.maximum if compare is torch.ge else torch.minimum)(a, b)
        above = strictly(a, b) if common is torch.bfloat16 else compare(a, b)
        return torch.where(above | b.isnan(), a, b)

    return extreme


def _addbmm(x, batch1, batch2, *, beta=1, alpha=1):
    """The sum of the batch's products is one product over a longer dimension."""
    if _of_nothing(batch1):
        return NotImplemented
    n, rows, inner = batch1.shape
    left = batch1.transpose(0, 1).reshape(rows, n * inner)
    return torch.addmm(x, left, batch2.reshape(n * inner, batch2.shape[2]), beta=beta, alpha=alpha)


def _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over some dimensions of a product of three tensors, each of which lacks some dimensions."""
    rank = i1.dim() + len(expand1)
    labels = [[d for d in range(rank) if d not in expand] for expand in (expand1, expand2, expand3)]
    kept = [d for d in range(rank) if d not in sumdim]
    between = [d for d in range(rank) if d in labels[0] + labels[1] and (d in labels[2] or d in kept)]
    product = torch.einsum(i1, labels[0], i2, labels[1], between)
    return torch.einsum(product, between, i3, labels[2], kept).contiguous()


# -- distances --


def _norm(difference, p):
    size = difference.abs()
    if p == 0:
        return (difference != 0).to(difference.dtype).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return (difference * difference).sum(-1).sqrt()
    if math.isinf(p):
        return size.amax(-1)
    return size.pow(p).sum(-1).pow(1 / p)


def _slope(difference, distance, p):
    """The derivative of a distance by the difference; zero where there is no distance."""
    if p == 1:
        return difference.sign()
    if math.isinf(p):
        return torch.where(difference.abs() == distance, difference.sign(), 0)
    if p == 2:
        slope = difference / distance
    elif p < 2:
        slope = difference.sign() * difference.abs().pow(p - 1) / distance.pow(p - 1)
        if p < 1:
            slope = torch.where(difference == 0, 0, slope)
    else:
        slope = difference * difference.abs().pow(p - 2) / distance.pow(p - 1)
    return torch.where(distance == 0, 0, slope)


def _cdist_forward(x1, x2, p, compute_mode):
    rows = x1.shape[-2], x2.shape[-2]
    if _of_nothing(x1, x2):
        return x1.new_zeros((*torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), *rows))
    many = all(isinstance(r, int) for r in rows) and max(rows) > 25
    if p == 2 and (compute_mode == 1 or (compute_mode in (0, None) and many)):
        return aten._euclidean_dist(x1, x2)
    return _norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p).contiguous()


def _cdist_backward(grad, x1, x2, p, cdist):
    if p == 0 or _of_nothing(grad, x1, x2):
        return x1.new_zeros((*torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), *x1.shape[-2:]))
    slope = _slope(x1.unsqueeze(-2) - x2.unsqueeze(-3), cdist.unsqueeze(-1), p)
    return (grad.unsqueeze(-1) * slope).sum(-2)


def _pairs(x):
    """The rows of each pair i < j, in the order of i, then j."""
    n = x.shape[0]
    first, second = torch.triu_indices(n, n, 1, device=x.device).unbind(0)
    return x.index_select(0, first) - x.index_select(0, second)


def _pdist_forward(x, p=2):
    n = x.shape[0]
    if not isinstance(n, int):
        return NotImplemented
    if n < 2 or _of_nothing(x):
        return x.new_zeros(n * (n - 1) // 2)
    return _norm(_pairs(x), p)


def _pdist_backward(grad, x, p, pdist):
    n = x.shape[0]
    if not isinstance(n, int):
        return NotImplemented
    if p == 0 or n < 2 or _of_nothing(x):
        return x.new_zeros(x.shape)
    i = torch.arange(n, device=x.device)
    low, high = torch.minimum(i[:, None], i), torch.maximum(i[:, None], i)
    pair = (low * n - low * (low + 1) // 2 + high - low - 1).clamp(0, pdist.shape[0] - 1)
    distance, weight = pdist[pair], torch.where(low == high, 0, grad[pair])
    slope = _slope(x.unsqueeze(1) - x.unsqueeze(0), distance.unsqueeze(-1), p)
    return (weight.unsqueeze(-1) * slope).sum(1)


def _efficientzerotensor(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return torch.zeros(size, dtype=dtype, device=device)


TABLE = {
    aten.fmax.default: _extreme_number(torch.ge, torch.gt),
    aten.fmin.default: _extreme_number(torch.le, torch.lt),
    aten.addbmm.default: _addbmm,
    aten._trilinear.default: _trilinear,
    aten._cdist_forward.default: _cdist_forward,
    aten._cdist_backward.default: _cdist_backward,
    aten._pdist_forward.default: _pdist_forward,
    aten._pdist_backward.default: _pdist_backward,
    aten._efficientzerotensor.default: _efficientzerotensor,
}
