"""Ops that PyTorch runs see operands in memory as eager execution lays them out: libraries trust that.

PyTorch's attention kernels keep plans by the strides of queries and assume those of the rest; some want rows at multiples of an alignment.
"""

import pytest
import torch
import torch.nn.functional as F

import strata

seen = []


@torch.library.custom_op("strata_tests::spy", mutates_args=())
def spy(x: torch.Tensor) -> torch.Tensor:
    seen.append((tuple(x.shape), x.stride(), x.clone()))
    return torch.empty_like(x).copy_(x)


@spy.register_fake
def _(x):
    return torch.empty_like(x)


CASES = {
    "row-major": lambda x: spy(x + 1),
    "transposed": lambda x: spy((x + 1).transpose(0, 1)),
    "made contiguous": lambda x: spy(x.transpose(0, 2).contiguous()),
    "permuted by an op": lambda x: spy((x.permute(2, 0, 1) * 2).sin()),
    "a transposed argument": lambda x: spy(x.transpose(1, 2)),
    "rows with a gap": lambda x: spy(F.pad(x * 3, (0, 3))[..., :6]),
    "repeated": lambda x: spy((x[:1] * 2).expand(5, -1, -1)),
    "repeated, rows with a gap": lambda x: spy(F.pad(x[:1] * 2, (0, 2))[..., :6].expand(5, -1, -1)),
    "one call behind another": lambda x: spy(spy((x + 1).transpose(0, 1)).transpose(1, 2)),
    "a result in memory order": lambda x: spy((x + 1).permute(2, 1, 0)).permute(2, 1, 0).reshape(-1) * 2,
    "empty": lambda x: spy(x.transpose(0, 1)[:, :0] + 1),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_operands_lie_as_eager_has_them(name, dynamic):
    f, x = CASES[name], torch.randn(4, 5, 6)
    seen.clear()
    want = f(x)
    eager = list(seen)
    compiled = torch.compile(f, backend="strata", fullgraph=True, dynamic=dynamic)
    compiled(x)
    seen.clear()
    got = compiled(x)
    assert strata.counters()["eager_graphs"] == 0, strata.events()
    lies = lambda calls: [(shape, strides if 0 not in shape else None) for shape, strides, _ in calls]
    assert lies(seen) == lies(eager)
    for (*_, a), (*_, b) in zip(seen, eager):
        torch.testing.assert_close(a, b)
    assert got.stride() == want.stride() or got.numel() == 0
    torch.testing.assert_close(got, want)


def test_sizes_that_change_keep_the_alignment():
    """The gap depends on the size: rows are filled up to multiples of eight."""

    def f(x):
        n = x.shape[-1]
        return spy(F.pad(x * 2, (0, (-n) % 8))[..., :n])

    compiled = torch.compile(f, backend="strata", fullgraph=True, dynamic=True)
    for n in (5, 8, 13):
        x = torch.randn(3, n)
        seen.clear()
        want = f(x)
        compiled(x)
        torch.testing.assert_close(compiled(x), want)
        assert {s[1] for s in seen} == {seen[0][1]}, seen
    assert strata.counters()["eager_graphs"] == 0, strata.events()


def test_a_split_argument_is_passed_as_it_lies():
    """Queries, keys and values that lie side by side, saved for the backward pass, are no copies there."""

    def f(x):
        q, k, v = (y.view(2, 16, 4, 8).transpose(1, 2) for y in (x * 2).split(32, 2))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    x = torch.randn(2, 16, 96)
    grads = []
    for g in (f, torch.compile(f, backend="strata", fullgraph=True)):
        y = x.clone().requires_grad_()
        out = g(y)
        (out * torch.arange(out.numel()).view(out.shape)).sum().backward()
        grads.append((out.detach(), y.grad))
    assert grads[0][0].stride() == grads[1][0].stride()
    for a, b in zip(*grads):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
    assert strata.counters()["fallbacks"] == 0, strata.events()
