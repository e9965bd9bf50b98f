"""The kernels that are measured: inputs, function, and what the least work is."""

import dataclasses
import fnmatch
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

import measure

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


@dataclasses.dataclass(frozen=True)
class Arg:
    """An input: a shape and how its numbers are drawn (normal, positive: at least 0.5, shifted: around 1, index: below `high`)."""

    shape: tuple
    draw: str = "normal"
    high: int = 0

    def make(self, device, dtype, layout=""):
        if self.draw == "index":
            return torch.randint(self.high, self.shape, device=device)
        shape, elements = list(self.shape), math.prod(self.shape)
        if layout == "strided":  # every row is the start of a longer one
            shape[-1] += 5
        t = torch.randn(elements + 1 if layout == "offset" else math.prod(shape), device=device, dtype=dtype)
        t = t[1:].view(self.shape) if layout == "offset" else t.view(shape)[..., : self.shape[-1]]
        if self.draw == "positive":
            t.abs_().add_(0.5)
        return t.add_(1) if self.draw == "shifted" else t


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    group: str
    args: tuple
    fn: Callable
    flops: int = 0
    accumulates: bool = False
    """The function names the type in which it sums: `wide`, float32 unless told."""
    reads: Callable = lambda args: measure.size(args)
    """The fewest bytes that must be read."""
    dtype: str | None = None
    """A type that this case always has."""
    by_batch: bool = False
    """The exact result is computed one element of the first dimension after the other, for it takes much memory."""

    def inputs(self, device, dtype, layout, seed):
        torch.manual_seed(seed)
        return [a.make(device, DTYPES[self.dtype or dtype], layout) for a in self.args]

    def exact(self, inputs):
        """The same function by PyTorch in float64."""
        if self.by_batch:
            return torch.cat([self.fn(*measure.wide(parts)) for parts in zip(*(t.split(1) for t in inputs))])
        return self.fn(*measure.wide(inputs), **({"wide": torch.float64} if self.accumulates else {}))

    def floor_ms(self, inputs, outputs, rates):
        """The least time for the bytes, as a copy of what is both read and written and at the read rate what more is read; or for
        the flops, where that is longer."""
        reads, writes = self.reads(inputs), measure.size(outputs)
        both = min(reads, writes)
        bytes_ms = (both + writes) / rates["copy_gbs"] + (reads - both) / rates["read_gbs"]
        return 1e-6 * bytes_ms if not self.flops else max(1e-6 * bytes_ms, 1e-9 * self.flops / rates["tflops"])


# ---- pointwise ----
def bias_gelu_residual(x, residual, bias):
    return residual + F.gelu(x + bias, approximate="tanh")


def silu_mul(gate, up):
    return up * F.silu(gate)


def gated_halves(x):
    gate, up = x.split(x.shape[-1] // 2, -1)
    return up * F.silu(gate)


def batch_norm_relu(x, mean, var, weight, bias):
    return F.batch_norm(x, mean, var, weight, bias).relu()


# ---- rows ----
def softmax(x):
    return x.softmax(-1)


def layernorm(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def add_layernorm(x, residual, weight, bias):
    return layernorm(x + residual, weight, bias)


def rmsnorm(x, weight, *, wide=torch.float32):
    y = x.to(wide)
    return (y * (y.square().mean(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype) * weight


def embedding_layernorm(tokens, table, places, weight, bias):
    return layernorm(F.embedding(tokens, table) + places, weight, bias)


def groupnorm_silu(x, weight, bias):
    return F.silu(F.group_norm(x, 32, weight, bias))


def cross_entropy(logits, labels, *, wide=torch.float32):
    return F.cross_entropy(logits.to(wide), labels)


def distinct_rows(args):
    """Of a table only the rows that are looked up are read."""
    tokens, table, *rest = args
    return measure.size([tokens, rest]) + tokens.unique().numel() * measure.size(table[0])


# ---- reductions ----
def sum_rows(x, *, wide=torch.float32):
    return x.sum(-1, dtype=wide)


def sum_cols(x, *, wide=torch.float32):
    return x.sum(0, dtype=wide)


def sum_all(x, *, wide=torch.float32):
    return x.sum(dtype=wide)


def max_rows(x):
    return x.amax(-1)


# ---- layout ----
def transpose_add(x, y):
    return (x.t() + y.t()).contiguous()


def rope(x, cos, sin):
    a, b = x.split(x.shape[-1] // 2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


# ---- scans and scatters ----
def cumsum_rows(x):
    return x.cumsum(-1)


def scatter_add(base, index, x):
    return base.scatter_add(-1, index, x)


def index_add(base, index, x):
    return base.index_add(0, index, x)


# ---- products ----
def product(a, b):
    return a @ b.t()


def product_bias_gelu(a, b, bias):
    return F.gelu(a @ b.t() + bias, approximate="tanh")


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def attention_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention_written_out(q, k, v):
    return ((q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])).softmax(-1) @ v


# One list of sizes a machine class. `x` is most kernels' [rows, columns]; `elements` and `columns` make the rows of the softmax series.
SIZES = {
    "cuda": dict(
        x=(16384, 4096), elements=1 << 26, columns=(256, 512, 1024, 2048, 8192, 16384, 32768, 65536, 131072), image=(64, 256, 56, 56),
        groups=((8, 320, 64, 64), (8, 1280, 16, 16)), tokens=(50257, 768, 32, 1024), logits=(4096, 131072), heads=(8, 32, 4096, 128),
        scatter=(16384, 1024, 4096), product=((4096, 4096, 4096), (16, 4096, 4096)), attention=(4, 32, 4096, 128), written=(4, 16, 2048, 64),
    ),
    "cpu": dict(
        x=(4096, 4096), elements=1 << 24, columns=(256, 512, 1024, 2048, 8192, 16384, 32768, 65536, 131072), image=(4, 256, 56, 56),
        groups=((2, 320, 64, 64), (2, 1280, 16, 16)), tokens=(50257, 768, 4, 1024), logits=(64, 131072), heads=(1, 32, 1024, 128),
        scatter=(2048, 1024, 4096), product=((1024, 1024, 1024), (16, 4096, 4096)), attention=(1, 8, 512, 64), written=(1, 8, 512, 64),
    ),
    "small": dict(
        x=(64, 128), elements=1 << 13, columns=(256, 512, 1024, 2048, 8192), image=(2, 8, 6, 6),
        groups=((2, 64, 4, 4),), tokens=(100, 32, 2, 8), logits=(8, 512), heads=(1, 2, 8, 16),
        scatter=(8, 16, 32), product=((32, 48, 64), (4, 64, 64)), attention=(1, 2, 16, 16), written=(1, 2, 16, 16),
    ),
    "odd": dict(
        x=(1003, 4093), elements=1 << 22, columns=(255, 1025, 2047, 8191, 16385, 32767, 65537, 131071), image=(5, 251, 55, 57),
        groups=((3, 96, 61, 63),), tokens=(50257, 771, 5, 333), logits=(131, 131071), heads=(3, 5, 1001, 122),
        scatter=(1003, 1021, 4093), product=((1003, 4093, 777), (13, 4093, 4099)), attention=(3, 5, 333, 72), written=(3, 5, 333, 72),
    ),
    "small odd": dict(
        x=(37, 131), elements=1 << 12, columns=(255, 1025, 2047), image=(3, 7, 5, 9),
        groups=((3, 96, 3, 5),), tokens=(101, 35, 3, 7), logits=(5, 511), heads=(1, 3, 7, 10),
        scatter=(5, 13, 31), product=((33, 45, 61), (3, 61, 67)), attention=(1, 3, 13, 24), written=(1, 3, 13, 24),
    ),
}  # fmt: skip


def short(n):
    return f"{n >> 10}k" if n >= 1024 and n % 1024 == 0 else str(n)


def every(kind):
    """All cases in the sizes of one class."""
    s = SIZES[kind]
    x, row, image = Arg(s["x"]), Arg(s["x"][1:]), Arg(s["image"])
    channels, (vocabulary, width, batch, length) = s["image"][1:2], s["tokens"]
    out = [
        Case("bias_gelu_residual", "pointwise", (x, x, row), bias_gelu_residual),
        Case("silu_mul", "pointwise", (x, x), silu_mul),
        Case("gated_halves", "pointwise", (Arg((s["x"][0], 2 * s["x"][1])),), gated_halves),
        Case("batch_norm_relu", "pointwise", (image, Arg(channels), Arg(channels, "positive"), Arg(channels), Arg(channels)), batch_norm_relu),
        Case("softmax_4k", "rows", (x,), softmax),
        Case("layernorm", "rows", (x, row, row), layernorm),
        Case("add_layernorm", "rows", (x, x, row, row), add_layernorm),
        Case("rmsnorm", "rows", (x, row), rmsnorm, accumulates=True),
        Case(
            "embedding_layernorm", "rows",
            (Arg((batch, length), "index", vocabulary), Arg((vocabulary, width)), Arg((length, width)), Arg((width,)), Arg((width,))),
            embedding_layernorm, reads=distinct_rows,
        ),
    ]  # fmt: skip
    for g in s["groups"]:
        out.append(Case(f"groupnorm_silu_{'x'.join(map(str, g))}", "rows", (Arg(g), Arg(g[1:2]), Arg(g[1:2])), groupnorm_silu))
    for n in s["columns"]:
        out.append(Case(f"softmax_{short(n)}", "softmax series", (Arg((max(1, s["elements"] // n), n)),), softmax))
    rows, n = s["logits"]
    out += [
        Case("cross_entropy", "rows", (Arg((rows, n)), Arg((rows,), "index", n)), cross_entropy, accumulates=True),
        Case("sum_rows", "reductions", (x,), sum_rows, accumulates=True),
        Case("sum_cols", "reductions", (x,), sum_cols, accumulates=True),
        # Around 1: a sum of numbers around 0 would cancel, and its error say nothing.
        Case("sum_all", "reductions", (Arg(s["x"], "shifted"),), sum_all, accumulates=True),
        Case("max_rows", "reductions", (x,), max_rows),
        Case("transpose_add", "layout", (x, x), transpose_add),
    ]
    heads = s["heads"]
    table = Arg((heads[2], heads[3] // 2))
    rows, m, n = s["scatter"]
    out += [
        Case("rope", "layout", (Arg(heads), table, table), rope),
        Case("cumsum_rows", "scans", (x,), cumsum_rows, dtype="f32"),
        Case("scatter_add", "scans", (Arg((rows, m)), Arg((rows, n), "index", m), Arg((rows, n))), scatter_add, dtype="f32"),
        Case(
            "index_add", "scans", (Arg((vocabulary, width)), Arg((batch * length,), "index", vocabulary), Arg((batch * length, width))),
            index_add, dtype="f32",
        ),
    ]  # fmt: skip
    for m, n, k in s["product"]:
        a, b, flops, name = Arg((m, k)), Arg((n, k)), 2 * m * n * k, f"{m}x{n}x{k}"
        out.append(Case(f"product_{name}", "products", (a, b), product, flops))
        out.append(Case(f"product_bias_gelu_{name}", "products", (a, b, Arg((n,))), product_bias_gelu, flops))
    for name, fn, shape, share in (
        ("attention", attention, s["attention"], 1),
        ("attention_causal", attention_causal, s["attention"], 2),
        ("attention_written_out", attention_written_out, s["written"], 1),
    ):
        b, h, t, d = shape
        out.append(Case(name, "attention", (Arg(shape),) * 3, fn, 4 * b * h * t * t * d // share, by_batch=True))
    return out


def chosen(cases, patterns):
    """The cases whose name or group one of the patterns (with * and ?) matches, in their order; a pattern without a match is an error."""
    for p in patterns:
        if not any(fnmatch.fnmatchcase(text, p) for c in cases for text in (c.name, c.group)):
            raise LookupError(f"no case and no group is called {p}; --list shows all")
    return [c for c in cases if not patterns or any(fnmatch.fnmatchcase(text, p) for p in patterns for text in (c.name, c.group))]
