"""Sizes that change, and sizes that are only known when the graph runs."""

import math

import pytest
import torch

import strata
from conftest import compare


@pytest.fixture(autouse=True)
def capture():
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def check(fn, *calls, compiles, backend="strata", **compile_args):
    """Every call as in eager, with so many compilations and no graph left to PyTorch."""
    compiled = torch.compile(fn, backend=backend, fullgraph=True, **compile_args)
    for inputs in calls:
        compare(compiled(*inputs), fn(*inputs))
    counted = strata.counters()
    assert counted["eager_graphs"] == 0, strata.events()
    assert counted["compiles"] == compiles, (counted, strata.events())


def softmax(x):
    return (x * 2).softmax(-1)


def test_automatic_dynamic():
    check(softmax, *[(torch.randn(3, n),) for n in (4, 5, 6, 9)], compiles=2)


def test_dynamic_from_the_start():
    check(softmax, *[(torch.randn(m, n),) for m, n in ((3, 4), (5, 4), (2, 8))], compiles=1, dynamic=True)


def test_sizes_one_and_zero_are_compiled_apart():
    check(lambda x: (x + 1).sum(0), *[(torch.randn(n, 3),) for n in (4, 6, 1, 0)], compiles=4)


def test_mark_dynamic():
    def marked(n):
        x = torch.randn(n, 4)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
        return (x,)

    check(softmax, *map(marked, (4, 7, 64)), compiles=1)


def test_a_dynamic_size_that_equals_another():
    """The sizes are equal in one of the calls, the first or a later one, and stay two."""

    def f(x, w, ids):
        return x.softmax(1) @ w, ids * 2 + x.shape[0]

    for lengths in ((6, 7, 8), (7, 6, 8)):
        torch._dynamo.reset()
        strata.reset_counters()
        calls = []
        for n in lengths:
            x, ids = torch.randn(6, n), torch.arange(n)
            torch._dynamo.mark_dynamic(x, 1)
            torch._dynamo.mark_dynamic(ids, 0)
            w = torch.randn(n, 6)
            torch._dynamo.mark_dynamic(w, 0)
            calls.append((x, w, ids))
        check(f, *calls, compiles=1)


def test_mark_unbacked():
    def f(x):
        return (x + 1).sum(-1) * 2

    def marked(n):
        x = torch.randn(n, 4)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        return (x,)

    check(f, *map(marked, (3, 1, 7, 0)), compiles=1)


def test_boolean_masks():
    def f(x, w):
        kept = (x * 2)[x[:, 0] > 0]
        return (kept @ w).softmax(-1), kept.sum(0) + 1

    w = torch.randn(3, 2)
    calls = [(torch.randn(8, 3), w) for _ in range(3)] + [(torch.ones(8, 3), w), (-torch.ones(8, 3), w), (torch.eye(8, 3), w)]
    check(f, *calls, compiles=2)
    assert [e["reason"] for e in strata.events()] == ["aten.index.Tensor: the size of its result depends on values"]
    assert strata.events()[0]["location"] == f"{__file__}:{f.__code__.co_firstlineno + 1}"


def test_nonzero_and_unique():
    def f(x):
        where = (x > 0).nonzero()
        values = torch.unique(where[:, 1] + 1)
        return where * 2, values + where.shape[0]

    check(f, (torch.randn(4, 3),), (torch.randn(4, 3),), compiles=3)


def test_numbers_out_of_tensors():
    def f(x, n):
        k = (n * 1).item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return (x * 2)[:k].cumsum(0) + k, torch.zeros(k, 2) + 1

    check(f, *[(torch.randn(6, 2), torch.tensor(k)) for k in (3, 5, 1, 0)], compiles=2)


def test_floats_out_of_tensors():
    def f(x, s):
        y = x * 2
        return (y * s.exp().item() + 1).relu()

    check(f, *[(torch.randn(4), torch.tensor(k)) for k in (0.1, 2.5)], compiles=1)


def test_sizes_of_repetitions():
    def f(x, n):
        return (x + 1).repeat_interleave(n, 0) * 2

    check(f, (torch.randn(3, 2), torch.tensor([1, 0, 2])), (torch.randn(3, 2), torch.tensor([3, 1, 1])), compiles=1)


def test_checks_of_sizes_are_made_at_run_time():
    def f(x, n):
        k = (n * 1).item()
        torch._check(k >= 2, lambda: "too few")
        torch._check(k < 5)
        return (x[:4] + 1).sum() * k, torch.ones(k)

    compiled = torch.compile(f, backend="strata", fullgraph=True)
    compare(compiled(torch.ones(6), torch.tensor(3)), f(torch.ones(6), torch.tensor(3)))
    for k in (1, 7):
        with pytest.raises(RuntimeError, match="Runtime assertion failed for expression"):
            compiled(torch.ones(6), torch.tensor(k))
    assert strata.counters()["eager_graphs"] == 0


def test_assertions_on_values():
    def f(x):
        torch._assert_async(x.sum() > 0, "the sum has to be positive")
        return x * 2

    compiled = torch.compile(f, backend="strata", fullgraph=True)
    assert compiled(torch.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="the sum has to be positive"):
        compiled(-torch.ones(3))


def test_branches_with_sizes():
    def f(x, n):
        k = (n * 1).item()
        torch._check(k >= 1)
        torch._check(k <= 6)
        y = x[:k] * 2
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (y,))

    check(f, (torch.ones(6), torch.tensor(4)), (-torch.ones(6), torch.tensor(2)), compiles=4)


def test_gradients_through_a_mask():
    def f(x, w):
        return ((x @ w)[x[:, 0] > 0].relu() * 3).sum()

    x, w = torch.randn(6, 3), torch.randn(3, 4)
    grads = []
    for g in (f, torch.compile(f, backend="strata", fullgraph=True)):
        a = w.clone().requires_grad_()
        g(x, a).backward()
        grads.append(a.grad)
    compare(grads[1], grads[0])
    assert strata.counters()["eager_graphs"] == 0, strata.events()


def test_loops_over_sequences_of_growing_length():
    def f(cache, x):
        cache = torch.cat([cache, x], 0)
        return cache, (cache @ x.t()).softmax(0).sum(1)

    compiled = torch.compile(f, backend="strata", fullgraph=True)
    a = b = torch.randn(3, 4)
    for _ in range(6):
        x = torch.randn(1, 4)
        a, got = compiled(a, x)
        b, want = f(b, x)
        compare(got, want)
    assert strata.counters()["compiles"] == 2 and strata.counters()["eager_graphs"] == 0


def test_sizes_that_are_rounded():
    """As PyTorch's attention has it: a size divided, as a number with a fraction, and rounded up."""

    def f(x):
        n = x.shape[0]
        return x.new_zeros(math.ceil(n / 32)) + x.amax(), x.new_ones(int(n / 3), math.floor(n / 4)) * x[0]

    check(f, *[(torch.randn(n),) for n in (64, 65, 97, 33)], compiles=1, dynamic=True)


def test_a_size_that_turns_out_to_be_fixed_between_pieces():
    """The window's length fixes the size, which stays an argument; the view of the written argument is PyTorch's."""

    def f(x):
        x[..., 2] *= 2
        return x.log_softmax(2), x.unfold(2, 3, 1)

    compiled = torch.compile(f, backend="strata", dynamic=True)
    for n in (7, 9):
        x = torch.randn(2, n, 3)
        want, got = f(x.clone()), compiled(x.clone())
        for a, b in zip(got, want):
            torch.testing.assert_close(a, b)
    assert strata.counters()["eager_graphs"] == 0, strata.events()
