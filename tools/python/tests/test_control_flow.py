"""Graphs of which PyTorch runs a part between compiled pieces: control flow, custom ops, effects, FlexAttention."""

import pytest
import torch
import torch.nn.functional as F
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import strata
from conftest import compare, same_strides


def check(fn, *inputs, grad=False, compiles=None, fallbacks=None, **compile_args):
    """Compiled and eager, twice, with gradients if asked; no graph runs whole in PyTorch."""
    results = []
    compiled = torch.compile(fn, backend="strata", **compile_args)
    for f in (fn, compiled, compiled):
        given = [t.clone().requires_grad_(grad and t.is_floating_point()) if isinstance(t, torch.Tensor) else t for t in inputs]
        out = f(*given)
        if grad:
            torch.utils._pytree.tree_leaves(out)[0].square().sum().backward()
        results.append((out, [t.grad for t in given if isinstance(t, torch.Tensor)], [t for t in given if isinstance(t, torch.Tensor)]))
    for got in results[1:]:
        compare(got, results[0])
        same_strides(got[0], results[0][0])
    counted = strata.counters()
    assert counted["eager_graphs"] == 0, strata.events()
    assert compiles is None or counted["compiles"] == compiles, counted
    reasons = [e["reason"].split(":")[0] for e in strata.events()]
    assert fallbacks is None or reasons == fallbacks, reasons


def test_cond_compiles_its_bodies():
    def f(x):
        y = x * 2
        return torch.cond(y.sum() > 0, lambda y: y * 2 + 1, lambda y: y.sin() * y, (y,)) + 1

    for x in (torch.ones(4), -torch.ones(4)):
        torch._dynamo.reset()
        strata.reset_counters()
        check(f, x, compiles=3, fallbacks=["cond"])
    line = f.__code__.co_firstlineno + 2
    assert strata.events()[0]["location"] == f"{__file__}:{line}"


def test_gradients_of_cond():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x * x, (x,)) + 1

    check(f, torch.randn(4), grad=True)


def test_nested_control_flow():
    def f(x):
        def inner(y):
            return torch.cond(y.sum() > 3, lambda y: y / 2, lambda y: y * 3, (y,))

        return torch.cond(x.sum() > 0, inner, lambda x: x.cos(), (x,))

    check(f, torch.ones(5))


def test_while_loop():
    def f(x):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + i), (torch.tensor(0), x))[1] * 2

    check(f, torch.randn(4), compiles=4, fallbacks=["while_loop"])


def test_scans():
    def f(x):
        carry, ys = scan(lambda c, x: (c + x, c * x), torch.zeros(3), x)
        return carry, ys, associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")

    check(f, torch.randn(5, 3))


def test_a_region_that_is_compiled_once():
    @torch.compiler.nested_compile_region
    def layer(x, w):
        return (x @ w).relu()

    def f(x, w):
        for _ in range(4):
            x = layer(x, w)
        return x

    check(f, torch.randn(3, 4), torch.randn(4, 4), compiles=1, fallbacks=["invoke_subgraph"] * 4)
    torch._dynamo.reset()
    check(f, torch.randn(3, 4), torch.randn(4, 4), grad=True)


@torch.library.custom_op("strata_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    assert x.stride() == (1, 4), x.stride()
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("strata_test::increase", mutates_args={"y"})
def increase(x: torch.Tensor, y: torch.Tensor) -> None:
    y.add_(x)


def test_custom_ops_see_the_strides_that_they_expect():
    def f(x):
        return twice((x + 1).t()) * 3

    check(f, torch.randn(3, 4), fallbacks=["strata_test.twice.default"])


def test_custom_ops_with_mutations():
    def f(x, y):
        z = y * 2
        increase(x, z)
        increase(x, y)
        increase(z[:2], y[1:3])
        return z + 1

    check(f, torch.randn(3), torch.randn(4, 3))


def test_a_custom_op_without_registration_of_strides_runs_within_the_graph():
    def f(x):
        return torch.special.i0(x + 1) * 2

    check(f, torch.randn(3), compiles=1)


def test_effects_happen_in_order(capfd):
    def f(x, n):
        torch._higher_order_ops.print("first {}", n)
        y = x.sin()
        torch._higher_order_ops.print("second {}", n + 1)
        return y * 2

    compiled = torch.compile(f, backend="strata", fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(3), 3), torch.ones(3).sin() * 2)
    out = capfd.readouterr().out
    assert out.index("first 3") < out.index("second 4")
    assert strata.counters()["eager_graphs"] == 0


@pytest.mark.parametrize("dynamic", [False, True])
def test_flex_attention(dynamic):
    q, k, v = (torch.randn(1, 16, 2, 8).transpose(1, 2) for _ in range(3))
    bias = torch.randn(2)
    causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")

    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h] * (i - j), block_mask=causal)

    check(f, q, k, v, compiles=1, fallbacks=[], dynamic=dynamic)
    mask = torch.ones(16, 16, dtype=torch.bool).tril()
    alone = torch.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=causal), backend="strata")
    torch.testing.assert_close(alone(q, k, v), F.scaled_dot_product_attention(q, k, v, attn_mask=mask), atol=1e-5, rtol=1e-5)


def test_layouts_that_strata_lacks():
    def f(x):
        s = (x + 1).to_sparse()
        return torch.sparse.mm(s, x.t()) * 2

    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(f, backend="strata")(x), f(x))
