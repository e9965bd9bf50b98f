"""Whole models, small, in inference and in a training step: a GPT-2-style decoder and a ResNet."""

import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import strata
from conftest import check, distance


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1, self.ln2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
        self.qkv, self.proj, self.fc, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocab=50, d=32, heads=4, layers=2, length=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.blocks, self.norm = nn.ModuleList(Block(d, heads) for _ in range(layers)), nn.LayerNorm(d)

    def forward(self, i):
        x = self.tokens(i) + self.places(torch.arange(i.shape[1], device=i.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.t()


class Bottleneck(nn.Module):
    def __init__(self, cin, c, stride=1):
        super().__init__()
        conv = lambda i, o, k, s=1: nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o))
        self.body = nn.Sequential(conv(cin, c, 1), nn.ReLU(), conv(c, c, 3, stride), nn.ReLU(), conv(c, 4 * c, 1))
        self.skip = conv(cin, 4 * c, 1, stride) if stride != 1 or cin != 4 * c else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet():
    stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(stem, Bottleneck(8, 4), Bottleneck(16, 4), Bottleneck(16, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


TOKENS = torch.arange(24).view(2, 12) * 7 % 50


@pytest.mark.parametrize("dynamic", [False, True])
def test_gpt(dynamic):
    check(Gpt().eval(), TOKENS, dynamic=dynamic)


def test_gpt_in_bf16():
    check(Gpt().eval().bfloat16(), TOKENS)


def test_gpt_with_growing_sequences():
    m = Gpt().eval()
    f = torch.compile(m, backend="strata", dynamic=True)
    with torch.no_grad():
        for t in (5, 9, 12):
            i = TOKENS[:, :t].contiguous()
            torch.testing.assert_close(f(i), m(i), atol=1e-4, rtol=1e-4)
    assert strata.counters()["compiles"] == 1 and strata.counters()["eager_graphs"] == 0, strata.events()


@pytest.mark.parametrize("channels_last", [False, True])
def test_resnet(channels_last):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    m = resnet().eval()
    for bn in (b for b in m.modules() if isinstance(b, nn.BatchNorm2d)):
        bn.running_mean.normal_(), bn.running_var.uniform_(0.5, 2)
    check(m.to(memory_format=layout), torch.randn(2, 3, 32, 32).to(memory_format=layout))


def gradients(m, f, *inputs):
    m.zero_grad()
    loss = f(*inputs).square().mean()
    loss.backward()
    return [loss.detach()] + [p.grad.clone() for p in m.parameters()]


@pytest.mark.parametrize("make,inputs", [(Gpt, TOKENS), (resnet, torch.randn(4, 3, 32, 32))], ids=["gpt", "resnet"])
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
