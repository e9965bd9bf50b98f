"""Whole models, small, in inference and in a training step: a GPT-2-style decoder and a ResNet."""

import copy

import pytest
import torch

import strata
import zoo
from conftest import check, distance


TOKENS = torch.arange(24).view(2, 12) * 7 % 50


@pytest.mark.parametrize("dynamic", [False, True])
def test_gpt(dynamic):
    check(zoo.Gpt().eval(), TOKENS, dynamic=dynamic)


def test_gpt_in_bf16():
    check(zoo.Gpt().eval().bfloat16(), TOKENS)


def test_gpt_with_growing_sequences():
    m = zoo.Gpt().eval()
    f = torch.compile(m, backend="strata", dynamic=True)
    with torch.no_grad():
        for t in (5, 9, 12):
            i = TOKENS[:, :t].contiguous()
            torch.testing.assert_close(f(i), m(i), atol=1e-4, rtol=1e-4)
    assert strata.counters()["compiles"] == 1 and strata.counters()["eager_graphs"] == 0, strata.events()


@pytest.mark.parametrize("channels_last", [False, True])
def test_resnet(channels_last):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    m = zoo.resnet().eval()
    check(m.to(memory_format=layout), torch.randn(2, 3, 32, 32).to(memory_format=layout))


def gradients(m, f, *inputs):
    m.zero_grad()
    loss = f(*inputs).square().mean()
    loss.backward()
    return [loss.detach()] + [p.grad.clone() for p in m.parameters()]


@pytest.mark.parametrize("make,inputs", [(zoo.Gpt, TOKENS), (zoo.resnet, torch.randn(4, 3, 32, 32))], ids=["gpt", "resnet"])
def test_a_training_step(make, inputs):
    m = make().train()
    exact = copy.deepcopy(m).double()
    compiled = copy.deepcopy(m)
    want = gradients(m, m, inputs)
    got = gradients(compiled, torch.compile(compiled, backend="strata"), inputs)
    exact = gradients(exact, exact, inputs.double() if inputs.is_floating_point() else inputs)
    whole = lambda grads: torch.cat([g.flatten().double() for g in grads])
    assert distance(whole(got), whole(exact)) <= max(2 * distance(whole(want), whole(exact)), 1e-6)
    for a, b in zip(m.buffers(), compiled.buffers()):
        torch.testing.assert_close(a, b)
    assert strata.counters()["eager_graphs"] == 0, strata.events()
    assert strata.counters()["compiles"] == 2
