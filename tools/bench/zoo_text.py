"""Models of text and sound in plain PyTorch, after the published architectures: decoders, encoders, both, a mixture of experts, an LSTM."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    """Attention of `x` to `memory`, or to itself: heads may share keys and values, a bias may be added, positions may be rotated."""

    def __init__(self, d, heads, shared=1, bias=True, size=None, scale=None):
        super().__init__()
        self.heads, self.kv, self.size, self.scale = heads, heads // shared, size or d // heads, scale
        self.q, self.out = nn.Linear(d, heads * self.size, bias), nn.Linear(heads * self.size, d, bias)
        self.k, self.v = (nn.Linear(d, self.kv * self.size, bias) for _ in range(2))

    def forward(self, x, memory=None, mask=None, causal=False, turn=None):
        memory = x if memory is None else memory
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = (f(memory).view(b, -1, self.kv, self.size).transpose(1, 2) for f in (self.k, self.v))
        if turn is not None:
            q, k = rotate(q, *turn), rotate(k, *turn)
        if self.kv != self.heads:
            k, v = (repeat(y, self.heads // self.kv) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=self.scale)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


def repeat(x, n):
    """Each head n times, one beside the other."""
    b, h, t, d = x.shape
    return x[:, :, None].expand(b, h, n, t, d).reshape(b, h * n, t, d)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def turns(length, size, like, base=10000.0):
    """Cosines and sines of rotary positions, computed in float32 at least."""
    wide = torch.promote_types(like.dtype, torch.float32)
    frequencies = base ** (-torch.arange(0, size, 2, device=like.device, dtype=wide) / size)
    angles = torch.outer(torch.arange(length, device=like.device, dtype=wide), frequencies)
    angles = torch.cat((angles, angles), -1)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


class RmsNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.weight * (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


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


class BertLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.attention, self.ln1, self.ln2 = Attention(d, heads), nn.LayerNorm(d, 1e-12), nn.LayerNorm(d, 1e-12)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask):
        x = self.ln1(x + self.attention(x, mask=mask))
        return self.ln2(x + self.out(F.gelu(self.fc(x))))


class Bert(nn.Module):
    """An encoder with norms after the layers, segments, padding, and the masked-language head."""

    def __init__(self, vocab=50, length=16, d=32, heads=4, layers=2):
        super().__init__()
        self.tokens, self.places, self.segments = nn.Embedding(vocab, d, padding_idx=0), nn.Embedding(length, d), nn.Embedding(2, d)
        self.norm, self.layers = nn.LayerNorm(d, 1e-12), nn.ModuleList(BertLayer(d, heads) for _ in range(layers))
        self.transform, self.head_norm, self.bias = nn.Linear(d, d), nn.LayerNorm(d, 1e-12), nn.Parameter(torch.zeros(vocab))
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, i, kept):
        b, t = i.shape
        segments = torch.zeros_like(i)
        x = self.norm(self.tokens(i) + self.segments(segments) + self.places(torch.arange(t, device=i.device)))
        mask = torch.zeros_like(kept, dtype=x.dtype).masked_fill(~kept, torch.finfo(x.dtype).min)[:, None, None].expand(b, 1, t, t)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head_norm(F.gelu(self.transform(x))) @ self.tokens.weight.t() + self.bias


class GatedUnit(nn.Module):
    def __init__(self, d, inner):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(d, inner, False), nn.Linear(d, inner, False), nn.Linear(inner, d, False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Of several gated units the best `chosen` of each token, weighted. All are computed: no size depends on the data."""

    def __init__(self, d, inner, experts=4, chosen=2):
        super().__init__()
        self.router, self.chosen = nn.Linear(d, experts, False), chosen
        self.gate, self.up = (nn.Parameter(torch.randn(experts, d, inner) / math.sqrt(d)) for _ in range(2))
        self.down = nn.Parameter(torch.randn(experts, inner, d) / math.sqrt(inner))

    def forward(self, x):
        flat = x.flatten(0, 1)
        logits = self.router(flat)
        best, which = logits.topk(self.chosen, -1)
        weights = torch.zeros_like(logits).scatter(1, which, best.softmax(-1))
        y = flat.expand(self.gate.shape[0], *flat.shape)
        y = torch.bmm(F.silu(torch.bmm(y, self.gate)) * torch.bmm(y, self.up), self.down)
        return (y * weights.t()[:, :, None]).sum(0).view(x.shape)


class LlamaLayer(nn.Module):
    def __init__(self, d, heads, shared, feed):
        super().__init__()
        self.attention, self.feed = Attention(d, heads, shared, bias=False), feed
        self.norm1, self.norm2 = RmsNorm(d), RmsNorm(d)

    def forward(self, x, turn):
        x = x + self.attention(self.norm1(x), causal=True, turn=turn)
        return x + self.feed(self.norm2(x))


class Llama(nn.Module):
    """A decoder with rotary positions, grouped queries, RMS norms, and gated units or experts."""

    def __init__(self, vocab=50, d=32, heads=4, shared=2, layers=2, inner=88, experts=0):
        super().__init__()
        feed = (lambda: Experts(d, inner, experts)) if experts else (lambda: GatedUnit(d, inner))
        self.tokens, self.size = nn.Embedding(vocab, d), d // heads
        self.layers = nn.ModuleList(LlamaLayer(d, heads, shared, feed()) for _ in range(layers))
        self.norm, self.head = RmsNorm(d), nn.Linear(d, vocab, False)

    def forward(self, i):
        x = self.tokens(i)
        turn = turns(i.shape[1], self.size, x)
        for layer in self.layers:
            x = layer(x, turn)
        return self.head(self.norm(x))


class T5Layer(nn.Module):
    def __init__(self, d, heads, size, inner, cross):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(d, heads, bias=False, size=size, scale=1.0), RmsNorm(d), RmsNorm(d)
        self.cross = Attention(d, heads, bias=False, size=size, scale=1.0) if cross else None
        self.norm3 = RmsNorm(d) if cross else None
        self.wi, self.wo = nn.Linear(d, inner, False), nn.Linear(inner, d, False)

    def forward(self, x, bias, memory=None):
        x = x + self.attention(self.norm1(x), mask=bias)
        if self.cross is not None:
            x = x + self.cross(self.norm3(x), memory)
        return x + self.wo(F.relu(self.wi(self.norm2(x))))


class T5Stack(nn.Module):
    def __init__(self, d, heads, size, inner, layers, cross):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(T5Layer(d, heads, size, inner, cross) for _ in range(layers)), RmsNorm(d)
        self.distances, self.causal = nn.Embedding(32, heads), cross

    def buckets(self, t, device):
        """The bucket of each distance: exact when near, logarithmic when far."""
        place = torch.arange(t, device=device)
        apart = place[None] - place[:, None]
        if self.causal:
            start, n, apart = 0, 32, -torch.min(apart, torch.zeros_like(apart))
        else:
            start, n, apart = (apart > 0).long() * 16, 16, apart.abs()
        near = n // 2
        # A little more than the published formula: else powers of two lie on the edge of two buckets, and the last bit of log decides.
        far = near + (torch.log(apart.float() / near) / math.log(128 / near) * (n - near) + 1e-3).long()
        return start + torch.where(apart < near, apart, far.clamp(max=n - 1))

    def forward(self, x, memory=None):
        t = x.shape[1]
        bias = self.distances(self.buckets(t, x.device)).permute(2, 0, 1)[None]
        if self.causal:
            bias = bias.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), torch.finfo(x.dtype).min)
        for layer in self.layers:
            x = layer(x, bias, memory)
        return self.norm(x)


class T5(nn.Module):
    """An encoder and a decoder that attends to it; positions are biases by distance."""

    def __init__(self, vocab=50, d=32, heads=4, size=8, inner=64, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocab, d)
        self.encoder, self.decoder = (T5Stack(d, heads, size, inner, layers, cross) for cross in (False, True))
        # Unscaled products need small weights, as trained ones are.
        for attention in (m for m in self.modules() if isinstance(m, Attention)):
            nn.init.normal_(attention.q.weight, std=(d * size) ** -0.5)

    def forward(self, i, o):
        x = self.decoder(self.tokens(o), self.encoder(self.tokens(i)))
        return (x * x.shape[-1] ** -0.5) @ self.tokens.weight.t()


class WhisperLayer(nn.Module):
    def __init__(self, d, heads, cross):
        super().__init__()
        self.attention, self.ln1, self.ln2 = Attention(d, heads), nn.LayerNorm(d), nn.LayerNorm(d)
        self.cross, self.ln3 = (Attention(d, heads), nn.LayerNorm(d)) if cross else (None, None)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, memory=None):
        x = x + self.attention(self.ln1(x), causal=self.cross is not None)
        if self.cross is not None:
            x = x + self.cross(self.ln3(x), memory)
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class Whisper(nn.Module):
    """Sound to text: two convolutions over a spectrogram, an encoder, a decoder."""

    def __init__(self, vocab=50, bands=8, frames=32, length=16, d=32, heads=4, layers=2):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(bands, d, 3, padding=1), nn.Conv1d(d, d, 3, stride=2, padding=1)
        rates = torch.exp(-math.log(10000) / (d // 2 - 1) * torch.arange(d // 2))
        angles = torch.arange(frames // 2)[:, None] * rates
        self.register_buffer("waves", torch.cat((angles.sin(), angles.cos()), 1))
        self.encoder, self.decoder = (nn.ModuleList(WhisperLayer(d, heads, cross) for _ in range(layers)) for cross in (False, True))
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.tokens, self.places = nn.Embedding(vocab, d), nn.Parameter(torch.randn(length, d) * 0.02)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, sound, i):
        x = F.gelu(self.conv2(F.gelu(self.conv1(sound)))).transpose(1, 2) + self.waves
        for layer in self.encoder:
            x = layer(x)
        memory, y = self.norm1(x), self.tokens(i) + self.places[: i.shape[1]]
        for layer in self.decoder:
            y = layer(y, memory)
        return self.norm2(y) @ self.tokens.weight.t()


class Lstm(nn.Module):
    """A language model of LSTM layers, step by step."""

    def __init__(self, vocab=50, d=32, layers=2):
        super().__init__()
        self.tokens, self.cells = nn.Embedding(vocab, d), nn.ModuleList(nn.LSTMCell(d, d) for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def forward(self, i):
        xs = self.tokens(i).unbind(1)
        for cell in self.cells:
            state, out = (torch.zeros_like(xs[0]),) * 2, []
            for x in xs:
                state = self.step(cell, x, *state)
                out.append(state[0])
            xs = out
        return self.head(torch.stack(xs, 1))

    def step(self, cell, x, h, c):
        gates = F.linear(x, cell.weight_ih, cell.bias_ih) + F.linear(h, cell.weight_hh, cell.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
