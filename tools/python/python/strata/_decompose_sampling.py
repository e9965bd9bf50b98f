"""Sampling of images at the points of a grid, in three dimensions, and its gradients."""

import itertools
import math

import torch

from ._decompose_pooling import added_at, wide

aten = torch.ops.aten

_LINEAR, _NEAREST, _CUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


def _scaled(g, size, align_corners):
    """A grid's coordinate, from -1 to 1, in elements; and the factor of its derivative."""
    if align_corners:
        return (g + 1) / 2 * (size - 1), (size - 1) / 2
    return ((g + 1) * size - 1) / 2, size / 2


def _clipped(x, size):
    factor = torch.where((x > 0) & (x < size - 1), 1.0, 0.0)
    return x.clamp(0, size - 1), factor


def _reflected(x, size, align_corners):
    """A coordinate thrown back at both ends as often as needed; and the factor of its derivative."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if align_corners and isinstance(size, int) and size == 1:
        return torch.zeros_like(x), torch.zeros_like(x)
    x = x - low
    sign = torch.where(x < 0, -1.0, 1.0)
    x = x.abs()
    extra, flips = torch.fmod(x, span), torch.floor(x / span)
    even = torch.fmod(flips, 2) == 0
    return torch.where(even, extra + low, span - extra + low), torch.where(even, sign, -sign)


def _padded(x, size, padding, align_corners):
    """A coordinate as the padding mode has it; and the factor of its derivative."""
    factor = torch.ones_like(x)
    if padding == _REFLECTION:
        x, factor = _reflected(x, size, align_corners)
    if padding != _ZEROS:
        x, clip = _clipped(x, size)
        factor = factor * clip
    return x, factor


def _cubic_weights(t):
    """The weights of four neighbours, and their derivatives."""
    a = -0.75

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    def near_slope(x):
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far_slope(x):
        return (3 * a * x - 10 * a) * x + 8 * a

    weights = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    return weights, [far_slope(t + 1), near_slope(t), -near_slope(1 - t), -far_slope(2 - t)]


def _axis(g, size, mode, padding, align_corners):
    """The neighbours along an axis as (position, whether there is one, weight, the weight's derivative), and the factor of the coordinate's."""
    x, factor = _scaled(g, size, align_corners)
    if mode == _CUBIC:
        base = x.floor()
        places = [_padded(base + k, size, padding, align_corners)[0] for k in (-1, 0, 1, 2)]
        weights, slopes = _cubic_weights(x - base)
    else:
        x, turned = _padded(x, size, padding, align_corners)
        factor = factor * turned
        base = x.round() if mode == _NEAREST else x.floor()
        places = [base] if mode == _NEAREST else [base, base + 1]
        weights = [torch.ones_like(x)] if mode == _NEAREST else [base + 1 - x, x - base]
        slopes = [-torch.ones_like(x), torch.ones_like(x)]
    out = []
    for place, weight, slope in zip(places, weights, slopes):
        out.append((place.clamp(0, size - 1).long(), (place >= 0) & (place < size), weight, slope))
    return out, factor


def _corners(x, grid, mode, padding, align_corners):
    """All neighbours of each point: (position in the row-major image, whether there is one, weights and slopes by axis), and the axes' factors."""
    n = grid.shape[-1]
    size = x.shape[2:]
    axes, factors = [], []
    for d in range(n):
        # The last coordinate of the grid is of the first axis.
        axis, factor = _axis(wide(grid)[..., n - 1 - d], size[d], mode, padding, align_corners)
        axes.append(axis)
        factors.append(factor)
    out = []
    for chosen in itertools.product(*axes):
        flat, inside = 0, None
        for d, (i, here, _, _) in enumerate(chosen):
            flat = flat * size[d] + i
            inside = here if inside is None else inside & here
        out.append((flat, inside, [c[2] for c in chosen], [c[3] for c in chosen]))
    return out, factors


def _over_channels(t, channels, points):
    """A value of each point as one of each channel and point, points as one dimension."""
    return t.reshape(t.shape[0], 1, points).expand(t.shape[0], channels, points)


def _grid_sampler_3d(x, grid, interpolation_mode, padding_mode, align_corners):
    channels, out = x.shape[1], grid.shape[1:-1]
    points = math.prod(out)
    flat, total = x.reshape(*x.shape[:2], math.prod(x.shape[2:])), None
    for at, inside, weights, _ in _corners(x, grid, interpolation_mode, padding_mode, align_corners)[0]:
        at, inside, weight = (_over_channels(t, channels, points) for t in (at, inside, math.prod(weights)))
        term = torch.where(inside, wide(flat.gather(2, at)) * weight, 0.0)
        total = term if total is None else total + term
    return total.to(x.dtype).reshape(*x.shape[:2], *out)


def _grid_sampler_backward(grad_output, x, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    channels, out = x.shape[1], grid.shape[1:-1]
    points, n = math.prod(out), grid.shape[-1]
    grad = wide(grad_output).reshape(*x.shape[:2], points)
    corners, factors = _corners(x, grid, interpolation_mode, padding_mode, align_corners)
    grad_x = grad_grid = None
    if output_mask[0]:
        size, total = math.prod(x.shape[2:]), None
        for at, inside, weights, _ in corners:
            at, inside, weight = (_over_channels(t, channels, points) for t in (at, inside, math.prod(weights)))
            total = added_at(x.shape[:2], size, at, torch.where(inside, grad * weight, 0.0), total)
        grad_x = total.to(x.dtype).reshape(x.shape)
    if output_mask[1] and interpolation_mode == _NEAREST:
        grad_grid = torch.zeros(grid.shape, dtype=grid.dtype, device=grid.device)
    elif output_mask[1]:
        flat, sums = x.reshape(*x.shape[:2], math.prod(x.shape[2:])), [0] * n
        for at, inside, weights, slopes in corners:
            product = (wide(flat.gather(2, _over_channels(at, channels, points))) * grad).sum(1).reshape(x.shape[0], *out)
            product = torch.where(inside, product, 0.0)
            for d in range(n):
                others = math.prod(w for k, w in enumerate(weights) if k != d)
                sums[d] = sums[d] + product * slopes[d] * others
        grad_grid = torch.stack([s * f for s, f in zip(reversed(sums), reversed(factors))], -1).to(grid.dtype)
    return grad_x, grad_grid


TABLE = {
    aten.grid_sampler_3d.default: _grid_sampler_3d,
    aten.grid_sampler_2d_backward.default: _grid_sampler_backward,
    aten.grid_sampler_3d_backward.default: _grid_sampler_backward,
}
