"""Whole models for the benchmark and the tests: random weights, no dropout."""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    """A transformer layer: norm first, causal attention, tanh-GELU."""

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
    """A GPT-2-style decoder; the head shares the embedding's weight."""

    def __init__(self, vocab=50, length=16, d=32, heads=4, layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.blocks, self.norm = nn.ModuleList(Block(d, heads) for _ in range(layers)), nn.LayerNorm(d)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, i):
        x = self.tokens(i) + self.places(torch.arange(i.shape[1], device=i.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.t()


def conv(i, o, k, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, k, stride, k // 2, bias=False), nn.BatchNorm2d(o))


class Bottleneck(nn.Module):
    def __init__(self, cin, c, stride=1):
        super().__init__()
        self.body = nn.Sequential(conv(cin, c, 1), nn.ReLU(), conv(c, c, 3, stride), nn.ReLU(), conv(c, 4 * c, 1))
        self.skip = conv(cin, 4 * c, 1, stride) if stride != 1 or cin != 4 * c else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet(stem=8, stages=((4, 2), (8, 1)), classes=10):
    """A ResNet of bottlenecks: (channels, depth) a stage. Batch norms have means and variances as if trained."""
    layers, cin = [conv(3, stem, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], stem
    for stage, (c, depth) in enumerate(stages):
        for i in range(depth):
            layers.append(Bottleneck(cin, c, 2 if stage and not i else 1))
            cin = 4 * c
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, classes))
    for bn in (b for b in model.modules() if isinstance(b, nn.BatchNorm2d)):
        bn.running_mean.normal_(std=0.1), bn.running_var.uniform_(0.5, 1.5)
    return model


def gpt2(batch, length, small):
    vocab, *rest = (500, 64, 64, 4, 2) if small else (50257, 1024, 768, 12, 12)
    return Gpt(vocab, *rest), torch.randint(0, vocab, (batch, length))


def resnet50(images, side, small):
    model = resnet(8, ((8, 1), (16, 1), (32, 2), (64, 1))) if small else resnet(64, ((64, 3), (128, 4), (256, 6), (512, 3)), 1000)
    return model, torch.randn(images, 3, side, side)


@dataclasses.dataclass(frozen=True)
class Entry:
    """How a model and its input are made: (amounts…, small) -> (model, input)."""

    make: Callable
    cuda: tuple
    cpu: tuple
    small: tuple

    def build(self, device, small):
        return self.make(*(self.small if small else getattr(self, device)), small)


MODELS = {
    # Tokens: sequences × length.
    "gpt2": Entry(gpt2, (8, 512), (1, 128), (2, 64)),
    # Little work a kernel: what a call costs the host shows.
    "gpt2_short": Entry(gpt2, (1, 16), (1, 16), (1, 16)),
    # Images × side.
    "resnet50": Entry(resnet50, (64, 224), (4, 224), (2, 64)),
}
