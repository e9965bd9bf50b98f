"""Embedding bags and their gradients: rows that are picked, combined where their bag is."""

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ._decompose_pooling import wide

aten = torch.ops.aten

_SUM, _MEAN, _MAX = range(3)


def _bag_of(offsets, n):
    """For each of `n` rows the bag that it is in: how many bags start up to it, less one."""
    starts = torch.zeros(n + 1, dtype=offsets.dtype, device=offsets.device)
    starts = starts.scatter_add(0, offsets.long(), torch.ones_like(offsets))
    return starts.cumsum(0, dtype=offsets.dtype).narrow(0, 0, n) - 1


def _largest(rows, indices, bag, bags, counts):
    """The largest element of each bag and column, as PyTorch compares: a NaN counts where it comes first. And the index of its row."""
    n, width = rows.shape
    place = torch.arange(n, device=rows.device)
    nowhere = torch.full((bags,), n, device=rows.device)
    first = nowhere.scatter_reduce(0, bag, torch.where(counts, place, n), "amin")
    is_first = (place == first[bag])[:, None]
    kept = counts[:, None] & (is_first | ~rows.isnan())
    to = bag[:, None].expand(n, width)
    lowest = torch.full((bags, width), -float("inf"), dtype=rows.dtype, device=rows.device)
    top = lowest.scatter_reduce(0, to, torch.where(kept, rows, -float("inf")), "amax")
    hit = kept & ((rows == top[bag]) | (is_first & rows.isnan()))
    at = torch.full((bags, width), n, device=rows.device).scatter_reduce(0, to, torch.where(hit, place[:, None], n), "amin")
    some = (first < n)[:, None]
    return torch.where(some, top, 0), torch.where(at < n, indices[at.clamp(max=n - 1)].long(), 0)


def _embedding_bag(op):
    def forward(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=-1):
        n, width = indices.shape[0], weight.shape[1]
        if statically_known_true(n == 0) or statically_known_true(weight.shape[0] == 0):
            return NotImplemented
        bags = offsets.shape[0] - int(include_last_offset)
        bag = _bag_of(offsets.narrow(0, 0, bags), n)
        counts = indices != padding_idx
        size = torch.zeros(bags, dtype=offsets.dtype, device=offsets.device).scatter_add(0, bag.long(), counts.to(offsets.dtype))
        rows = wide(weight.index_select(0, indices))
        largest = None
        if mode == _MAX:
            out, largest = _largest(rows, indices, bag.long(), bags, counts)
        else:
            if per_sample_weights is not None:
                rows = rows * wide(per_sample_weights)[:, None]
            rows = torch.where(counts[:, None], rows, 0)
            out = torch.zeros((bags, width), dtype=rows.dtype, device=rows.device).index_add(0, bag.long(), rows)
            if mode == _MEAN:
                out = out / size.clamp(min=1)[:, None]
        return out.to(weight.dtype), *_statistics(op, weight, indices, offsets, bag, size, largest, mode, per_sample_weights, padding_idx, bags)

    return forward


def _statistics(op, weight, indices, offsets, bag, size, largest, mode, scale, padding_idx, bags):
    """What PyTorch returns besides: the bag of each row, the bags' sizes, the rows that were largest. Its kernels leave some empty or zero."""
    if mode == _MAX:
        return bag, size, largest.to(offsets.dtype)
    if weight.device.type != "cpu":
        return bag, size, torch.empty(0, dtype=indices.dtype, device=indices.device)
    if mode == _MEAN:
        return bag, size, size
    plain = weight.dtype in (torch.float32, torch.float16, torch.bfloat16) and weight.stride(1) == 1 and padding_idx < 0
    fast = plain and (scale is None or scale.stride(0) == 1)
    with_last = offsets.shape[0] if op is aten._embedding_bag_forward_only.default else bags
    none = torch.zeros(with_last, dtype=offsets.dtype, device=offsets.device)
    if fast:
        bag = torch.empty(0, dtype=offsets.dtype, device=offsets.device)
    return bag, none, none


def _dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx=-1):
    if scale_grad_by_freq:
        return NotImplemented  # PyTorch's kernel takes the counts of other rows
    width = grad.shape[1]
    start = torch.zeros((num_weights, width), dtype=wide(grad).dtype, device=grad.device)
    if statically_known_true(indices.numel() == 0):
        return start.to(grad.dtype)
    if mode == _MAX:
        some = (bag_size > 0)[:, None]
        return start.scatter_add(0, maximum_indices.long(), torch.where(some, wide(grad), 0)).to(grad.dtype)
    bag = offset2bag.long()
    rows = wide(grad).index_select(0, bag)
    if mode == _MEAN:
        rows = rows / bag_size.clamp(min=1).index_select(0, bag)[:, None]
    elif per_sample_weights is not None:
        rows = rows * wide(per_sample_weights)[:, None]
    rows = torch.where((indices != padding_idx)[:, None], rows, 0)
    return start.index_add(0, indices, rows).to(grad.dtype)


def _known_bags(offset2bag, offsets, indices):
    """The bag of each row, also where the forward op did not say."""
    if statically_known_true(offset2bag.numel() == 0):
        return _bag_of(offsets, indices.shape[0])
    return offset2bag


def _backward(
    grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx=-1
):
    if sparse or scale_grad_by_freq:
        return NotImplemented
    bag = _known_bags(offset2bag, offsets, indices)
    return _dense_backward(grad, indices, bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx)


def _weights_backward(grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
    bag = _known_bags(offset2bag, offsets, indices).long()
    products = wide(grad).index_select(0, bag) * wide(weight).index_select(0, indices)
    return torch.where(indices != padding_idx, products.sum(1), 0).to(grad.dtype)


TABLE = {
    aten._embedding_bag.default: _embedding_bag(aten._embedding_bag.default),
    aten._embedding_bag_forward_only.default: _embedding_bag(aten._embedding_bag_forward_only.default),
    aten._embedding_bag_backward.default: _backward,
    aten._embedding_bag_dense_backward.default: _dense_backward,
    aten._embedding_bag_per_sample_weights_backward.default: _weights_backward,
}
