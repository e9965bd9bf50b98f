"""Ops that Strata expresses by others: as eager computes them, forward and backward, with sizes that are numbers and with symbols."""

import pytest
import strata
import torch
import torch.nn.functional as F
from conftest import compare, same_strides

A = torch.ops.aten
NAN, INF = float("nan"), float("inf")


def both(f, *inputs, dynamic=False, fallbacks=0):
    """Results and gradients, compiled and not; nothing may be left to PyTorch."""

    def run(g, convert=lambda t: t):
        given = [convert(t.detach()).clone(memory_format=torch.preserve_format).requires_grad_(t.requires_grad) for t in inputs]
        out = g(*given)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        wanted, leaves = [t for t in out if t.requires_grad], [t for t in given if t.requires_grad]
        grads = torch.autograd.grad(wanted, leaves, [_cotangent(t) for t in wanted]) if wanted else ()
        return [t.detach() for t in out], grads

    want, got = run(f), run(torch.compile(f, backend="strata", dynamic=dynamic))
    exact = run(f, lambda t: t.double() if t.is_floating_point() else t)
    compare(got, want, exact)
    same_strides(got[0], want[0])
    counted = strata.counters()
    assert counted["eager_graphs"] == 0 and counted["fallbacks"] == fallbacks, strata.events()


def _cotangent(t):
    return torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) if t.numel() else torch.ones_like(t)


def image(*shape, special=False, grad=True, dtype=torch.float32):
    x = (torch.randn(shape) * 4).round() / 4  # so that windows have equals
    if special:
        x[..., 0:2, 1:3], x[..., 4:, 3:] = NAN, -INF
    return x.to(dtype).requires_grad_(grad)


both_kinds = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


def largest(x):
    v, i = F.max_pool2d(x, (3, 2), (2, 1), (1, 0), dilation=(2, 1), return_indices=True)
    w, j = F.adaptive_max_pool2d(x, (3, 2), return_indices=True)
    return v, i, w, j


def test_positions_of_the_largest():
    both(largest, image(2, 3, 9, 7))


def test_positions_of_the_largest_with_symbols():
    both(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), image(2, 3, 9, 7), dynamic=True)


def test_positions_among_nan_and_infinity():
    both(largest, image(2, 3, 9, 7, special=True, grad=False).contiguous(memory_format=torch.channels_last))


def test_the_values_alone_are_one_kernel_without_positions():
    both(lambda x: F.max_pool2d(x, 3, 2, 1), image(2, 3, 9, 7, grad=False))
    assert strata.counters()["kernels"] == 1


def test_pooling_in_three_dimensions():
    def f(x):
        v, i = F.max_pool3d(x, 2, 2, return_indices=True)
        return v, i, F.avg_pool3d(x, 2, 2), F.adaptive_avg_pool3d(x, (3, 2, 2))

    both(f, image(2, 2, 5, 6, 4))


@both_kinds
def test_averages_of_windows_of_different_sizes(dynamic):
    both(lambda x: F.adaptive_avg_pool2d(x, (4, 7)), image(2, 3, 9, 7), dynamic=dynamic)


@both_kinds
def test_gradients_of_averages(dynamic):
    def f(x):
        return F.avg_pool2d(x, (3, 2), (2, 1), (1, 0), count_include_pad=False), F.avg_pool2d(x, 2, 3, divisor_override=3)

    both(f, image(2, 3, 9, 7).detach().contiguous(memory_format=torch.channels_last).requires_grad_(), dynamic=dynamic)


def test_averages_of_windows_that_hang_over():
    both(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), image(2, 3, 8, 6))


def test_pools_of_16_bit_types_and_of_nothing():
    both(lambda x: (F.adaptive_avg_pool2d(x, (4, 3)), F.max_pool2d(x, 2, return_indices=True)[1]), image(2, 3, 9, 7, dtype=torch.bfloat16))
    strata.reset_counters()
    assert torch.compile(lambda x: F.adaptive_avg_pool2d(x, (4, 3)), backend="strata")(torch.ones(0, 3, 9, 7)).shape == (0, 3, 4, 3)
    assert strata.counters()["fallbacks"] == 0


@both_kinds
def test_padding_with_the_edge(dynamic):
    both(lambda x, y: (F.pad(x, (2, 1, 3, 0), mode="replicate"), F.pad(y, (-1, 2), mode="replicate")), image(2, 3, 8, 6), image(2, 3, 7), dynamic=dynamic)


def test_what_is_unpooled_lies_as_its_operand():
    x = image(2, 3, 8, 6, grad=False).contiguous(memory_format=torch.channels_last)
    both(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), x)


def grid(*shape):
    return (torch.rand(shape) * 3 - 1.5).requires_grad_()


def test_grids_beyond_the_image():
    both(lambda x, g: F.grid_sample(x, g, align_corners=False), image(2, 3, 5, 4), grid(2, 3, 6, 2))


def test_grids_at_the_border():
    both(lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True), image(2, 2, 4, 3, 5), grid(2, 3, 2, 2, 3))


def test_grids_thrown_back():
    both(lambda x, g: F.grid_sample(x, g, mode="nearest", padding_mode="reflection", align_corners=False), image(2, 3, 5, 4), grid(2, 3, 6, 2))


@both_kinds
def test_bags(dynamic):
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4, 6])

    def f(w, p, i, o):
        sums = F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p)
        return sums, F.embedding_bag(i, w, o, mode="mean", padding_idx=4), F.embedding_bag(i, w, o, mode="max")

    both(f, torch.randn(10, 4).requires_grad_(), torch.randn(8).requires_grad_(), indices, offsets, dynamic=dynamic)


def test_a_bag_takes_a_nan_that_comes_first():
    w = torch.randn(10, 4)
    w[1, 2] = w[4, 1] = NAN
    w[5, 3] = -INF
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4, 8])
    both(lambda w, i, o: A._embedding_bag(w, i, o, False, 2, False, None, True, 5), w, indices, offsets)
    both(lambda w, i, o: A._embedding_bag_forward_only(w, i, o), w, indices, offsets[:3])


@both_kinds
def test_masks(dynamic):
    def f(x, m, s, row, r):
        y = x.masked_scatter(m, s)
        z = x.index_put((m[:, :, 0],), row, accumulate=True)
        return y, z, torch.nonzero_static(m, size=9, fill_value=-7), torch.repeat_interleave(x, r, 0, output_size=6)

    mask = torch.rand(4, 5, 6) > 0.5
    rows = torch.randn(int(mask[:, :, 0].sum()), 6)
    both(f, image(4, 5, 6), mask, torch.randn(200).requires_grad_(), rows.requires_grad_(), torch.tensor([2, 0, 3, 1]), dynamic=dynamic)


def test_searches_and_counts():
    def f(q, v, u, s, h):
        found = [torch.searchsorted(q, v, right=right) for right in (False, True)]
        return *found, torch.searchsorted(u, v, sorter=s), torch.searchsorted(q[0], 0.3, out_int32=True), torch.histc(h, 7, -1, 1)

    q, v, u, h = torch.randn(3, 9).sort(-1)[0], torch.randn(3, 7), torch.randn(3, 9), torch.randn(500)
    q[1, -2:], v[0, 0], v[0, 1], h[:3] = NAN, NAN, q[0, 3], torch.tensor([NAN, 1.0, -1.0])
    both(f, q, v, u, u.argsort(-1), h)


@pytest.mark.parametrize("p", [0.5, 2.0, 3.0, INF])
def test_distances(p):
    x, y = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    y[0, 1], y[0, 0, 1] = x[0, 2], x[0, 0, 1]
    both(lambda x, y: (torch.cdist(x, y, p=p), F.pdist(x[0], p=p)), x.requires_grad_(), y.requires_grad_())


@both_kinds
def test_extremes_and_products(dynamic):
    def f(a, b, x, y, z, w):
        return torch.fmax(a, b), torch.fmin(a, b), torch.addbmm(x, y, z, beta=0.5, alpha=2), F.bilinear(y[0], z[0].t(), w)

    a, b = torch.tensor([0.0, -0.0, NAN, 1.0, NAN, 2.0]), torch.tensor([-0.0, 0.0, 1.0, NAN, NAN, -INF])
    given = torch.randn(3, 4), torch.randn(2, 3, 5), torch.randn(2, 5, 3), torch.randn(6, 5, 5)
    both(f, a, b, given[0][:, :3], *given[1:3], given[3], dynamic=dynamic)


def test_the_gradient_of_a_filled_value_counts_each_index_once():
    index = torch.tensor([0, 3, 0])
    x, value = torch.randn(5, 5, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    out = torch.compile(lambda x, v: x.index_fill(1, index, v), backend="strata")(x, value)
    assert torch.autograd.grad(out.sum(), value)[0] == 10
    assert "aten._unique" in strata.events()[-1]["reason"]


LISTS = {
    "add": lambda f, x, y: (f._foreach_add(x, y, alpha=0.5), f._foreach_add(x, 2), f._foreach_add(x, [1.0, 2.0]), f._foreach_add(x, y[0][0, 0])),
    "sub": lambda f, x, y: (f._foreach_sub(x, y), f._foreach_sub(x, 2)),
    "div": lambda f, x, y: (f._foreach_div(x, y), f._foreach_div(x, 2), f._foreach_div(x, [1.0, 2.0])),
    "addcdiv": lambda f, x, y: (f._foreach_addcdiv(x, y, y, 0.5), f._foreach_addcdiv(x, y, y, [0.5, 2.0])),
    "addcmul": lambda f, x, y: (f._foreach_addcmul(x, x, y, 0.5), f._foreach_addcmul(x, x, y, [0.5, 2.0])),
    "lerp": lambda f, x, y: (f._foreach_lerp(x, y, 0.25), f._foreach_lerp(x, y, y)),
    "pow": lambda f, x, y: (f._foreach_pow(0.9, y), f._foreach_pow(x, 2), f._foreach_pow(x, [2, 3])),
    "extremes": lambda f, x, y: (f._foreach_maximum(x, y), f._foreach_maximum(x, 0.1), f._foreach_minimum(x, [0.1, 0.2]), f._foreach_max(x)),
    "clamp": lambda f, x, y: (f._foreach_clamp_max(x, y), f._foreach_clamp_min(x, 0.1)),
    "norm": lambda f, x, y: (f._foreach_norm(x), f._foreach_norm(x, 1)),
    "unary": lambda f, x, y: [g(x) for g in (f._foreach_neg, f._foreach_abs, f._foreach_exp, f._foreach_sign, f._foreach_trunc)] + [f._foreach_sqrt(y)],
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_tensors(name):
    tensors = [t for shape in ((3, 5), (4, 2)) for t in (torch.randn(shape), torch.rand(shape) + 0.5)]
    both(lambda a, b, c, d: [t for r in LISTS[name](torch, [a, c], [b, d]) for t in r], *tensors)


def test_lists_that_are_written():
    def f(*given):
        x = [t.clone() for t in given]
        torch._foreach_mul_(x, 2)
        torch._foreach_add_(x[:2], x[2:])
        torch._foreach_copy_(x[2:], x[:2])
        torch._foreach_zero_(x[:1])
        return x

    both(f, torch.randn(3), torch.randn(2, 2), torch.randn(3), torch.randn(2, 2))
