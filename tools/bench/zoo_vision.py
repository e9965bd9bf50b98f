"""Models of images in plain PyTorch, after the published architectures."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from zoo_text import Attention


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


class VitLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.attention, self.ln1, self.ln2 = Attention(d, heads), nn.LayerNorm(d, 1e-6), nn.LayerNorm(d, 1e-6)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class Vit(nn.Module):
    """Patches, a class token, an encoder."""

    def __init__(self, side=32, patch=8, d=32, heads=4, layers=2, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, d, patch, patch)
        self.first, self.places = nn.Parameter(torch.randn(1, 1, d) * 0.02), nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, d) * 0.02)
        self.layers, self.norm, self.head = nn.Sequential(*(VitLayer(d, heads) for _ in range(layers))), nn.LayerNorm(d, 1e-6), nn.Linear(d, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of images."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c, 1e-6)
        self.fc, self.out, self.scale = nn.Linear(c, 4 * c), nn.Linear(4 * c, c), nn.Parameter(torch.full((c,), 0.1))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.out(F.gelu(self.fc(y)))).permute(0, 3, 1, 2)


def convnext(channels=(8, 16, 24, 32), depths=(1, 1, 2, 1), classes=10):
    layers, last = [nn.Conv2d(3, channels[0], 4, 4), ChannelNorm(channels[0], 1e-6)], channels[0]
    for stage, (c, depth) in enumerate(zip(channels, depths)):
        if stage:
            layers += [ChannelNorm(last, 1e-6), nn.Conv2d(last, c, 2, 2)]
        layers += [ConvNextLayer(c) for _ in range(depth)]
        last = c
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(last, 1e-6), nn.Linear(last, classes))


class Residual(nn.Module):
    """Two convolutions with group norms; the time is added between them."""

    def __init__(self, cin, c, times, groups):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, cin), nn.GroupNorm(groups, c)
        self.conv1, self.conv2, self.time = nn.Conv2d(cin, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1), nn.Linear(times, c)
        self.skip = nn.Conv2d(cin, c, 1) if cin != c else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class PixelAttention(nn.Module):
    def __init__(self, c, heads, groups):
        super().__init__()
        self.norm, self.attention = nn.GroupNorm(groups, c), Attention(c, heads)

    def forward(self, x):
        y = self.attention(self.norm(x).flatten(2).transpose(1, 2))
        return x + y.transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    """A diffusion model's network: down and up again with attention where images are small, and the time of the noise."""

    def __init__(self, c=16, factors=(1, 2), depth=1, heads=2, groups=4):
        super().__init__()
        times, widths, last, kept = 4 * c, [c * f for f in factors], c, [c]
        self.c, self.time = c, nn.Sequential(nn.Linear(c, times), nn.SiLU(), nn.Linear(times, times))
        self.first, self.down, self.up = nn.Conv2d(3, c, 3, padding=1), nn.ModuleList(), nn.ModuleList()
        for level, w in enumerate(widths):
            deepest = level == len(widths) - 1
            for _ in range(depth):
                self.down.append(nn.ModuleList([Residual(last, w, times, groups), PixelAttention(w, heads, groups) if deepest else nn.Identity()]))
                last = w
                kept.append(w)
            if not deepest:
                self.down.append(nn.Conv2d(w, w, 3, 2, 1))
                kept.append(w)
        self.middle = nn.ModuleList([Residual(last, last, times, groups), PixelAttention(last, heads, groups), Residual(last, last, times, groups)])
        for level, w in reversed(list(enumerate(widths))):
            deepest = level == len(widths) - 1
            for _ in range(depth + 1):
                self.up.append(nn.ModuleList([Residual(last + kept.pop(), w, times, groups), PixelAttention(w, heads, groups) if deepest else nn.Identity()]))
                last = w
            if level:
                self.up.append(nn.Conv2d(w, w, 3, padding=1))
        self.norm, self.last = nn.GroupNorm(groups, last), nn.Conv2d(last, 3, 3, padding=1)

    def forward(self, x, t):
        rates = torch.exp(-math.log(10000) * torch.arange(self.c // 2, device=x.device, dtype=torch.float32) / (self.c // 2))
        angles = t[:, None].float() * rates
        time = self.time(torch.cat((angles.cos(), angles.sin()), -1).to(x.dtype))
        x = self.first(x)
        kept = [x]
        for step in self.down:
            x = step(x) if isinstance(step, nn.Conv2d) else step[1](step[0](x, time))
            kept.append(x)
        first, attention, second = self.middle
        x = second(attention(first(x, time)), time)
        for step in self.up:
            if isinstance(step, nn.Conv2d):
                x = step(F.interpolate(x, scale_factor=2.0, mode="nearest"))
            else:
                x = step[1](step[0](torch.cat((x, kept.pop()), 1), time))
        return self.last(F.silu(self.norm(x)))
