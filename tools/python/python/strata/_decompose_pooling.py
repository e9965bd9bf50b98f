"""Pooling with positions, with windows of different sizes, and the gradients of pooling."""

import math

import torch
import torch.nn.functional as F
from torch._decomp import decomposition_table
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ._decompositions import whole

aten = torch.ops.aten

# Sums of at most so many terms are written out; longer ones are a reduction over gathered elements.
_WRITTEN_OUT = 8


def _each(values, n, default=None):
    """A list argument of an op over `n` dimensions: one number stands for all, none for the default."""
    values = [values] if isinstance(values, int) else list(values)
    return (values or list(default)) if len(values) != 1 else values * n


def wide(x):
    """In the type that sums are kept in."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _along(t, dim, rank):
    """A vector's elements along `dim` of a tensor of `rank` dimensions."""
    return t.view([-1 if d == dim else 1 for d in range(rank)])


def _like(x, memory_format):
    return x.contiguous(memory_format=memory_format)


def _format(x, n):
    """The memory format of what PyTorch's kernels over two dimensions make of `x`; those over three have no other."""
    return suggest_memory_format(x) if n == 2 and x.dim() == 4 else torch.contiguous_format


# -- positions of the largest elements --


def _positions(x, values, starts, counts, steps, ends):
    """Where in the row-major elements of the last dimensions each window's largest element is: the first of equals, the last NaN.

    A list entry a dimension: where windows start, of how many elements they consist at most, how far these are apart, and where they end (or none)."""
    n, device = len(starts), x.device
    flat, inside, size = 0, None, x.shape[x.dim() - n :]
    for d in range(n):
        first = _along(starts[d], d, 2 * n)
        i = first + _along(torch.arange(counts[d], device=device) * steps[d], n + d, 2 * n)
        limit = size[d] if ends[d] is None else _along(ends[d], d, 2 * n)
        here = (i >= 0) & (i < limit)
        inside = here if inside is None else inside & here
        flat = flat * size[d] + i
    every = math.prod(size)
    elements = x.reshape(*x.shape[: x.dim() - n], every)[..., flat.clamp(0, every - 1)]
    # One order for all: a NaN at p stands for -p - 1, an element that equals the largest for p.
    score = torch.where(elements == values[(..., *[None] * n)], flat, every)
    if x.is_floating_point():
        score = torch.where(elements.isnan(), -flat - 1, score)
    best = torch.where(inside, score, every).amin(list(range(-n, 0)))
    return torch.where(best < 0, -best - 1, best)


def _max_pool(op, n):
    def pool(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        with whole(op):
            values = op(x, kernel_size, stride, padding, dilation, ceil_mode)[0]
        if statically_known_true(values.numel() == 0):
            return NotImplemented
        kernel = _each(kernel_size, n)
        stride, padding, dilation = _each(stride, n, kernel), _each(padding, n), _each(dilation, n)
        out = values.shape[values.dim() - n :]
        starts = [torch.arange(out[d], device=x.device) * stride[d] - padding[d] for d in range(n)]
        at = _positions(x, values, starts, kernel, dilation, [None] * n)
        return values, _like(at, suggest_memory_format(values))

    return pool


def added_at(planes, size, indices, values, start=None):
    """Zeros, or `start`, of `planes` with `size` elements each as one vector, with `values` added where `indices`, of the same shape, says in
    each plane."""
    # As one long vector: the sizes are then products of plain sizes, which are known to be equal.
    every, n = math.prod(planes), len(planes)
    plane = torch.arange(every, device=values.device).view(*planes, *[1] * (values.dim() - n)) * size
    if start is None:
        start = torch.zeros(every * size, dtype=values.dtype, device=values.device)
    return start.scatter_add(0, (indices + plane).reshape(-1), values.reshape(-1))


def _scatter_back(grad, x, indices, n, memory_format):
    """Adds each element of `grad` to where `indices` says that it came from."""
    if statically_known_true(grad.numel() == 0):
        return _like(torch.zeros_like(x), memory_format)
    lead, size = x.shape[: x.dim() - n], math.prod(x.shape[x.dim() - n :])
    return _like(added_at(lead, size, indices, wide(grad)).reshape(x.shape).to(x.dtype), memory_format)


def _max_pool_backward(n):
    def backward(grad_output, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
        return _scatter_back(grad_output, x, indices, n, suggest_memory_format(x) if x.dim() == n + 2 else torch.contiguous_format)

    return backward


# -- windows of different sizes --


def _first(i, of, to):
    """The first element of window `i` where `of` elements are divided into `to` windows."""
    return (i * of).div(to, rounding_mode="floor")


def _last(i, of, to):
    return ((i + 1) * of + (to - 1)).div(to, rounding_mode="floor")


def _longest(of, to):
    """A number of elements that no window exceeds."""
    if statically_known_true(of % to == 0):
        return of // to
    if isinstance(of, int) and isinstance(to, int):
        return max(-(-(i + 1) * of // to) - i * of // to for i in range(to))
    return of // to + 2


def _picked_sum(x, dim, count, at):
    """Along `dim` the sum of `count` elements; `at(j)` says where the j-th of each is, and whether it is one."""

    if isinstance(count, int) and count <= _WRITTEN_OUT:
        total = None
        for j in range(count):
            i, valid = at(j)
            term = torch.where(_along(valid, dim, x.dim()), x.index_select(dim, i), 0)
            total = term if total is None else total + term
        return total
    i, valid = at(torch.arange(count, device=x.device)[None, :])
    chosen = x[(slice(None),) * dim + (i,)]
    valid = valid.view([1] * dim + list(valid.shape) + [1] * (x.dim() - dim - 1))
    return torch.where(valid, chosen, 0).sum(dim + 1)


def _adaptive_sums(x, of, to, dim):
    """Sums of the windows into which a dimension is divided."""

    def at(j):
        o = torch.arange(to, device=x.device)
        o = o if isinstance(j, int) else o[:, None]
        i = _first(o, of, to) + j
        return i.clamp(max=of - 1), i < _last(o, of, to)

    return _picked_sum(x, dim, _longest(of, to), at)


def _lengths(of, to, device):
    o = torch.arange(to, device=device)
    return _last(o, of, to) - _first(o, of, to)


def _of_nothing(x, n, out):
    """The result where there are no windows, NotImplemented where they are empty, else None."""
    if any(statically_known_true(size == 0) for size in (*x.shape[: x.dim() - n], *out)):
        return x.new_zeros((*x.shape[: x.dim() - n], *out))
    return NotImplemented if statically_known_true(x.numel() == 0) else None


def _adaptive_average(op, n):
    def pool(x, output_size):
        size, out = x.shape[x.dim() - n :], _each(output_size, n)
        if (empty := _of_nothing(x, n, out)) is not None:
            return empty
        if all(isinstance(s, int) and isinstance(o, int) and s % o == 0 for s, o in zip(size, out)):
            if n == 2:
                return NotImplemented
            return aten.avg_pool3d(x, [s // o for s, o in zip(size, out)])
        sums = wide(x)
        for d in reversed(range(n)):
            dim = x.dim() - n + d
            sums = _adaptive_sums(sums, size[d], out[d], dim)
            sums = sums / _along(_lengths(size[d], out[d], x.device), dim, x.dim())
        return _like(sums.to(x.dtype), _format(x, n))

    return pool


def _adaptive_average_backward(n):
    def backward(grad_output, x):
        grad = wide(grad_output)
        if statically_known_true(grad.numel() == 0):
            return _like(torch.zeros_like(x), _format(x, n))
        for d in range(n):
            dim = x.dim() - n + d
            of, to = x.shape[dim], grad_output.shape[dim]
            grad = grad / _along(_lengths(of, to, x.device), dim, x.dim())
            # Element i is in the windows that divide the windows' number into as many parts as there are elements.
            grad = _adaptive_sums(grad, to, of, dim)
        return _like(grad.to(x.dtype), _format(x, n))

    return backward


def _adaptive_max(n):
    def pool(x, output_size):
        size, out = x.shape[x.dim() - n :], _each(output_size, n)
        if (empty := _of_nothing(x, n, out)) is not None:
            return empty if empty is NotImplemented else (empty, x.new_zeros(empty.shape, dtype=torch.int64))
        device, rank = x.device, x.dim()
        windows = [torch.arange(o, device=device) for o in out]
        starts = [_first(w, s, o) for w, s, o in zip(windows, size, out)]
        ends = [_last(w, s, o) for w, s, o in zip(windows, size, out)]
        counts = [_longest(s, o) for s, o in zip(size, out)]
        values = x
        for d in range(n):
            dim = rank - n + d
            # Beyond its end a window repeats its last element.
            i = torch.minimum(starts[d][:, None] + torch.arange(counts[d], device=device), ends[d][:, None] - 1)
            values = values[(slice(None),) * dim + (i,)].amax(dim + 1)
        at = _positions(x, values, starts, counts, [1] * n, ends)
        return _like(values, _format(x, n)), _like(at, _format(x, n))

    return pool


def _adaptive_max_backward(n):
    def backward(grad_output, x, indices):
        return _scatter_back(grad_output, x, indices, n, _format(x, n))

    return backward


# -- averages --


def _divisors(size, out, kernel, stride, padding, include_padding, divisor, device):
    """By what each window's sum is divided: a number, or a tensor over the windows."""
    if divisor is not None:
        return divisor
    n, product = len(size), None
    for d in range(n):
        start = torch.arange(out[d], device=device) * stride[d] - padding[d]
        end = (start + kernel[d]).clamp(max=size[d] + padding[d])
        length = end - start if include_padding else end.clamp(max=size[d]) - start.clamp(min=0)
        length = _along(length, d, n)
        product = length if product is None else product * length
    return product


def _average_pool(op, n):
    def pool(x, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        if statically_known_true(x.numel() == 0):
            with whole(op):
                empty = op(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
            return x.new_zeros(empty.shape) if statically_known_true(empty.numel() == 0) else NotImplemented
        if not ceil_mode or divisor_override is not None:
            return NotImplemented
        with whole(op):
            sums = op(wide(x), kernel_size, stride, padding, ceil_mode, count_include_pad, 1)
        kernel = _each(kernel_size, n)
        stride, padding = _each(stride, n, kernel), _each(padding, n)
        size, out = x.shape[x.dim() - n :], sums.shape[x.dim() - n :]
        divisors = _divisors(size, out, kernel, stride, padding, count_include_pad, None, x.device)
        return _like((sums / divisors).to(x.dtype), _format(x, n))

    return pool


def _average_backward(n):
    def backward(grad_output, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        kernel = _each(kernel_size, n)
        stride, padding = _each(stride, n, kernel), _each(padding, n)
        size, out = x.shape[x.dim() - n :], grad_output.shape[x.dim() - n :]
        grad = wide(grad_output)
        if statically_known_true(grad.numel() == 0):
            return _like(torch.zeros_like(x), _format(x, n))
        grad = grad / _divisors(size, out, kernel, stride, padding, count_include_pad, divisor_override, x.device)
        for d in range(n):

            def at(j, d=d):
                # The j-th last of the windows that the element is in.
                i = torch.arange(size[d], device=x.device) + padding[d]
                i = i if isinstance(j, int) else i[:, None]
                o = i.div(stride[d], rounding_mode="floor") - j
                return o.clamp(0, out[d] - 1), (o >= 0) & (o < out[d]) & (i < o * stride[d] + kernel[d])

            grad = _picked_sum(grad, x.dim() - n + d, -(-kernel[d] // stride[d]), at)
        return _like(grad.to(x.dtype), _format(x, n))

    return backward


# -- padding and unpooling --


def _replication_backward(n):
    def backward(grad_output, x, padding):
        grad = wide(grad_output)
        for d in range(n):
            dim, (low, high) = x.dim() - 1 - d, padding[2 * d : 2 * d + 2]
            length = x.shape[dim]
            whole_dim = [0] * (2 * d)
            parts = [F.pad(grad, [*whole_dim, -low, -high])]
            if low > 0:
                left = grad.narrow(dim, 0, low).sum(dim, keepdim=True)
                parts.append(F.pad(left, [*whole_dim, 0, length - 1]))
            if high > 0:
                right = grad.narrow(dim, length + low, high).sum(dim, keepdim=True)
                parts.append(F.pad(right, [*whole_dim, length - 1, 0]))
            grad = sum(parts[1:], parts[0])
        memory_format = suggest_memory_format(x) if n > 1 and x.dim() == n + 2 else torch.contiguous_format
        return _like(grad.to(x.dtype), memory_format)

    return backward


def _max_unpool2d(x, indices, output_size):
    flat = decomposition_table[aten.max_unpool2d.default](x, indices, output_size)
    # As PyTorch's kernels do it, if not its fake tensors.
    keeps = x.dim() == 4 and x.device.type == "cpu"
    return _like(flat, suggest_memory_format(x) if keeps else torch.contiguous_format)


TABLE = {
    aten.max_unpool2d.default: _max_unpool2d,
    aten.replication_pad1d_backward.default: _replication_backward(1),
    aten.replication_pad2d_backward.default: _replication_backward(2),
    aten.replication_pad3d_backward.default: _replication_backward(3),
}
for _n in (2, 3):
    TABLE |= {
        getattr(aten, f"max_pool{_n}d_with_indices").default: _max_pool(getattr(aten, f"max_pool{_n}d_with_indices").default, _n),
        getattr(aten, f"max_pool{_n}d_with_indices_backward").default: _max_pool_backward(_n),
        getattr(aten, f"_adaptive_avg_pool{_n}d").default: _adaptive_average(getattr(aten, f"_adaptive_avg_pool{_n}d").default, _n),
        getattr(aten, f"_adaptive_avg_pool{_n}d_backward").default: _adaptive_average_backward(_n),
        getattr(aten, f"adaptive_max_pool{_n}d").default: _adaptive_max(_n),
        getattr(aten, f"adaptive_max_pool{_n}d_backward").default: _adaptive_max_backward(_n),
        getattr(aten, f"avg_pool{_n}d").default: _average_pool(getattr(aten, f"avg_pool{_n}d").default, _n),
        getattr(aten, f"avg_pool{_n}d_backward").default: _average_backward(_n),
    }
