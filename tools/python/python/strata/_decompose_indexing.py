"""Elements picked by masks and values: a running count of what is picked says where it stands."""

import math

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten


def _ranks(mask):
    """For each element how many true ones precede it, in row-major order."""
    flat = mask.reshape(-1)
    return (flat.cumsum(0) - 1).clamp(min=0).view(mask.shape)


def _masked_scatter(x, mask, source):
    if statically_known_true(source.numel() == 0):
        return NotImplemented
    x, mask = torch.broadcast_tensors(x, mask)
    picked = source.reshape(-1).index_select(0, _ranks(mask).reshape(-1)).view(x.shape)
    return torch.where(mask, picked, x).contiguous()


def _masked_scatter_backward(grad_output, mask, sizes):
    n, mask = grad_output.numel(), mask.expand(grad_output.shape)
    wanted = math.prod(sizes)
    if statically_known_true(n == 0):
        return grad_output.new_zeros(sizes)
    # What is not picked, or not wanted, goes to an element behind the last.
    at = torch.where(mask, _ranks(mask), wanted).clamp(max=wanted).reshape(-1)
    start = torch.zeros(wanted + 1, dtype=grad_output.dtype, device=grad_output.device)
    return start.scatter(0, at, grad_output.reshape(-1)).narrow(0, 0, wanted).view(sizes)


def _index_put(x, indices, values, accumulate=False):
    """With one mask as index, and more values than one."""
    given = [(d, t) for d, t in enumerate(indices) if t is not None]
    if len(given) != 1 or given[0][1].dtype is not torch.bool or statically_known_true(values.numel() == 1):
        return NotImplemented
    first, mask = given[0]
    # PyTorch takes masks that lie elsewhere.
    mask, values = mask.to(x.device), values.to(x.device)
    n, rank = mask.dim(), x.dim() - mask.dim() + 1
    if n == 0 or statically_known_true(values.numel() == 0) or statically_known_true(mask.numel() == 0):
        return NotImplemented
    values = values.view([1] * (rank - values.dim()) + list(values.shape))
    ones = [1] * first, [1] * (rank - first - 1)
    if statically_known_true(values.shape[first] == 1):
        new = values.view(*values.shape[:first], *[1] * n, *values.shape[first + 1 :])
    else:
        # As many values as the mask has true elements, or PyTorch raises an error: an index that is none does so here.
        count, wanted = mask.sum(), values.shape[first]
        new = values.index_select(first, torch.where(count == wanted, _ranks(mask).reshape(-1), wanted))
        new = new.view(*values.shape[:first], *mask.shape, *values.shape[first + 1 :])
    mask = mask.view(*ones[0], *mask.shape, *ones[1])
    return torch.where(mask, x + new if accumulate else new, x)


def _nonzero_static(x, *, size, fill_value=-1):
    mask, n = (x != 0).reshape(-1), x.numel()
    if any(statically_known_true(k == 0) for k in (n, size, x.dim())):
        rows = torch.full((x.dim(), size), fill_value, dtype=torch.int64, device=x.device)
    else:
        at = torch.where(mask, _ranks(mask), size).clamp(max=size)
        found = torch.full((size + 1,), -1, device=x.device, dtype=torch.int64)
        found = found.scatter(0, at, torch.arange(n, device=x.device)).narrow(0, 0, size)
        columns, rest = [], found
        for length in reversed(x.shape):
            columns.append(torch.where(found < 0, fill_value, rest % length))
            rest = rest.div(length, rounding_mode="floor")
        rows = torch.stack(columns[::-1], 0)
    # PyTorch's kernel for CUDA writes a column after the other.
    return rows.t() if x.device.type == "cuda" else rows.t().contiguous()


def _repeat_interleave(repeats, *, output_size=None):
    if output_size is None or statically_known_true(repeats.numel() == 0):
        return NotImplemented
    # Element i of the result is the number of repetitions that have ended up to there.
    ends = repeats.cumsum(0, dtype=torch.int64)
    ended = torch.zeros(output_size + 1, dtype=repeats.dtype, device=repeats.device)
    ended = ended.scatter_add(0, ends.clamp(max=output_size), torch.ones_like(repeats))
    return ended.cumsum(0, dtype=repeats.dtype).narrow(0, 0, output_size)


def _searched(sequence, values, out_int32, right, side, sorter):
    n = sequence.shape[-1]
    if not isinstance(n, int):
        return NotImplemented
    if n == 0 or statically_known_true(sequence.numel() == 0):
        return torch.zeros(values.shape, dtype=torch.int32 if out_int32 else torch.int64, device=values.device)
    right = side == "right" if side is not None else right
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    common = torch.promote_types(sequence.dtype, values.dtype)
    flat = sequence.to(common).reshape(-1)
    row = 0
    if sequence.dim() > 1:
        rows = torch.arange(sequence.numel() // n, device=sequence.device) * n
        row = rows.view(*sequence.shape[:-1], 1)
    values = values.to(common)
    low = torch.zeros(values.shape, dtype=torch.int64, device=values.device)
    high = torch.full_like(low, n)
    # PyTorch's own search, step by step: where there are NaNs among the elements, the result depends on which are looked at.
    for _ in range(n.bit_length()):
        middle = low + (high - low) // 2
        at = middle.clamp(max=n - 1) + row
        element = flat.index_select(0, at.reshape(-1)).view(at.shape)
        further = (low < high) & ~(element > values if right else element >= values)
        high = torch.where(further, high, middle)
        low = torch.where(further, middle + 1, low)
    return low.to(torch.int32) if out_int32 else low


def _searchsorted(sorted_sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    return _searched(sorted_sequence, x, out_int32, right, side, sorter)


def _searchsorted_scalar(sorted_sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    value = torch.scalar_tensor(x, dtype=sorted_sequence.dtype, device=sorted_sequence.device)
    return _searched(sorted_sequence, value, out_int32, right, side, sorter)


def _histc(x, bins=100, min=0, max=0):
    if not x.is_floating_point() or x.dtype in (torch.float16, torch.bfloat16) or statically_known_true(x.numel() == 0):
        return NotImplemented
    flat = x.reshape(-1)
    low, high = (torch.scalar_tensor(v, dtype=x.dtype, device=x.device) for v in (min, max))
    if min == max:
        low, high = flat.amin(), flat.amax()
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    inside = (flat >= low) & (flat <= high)
    at = ((flat.clamp(low, high) - low) * bins / (high - low)).long().clamp(0, bins - 1)
    counted = torch.zeros(bins + 1, dtype=torch.int64, device=x.device)
    counted = counted.scatter_add(0, torch.where(inside, at, bins), torch.ones_like(at))
    return counted.narrow(0, 0, bins).to(x.dtype)


TABLE = {
    aten.masked_scatter.default: _masked_scatter,
    aten.masked_scatter_backward.default: _masked_scatter_backward,
    aten.index_put.default: _index_put,
    aten.nonzero_static.default: _nonzero_static,
    aten.repeat_interleave.Tensor: _repeat_interleave,
    aten.searchsorted.Tensor: _searchsorted,
    aten.searchsorted.Scalar: _searchsorted_scalar,
    aten.histc.default: _histc,
}
