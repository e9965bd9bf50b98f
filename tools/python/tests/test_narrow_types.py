"""Bytes without a sign, 16-bit integers, and the 8-bit floats, which hold elements and compute nothing."""

import pytest
import torch
import torch.nn.functional as F

import conftest
import strata

INTS = [torch.uint8, torch.int16]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]


def whole(dtype, *shape):
    """From the whole range, limits included."""
    info = torch.iinfo(dtype)
    x = torch.randint(info.min, info.max + 1, shape, dtype=dtype)
    x.view(-1)[:3] = torch.tensor([info.min, info.max, 0], dtype=dtype)
    return x


def nonzero(x):
    return torch.where(x == 0, torch.ones_like(x), x)


def check(f, *inputs, **how):
    """Functions of PyTorch share a frame, which Dynamo compiles so often only."""
    torch._dynamo.reset()
    return conftest.check(f, *inputs, **how)


def run(f, *inputs):
    torch._dynamo.reset()
    return torch.compile(f, backend="strata")(*inputs)


BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum,
    "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor, "true_divide": torch.true_divide,
    "compare": lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b), "where": lambda a, b: torch.where(a > b, a, b),
    "cat": lambda a, b: torch.cat([a, b], 1), "logical": torch.logical_xor,
}
DIVIDING = {
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"), "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder, "fmod": torch.fmod, "gates": lambda a, b: a // b + a % b,
}


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_two_operands_wrap_and_keep_their_sign(dtype):
    x, y = whole(dtype, 5, 67), whole(dtype, 5, 67)
    check(lambda a, b: [f(a, b) for f in BINARY.values()], x, y)
    for other in (torch.int8, torch.uint8, torch.int16, torch.int64):
        check(lambda a, b: [f(a, b) for f in BINARY.values()], x, y.to(other))
    check(lambda a, b: [f(a, b) for name, f in BINARY.items() if name not in ("and", "or", "xor")], x, y.float())
    check(lambda a, b: [f(a, b) for f in DIVIDING.values()], x, nonzero(y))
    check(torch.pow, x, torch.randint(0, 9, (5, 67), dtype=dtype))
    check(lambda x: (x + 7, x * 3, x // 5, x % 7, x > 100, 9 - x, x.clamp(3, 90), x & 12), x)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_shifts_end_at_the_width(dtype):
    x, n = whole(dtype, 3, 40), torch.randint(0, 20, (3, 40), dtype=dtype)
    check(lambda x, n: (x << n, x >> n, x << 3, x >> 3), x, n)


UNARY = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "not": torch.bitwise_not, "relu": torch.relu, "square": torch.square,
    "exp": lambda x: (x % 8).exp(), "float": lambda x: x.float() / 255, "bfloat16": lambda x: x.bfloat16(), "bool": lambda x: x.bool(),
    "int8": lambda x: x.to(torch.int8), "uint8": lambda x: x.to(torch.uint8), "int16": lambda x: x.short(), "int64": lambda x: x.long(),
    "flip": lambda x: x.flip(1), "pad": lambda x: F.pad(x, (1, 2), value=7), "t": lambda x: x.t().contiguous(), "tril": torch.tril,
    "masked": lambda x: x.masked_fill(x > 50, 3), "made": lambda x: (torch.zeros_like(x), torch.full((3,), 77, dtype=x.dtype), torch.eye(3, dtype=x.dtype)),
    "arange": lambda x: torch.arange(3, 90, 2, dtype=x.dtype), "mm": lambda x: x @ x.t(), "scalar": lambda x: x + x[0, 0],
}
REDUCTIONS = {
    "sum": torch.sum, "rows": lambda x: x.sum(1), "same": lambda x: x.sum(0, dtype=x.dtype), "max": lambda x: x.max(), "maxima": lambda x: x.max(1),
    "minima": lambda x: x.min(0), "amax": lambda x: x.amax(0), "argmax": torch.argmax, "argmin": lambda x: x.argmin(1), "prod": lambda x: x.prod(1),
    "any": lambda x: x.any(1), "all": torch.all, "cumsum": lambda x: x.cumsum(1), "cumprod": lambda x: x.cumprod(0, dtype=x.dtype), "sort": lambda x: x.sort(stable=True, dim=1),
    "top": lambda x: x.topk(3).values, "median": lambda x: x.median(1).values,
    "mean": lambda x: x.float().mean(1),
}


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_one_operand_and_reductions(dtype):
    x = whole(dtype, 9, 70)
    for functions in (UNARY, REDUCTIONS):
        check(lambda x: [f(x) for f in functions.values()], x)
    check(lambda x: x * 3 + 1, x[:0])
    check(lambda x: (x.sum(), x * 2), whole(dtype, 6, 33).t(), dynamic=True)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_gathers_and_scatters(dtype):
    x, i = whole(dtype, 5, 37), torch.tensor([[0, 5, 3]] * 5)
    check(lambda x, i: (x.gather(1, i), x[:, i[0]], x.index_select(0, i[0] % 5), x.take(i)), x, i)
    check(lambda x, i: F.embedding(i, x), x, torch.tensor([0, 3, 2]))
    check(lambda x, i: x.scatter(1, i, 9), x, i)
    for reduce in ("amax", "amin", "sum", "prod"):
        check(lambda x, i: x.scatter_reduce(1, i * 0, x, reduce), x, i)
    check(lambda x, i: (x.index_add(0, i[0] % 2, x[:3]), x.index_put((i[0] % 5,), x[:3])), x, i)


def test_floats_become_bytes_modulo_256():
    x = torch.tensor([-1.5, -0.3, 0.7, 255.9, 256.0, 300.0, -300.0, 1e4, -1e4, 3.9, 0.0])
    check(lambda *x: [v.to(torch.uint8) for v in x], x, x.double(), x.bfloat16(), x.half())
    check(lambda x: x.byte(), torch.arange(-600, 600))


def test_images_become_floats():
    mean, deviation = torch.tensor([0.4, 0.5, 0.6])[:, None, None], torch.tensor([0.2, 0.3, 0.4])[:, None, None]
    check(lambda x: (x.float() / 255 - mean) / deviation, whole(torch.uint8, 2, 3, 9, 11), dynamic=True)
    check(lambda x: F.max_pool2d((x / 255).to(torch.bfloat16), 2), whole(torch.uint8, 2, 3, 9, 11))
    check(lambda x: (x * 255).round().clamp(0, 255).to(torch.uint8), torch.rand(3, 9, 11))


def test_bytes_as_indices_are_masks():
    def f(x, m):
        return x.index_put((m,), x.new_zeros(()))

    x, m = torch.randn(4), torch.tensor([1, 0, 2, 0], dtype=torch.uint8)
    torch.testing.assert_close(run(f, x, m), f(x, m.bool()))


def test_bits_under_another_type():
    check(lambda x: x.view(torch.bfloat16), whole(torch.int16, 40).clamp(0, 16000))
    check(lambda x: x.view(torch.int16) + 1, torch.randn(40).bfloat16())
    check(lambda x: x.view(torch.uint8) >> 3, torch.randint(-128, 128, (40,), dtype=torch.int8))


def bits(x):
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_every_half_to_eight_bits(dtype):
    every = torch.arange(-(2**15), 2**15).to(torch.int16)
    for source in (torch.bfloat16, torch.float16):
        x = every.view(source)
        assert torch.equal(bits(run(lambda x: x.to(dtype), x)), bits(x.to(dtype)))
    # Around each number and each tie, and anything.
    numbers = torch.arange(256).to(torch.uint8).view(dtype).float()
    near = torch.cat([numbers, (numbers[1:] + numbers[:-1]) / 2]).view(torch.int32)
    anything = torch.randint(-(2**31), 2**31, (2**16,)).to(torch.int32)
    x = torch.cat([near, near + 1, near - 1, anything]).view(torch.float32)
    assert torch.equal(bits(run(lambda x: x.to(dtype), x)), bits(x.to(dtype)))
    assert torch.equal(bits(run(lambda x: x.to(dtype), x.double())), bits(x.double().to(dtype)))
    i = torch.arange(-600, 600)
    assert torch.equal(bits(run(lambda i: i.to(dtype), i)), bits(i.to(dtype)))
    assert strata.counters()["fallbacks"] == 0


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_every_eight_bits_to_others(dtype):
    x = torch.arange(256).to(torch.uint8).view(dtype)
    others = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    for got in run(lambda x: [x.to(other) for other in others], x):
        want = x.to(got.dtype)
        assert torch.equal(got.isnan(), want.isnan())
        assert torch.equal(bits(got)[~want.isnan()], bits(want)[~want.isnan()])
    finite = x.float().nan_to_num(1, 1, 1).to(dtype)
    for got in run(lambda x: [x.to(other) for other in (torch.int64, torch.int32, torch.bool)], finite):
        assert torch.equal(got, finite.to(got.dtype))
    assert strata.counters()["fallbacks"] == 0


MOVES = {
    "view": lambda w: w.view(-1)[3:9], "t": lambda w: w.t().contiguous(), "clone": torch.clone,
    "cat": lambda w: torch.cat([w, w], 1), "stack": lambda w: torch.stack([w, w]), "where": lambda w: torch.where(w == w[:1], w, w[:, :1]),
    "index": lambda w: w[torch.tensor([3, 1])], "embedding": lambda w: F.embedding(torch.tensor([1, 5]), w), "pad": lambda w: F.pad(w, (1, 2)),
    "bits": lambda w: (w.view(torch.uint8) + 1).view(w.dtype), "zeros": torch.zeros_like, "full": lambda w: torch.full((3,), 2.5, dtype=w.dtype),
    "slices": lambda w: w.slice_scatter(w[:2], 0, 3, 5), "equal": lambda w: torch.stack([w == w, w != w[:1], w.isnan()]), "as it is": lambda w: w,
    "there and back": lambda w: (w.float() * 2).to(w.dtype),
}


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_elements_of_eight_bits_are_moved(dtype):
    w = torch.randn(16, 24).to(dtype)
    for name, got in run(lambda w: {name: f(w) for name, f in MOVES.items()}, w).items():
        want = MOVES[name](w)
        assert got.dtype == want.dtype and torch.equal(bits(got), bits(want)), name
    assert strata.counters()["fallbacks"] == 0


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_weights_of_eight_bits(dtype):
    w, scale = torch.randn(16, 24).to(dtype), torch.rand(16, 1).bfloat16()
    check(lambda x, w, scale: x @ (w.to(torch.bfloat16) * scale).t(), torch.randn(3, 24).bfloat16(), w, scale)
    check(lambda x: (x / x.abs().amax(1, keepdim=True) * 100).to(dtype).float(), torch.randn(8, 64), options={"numerics": "strict"})


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_nothing_is_computed_in_eight_bits(dtype):
    w = torch.randn(4, 4).to(dtype)
    for f in (lambda w: w + w, lambda w: w * 2.0, torch.sum, lambda w: w < w):
        # PyTorch's own refusal.
        with pytest.raises((NotImplementedError, RuntimeError), match="not implemented for 'Float8"):
            run(f, w)
    assert torch.equal(bits(run(torch.abs, w)), bits(w.abs()))
    assert "nothing is computed in float8" in strata.events()[-1]["reason"]
