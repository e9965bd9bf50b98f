"""Whole models, small, in inference and in a training step."""

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


NAMES = ["gpt2", "bert", "llama", "t5", "experts", "whisper", "lstm", "resnet50", "vit", "convnext", "unet"]


@pytest.mark.parametrize("name", NAMES)
def test_the_zoo(name):
    model, inputs = zoo.MODELS[name].build("cpu", small=True)
    check(model.eval(), *inputs, fallbacks=None, calls=1)
    # A router picks and places experts: of those ops there may be some.
    assert strata.counters()["fallbacks"] <= (4 if name == "experts" else 0), strata.events()


def gradients(m, f, *inputs):
    m.zero_grad()
    loss = f(*inputs)
    loss.backward()
    return [loss.detach()] + [p.grad.clone() for p in m.parameters() if p.grad is not None]


@pytest.mark.parametrize("name", ["gpt", "resnet", "bert", "llama", "vit"])
def test_a_training_step(name):
    tiny = {"gpt": lambda: (zoo.Gpt(), (TOKENS,)), "resnet": lambda: (zoo.resnet(), (torch.randn(4, 3, 32, 32),))}
    m, inputs = tiny[name]() if name in tiny else zoo.MODELS[name].build("cpu", small=True)
    m.train()
    step = lambda m: lambda *x: zoo.loss(m(*x))
    exact, compiled = copy.deepcopy(m).double(), copy.deepcopy(m)
    want = gradients(m, step(m), *inputs)
    got = gradients(compiled, torch.compile(step(compiled), backend="strata", fullgraph=True), *inputs)
    exact = gradients(exact, step(exact), *(i.double() if i.is_floating_point() else i for i in inputs))
    whole = lambda grads: torch.cat([g.flatten().double() for g in grads])
    assert distance(whole(got), whole(exact)) <= max(2 * distance(whole(want), whole(exact)), 1e-6)
    for a, b in zip(m.buffers(), compiled.buffers()):
        torch.testing.assert_close(a, b)
    assert strata.counters()["eager_graphs"] == 0, strata.events()
    assert strata.counters()["compiles"] == 2
