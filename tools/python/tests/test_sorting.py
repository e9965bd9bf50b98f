"""Sorts and what is picked from them, against eager: every element type, dimension and direction, ties, NaN, layouts, dynamic sizes."""

import pytest
import torch

import strata
from conftest import check

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int8, torch.int16, torch.uint8, torch.bool]


def data(dtype, *shape):
    """Many equal elements, and among floats everything that has an order of its own."""
    x = torch.randint(-9, 9, shape).float() / 2
    if dtype.is_floating_point and x.numel() > 4:
        for i, special in enumerate((float("nan"), float("inf"), -float("inf"), -0.0, float("nan"))):
            x.view(-1)[(i * 7 + 3) % x.numel()] = special
    if dtype == torch.uint8:
        return (x * 20 + 100).to(dtype)
    return (x > 0) if dtype == torch.bool else x.to(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_stable_sorts(dtype):
    def f(x):
        both = {(d, descending): torch.sort(x, dim=d, descending=descending, stable=True) for d in (0, 1, -1) for descending in (False, True)}
        return both, torch.argsort(x, dim=1, stable=True), torch.msort(x)

    check(f, data(dtype, 5, 37, 3))


def test_layouts_and_what_is_sorted_is_computed():
    x = data(torch.float32, 6, 8, 10)
    check(lambda x: torch.sort(-x, dim=0, stable=True)[0] * 2, x.permute(2, 0, 1))
    check(lambda x: torch.sort(x, dim=1, stable=True), x[::2, 1::2].transpose(1, 2))
    check(lambda x: torch.sort(x.t(), dim=-1, stable=True), data(torch.int64, 9, 4))
    check(lambda x: torch.sort(x, dim=0, stable=True), x[0].expand(4, 8, 10))


def test_rank_0_and_nothing():
    check(lambda x: (torch.sort(x), torch.topk(x, 1), torch.kthvalue(x, 1), torch.median(x, 0), x.median(), torch.argsort(x)), torch.tensor(2.5))
    check(lambda x: (torch.sort(x), torch.sort(x, 0), torch.topk(x, 0)), torch.zeros(0, 3))
    check(lambda x: (torch.sort(x, 1), torch.topk(x, 0), torch.msort(x)), torch.zeros(3, 0))


@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_and_the_smallest(largest):
    # Without ties, as PyTorch leaves open which of equal elements come first.
    x = torch.randperm(6 * 50).view(6, 50).float()
    check(lambda x: [torch.topk(x, k, dim, largest=largest) for k, dim in ((1, 1), (5, 1), (50, -1), (3, 0))], x)
    x[2, 3] = float("nan")
    check(lambda x: torch.topk(x, 50, largest=largest)[1], x)
    ties = data(torch.int32, 4, 40)
    check(lambda x: torch.topk(x, 7, largest=largest)[0], ties)
    values, places = torch.compile(lambda x: torch.topk(x, 7, largest=largest), backend="strata")(ties)
    assert torch.equal(ties.gather(1, places), values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_medians(dtype):
    x = torch.randperm(5 * 7 * 4).view(5, 7, 4).to(dtype if dtype != torch.bfloat16 else torch.float32)
    x = (x - 70).to(dtype)
    pick = lambda x: [m(x, d)[0] for m in (torch.median, torch.nanmedian) for d in (0, 1, -1)]  # noqa: E731
    check(lambda x: (pick(x), x.median(), x.nanmedian(), torch.median(x, 1, True)[0], torch.kthvalue(x, 3, 1)[0]), x)
    if dtype == torch.float32:
        check(lambda x: (torch.median(x, 1), torch.nanmedian(x, 1), torch.kthvalue(x, 3, 1, True)), x)
    if dtype.is_floating_point:
        x[1, 2, 3] = x[1, 5, 3] = float("nan")
        x[2] = float("nan")
        check(lambda x: (pick(x), x.median(), x.nanmedian()), x)
        # The place of the first that is no number.
        check(lambda x: torch.median(x, 1)[1][:2], x.float().nan_to_num() if dtype == torch.bfloat16 else x)


def test_sizes_that_change():
    f = torch.compile(lambda x: (torch.sort(x, dim=0, stable=True), torch.topk(x, 2, 0)[0], torch.median(x, 0)[0]), backend="strata", dynamic=True)
    for n in (7, 64, 65, 3):
        x = torch.randn(n, 5)
        got, want = f(x), (torch.sort(x, dim=0, stable=True), torch.topk(x, 2, 0)[0], torch.median(x, 0)[0])
        assert torch.equal(got[0][0], want[0][0]) and torch.equal(got[0][1], want[0][1])
        assert torch.equal(got[1], want[1]) and torch.equal(got[2], want[2])
    assert strata.counters()["fallbacks"] == 0


def test_gradients_go_where_the_elements_came_from():
    x = torch.randn(6, 9, requires_grad=True)
    weight = torch.randn(6, 9)
    f = lambda x: (torch.sort(x, dim=1)[0] * weight).sum() + torch.topk(x, 3)[0].square().sum()  # noqa: E731
    (want,) = torch.autograd.grad(f(x), x)
    (got,) = torch.autograd.grad(torch.compile(f, backend="strata")(x), x)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_running_extremes(dtype):
    def f(x):
        return [torch.cummax(x, 0), torch.cummin(x, 1), torch.cummax(x, -1)]

    check(f, data(dtype, 5, 37, 3))
    check(f, data(dtype, 4, 9, 2), dynamic=True)
    if dtype == torch.float32:
        check(lambda x, y: (torch.cummax(x, 0), torch.cummin(y, 1)), torch.tensor(2.0), torch.empty(3, 0))
