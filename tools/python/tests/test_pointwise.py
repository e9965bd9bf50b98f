"""Element by element, against eager, in every element type, with static and dynamic sizes."""

import pytest
import torch
import torch.nn.functional as F

import strata
from conftest import check

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
INTS = [torch.int64, torch.int32, torch.int8]


def data(dtype, *shape):
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(-9, 10, shape, dtype=dtype)


UNARY = {
    "neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "sin": torch.sin,
    "cos": torch.cos, "tanh": torch.tanh, "erf": torch.erf, "sigmoid": torch.sigmoid, "floor": torch.floor,
    "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "sign": torch.sign, "relu": torch.relu,
    "square": torch.square, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    "leaky_relu": F.leaky_relu, "elu": F.elu, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "softplus": F.softplus,
    "relu6": F.relu6, "mish": F.mish, "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite,
    "sqrt": lambda x: x.abs().sqrt(), "rsqrt": lambda x: (x.abs() + 0.1).rsqrt(), "log": lambda x: (x.abs() + 0.1).log(),
    "log1p": lambda x: x.abs().log1p(), "log2": lambda x: (x.abs() + 0.1).log2(), "log10": lambda x: (x.abs() + 0.1).log10(),
    "reciprocal": lambda x: (x.abs() + 0.5).reciprocal(), "logical_not": torch.logical_not,
    "clamp": lambda x: x.clamp(-0.5, 0.7), "clamp_min": lambda x: x.clamp(min=-0.5), "clamp_max": lambda x: x.clamp(max=0.5),
    "pow2": lambda x: x**2, "pow3": lambda x: x**3, "pow_half": lambda x: x.abs() ** 0.5, "pow_-1": lambda x: (x.abs() + 1) ** -1,
    "pow_1.7": lambda x: (x.abs() + 0.1) ** 1.7, "scalars": lambda x: 2 - (x + 0.1) * 3 / 7, "tan": torch.tan,
    "logit_like": lambda x: torch.log(x.sigmoid() / (1 - x.sigmoid() + 1e-3)), "nan_to_num": torch.nan_to_num,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unary(dtype):
    # With many roundings in a narrow type, eager's error is luck.
    names = [n for n in UNARY if n != "logit_like" or dtype == torch.float32]
    check(lambda x: {n: UNARY[n](x) for n in names}, data(dtype, 5, 13))


BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "max": torch.maximum, "min": torch.minimum, "eq": torch.eq, "ne": torch.ne,
    "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "alpha": lambda x, y: torch.add(x, y, alpha=3),
    "sub_alpha": lambda x, y: torch.sub(x, y, alpha=2), "where": lambda x, y: torch.where(x > y, x, y),
    "remainder": lambda x, y: torch.remainder(x, y.abs() + 1), "fmod": lambda x, y: torch.fmod(x, y.abs() + 1),
    "floor_div": lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="floor"),
    "trunc_div": lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="trunc"), "div": lambda x, y: x / (y.abs() + 1),
    "floor_divide": lambda x, y: x // (-y.abs() - 1), "lerp": lambda x, y: torch.lerp(x.float(), y.float(), 0.3),
    "logical": lambda x, y: torch.logical_or(x > 0, torch.logical_and(x < 1, y != 0)), "logical_xor": torch.logical_xor,
}


@pytest.mark.parametrize("dtype", FLOATS + INTS, ids=str)
def test_binary(dtype):
    check(lambda x, y: {n: f(x, y) for n, f in BINARY.items()}, data(dtype, 4, 9), data(dtype, 9))


@pytest.mark.parametrize("dtype", INTS + [torch.bool], ids=str)
def test_bitwise(dtype):
    names = ["bitwise_and", "bitwise_or", "bitwise_xor"]
    check(lambda x, y: [getattr(torch, n)(x, y) for n in names] + [~x], data(dtype, 4, 9), data(dtype, 4, 9))


@pytest.mark.parametrize("a", FLOATS + INTS + [torch.bool], ids=str)
def test_types_meet(a):
    """Result types and the types that comparisons compute in are PyTorch's."""

    def f(x, *others):
        return [(x * y, x == y, x < y, torch.where(x > 0, x, y), x + 2, x * 1.5, y > 0.5) for y in others]

    check(f, data(a, 3, 5), *[data(b, 3, 5) for b in FLOATS + INTS + [torch.bool]])


def test_tensors_of_rank_zero_give_way():
    check(lambda x, s, i: (x + s, x * i, s + i, x > s), data(torch.bfloat16, 4), torch.tensor(1.37), torch.tensor(3))


def test_casts():
    types = FLOATS + INTS + [torch.bool, torch.float64]
    given = data(torch.float32, 3, 7) * 5, data(torch.int32, 9), data(torch.bool, 9), data(torch.bfloat16, 4)
    check(lambda *given: [g.to(d) for g in given for d in types], *given)


def test_special_values():
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-40, 3e38])
    check(lambda x: (x.exp(), x.tanh(), x.sigmoid(), x.relu(), x.abs(), x.sign(), x.maximum(x.flip(0)), x.clamp(-1, 1)), x)


def test_floor_division_near_integers():
    a, b = torch.tensor([1.0, -1.0, 0.3, 5.0, -5.0, 7.0, 0.0]), torch.tensor([0.1, 0.1, 0.1, -2.0, 2.0, 0.0, -3.0])
    check(lambda a, b: (a // b, torch.remainder(a, b[0])), a, b)


def test_shapes():
    shapes = [(), (1,), (0,), (3, 0, 2), (1, 1, 1), (2, 3, 4, 5, 6)]
    check(lambda *xs: [(x * 2 + 1, torch.relu(x), x > 0) for x in xs], *map(torch.randn, shapes))


def test_broadcasts():
    check(lambda a, b, c: a * b + c, torch.randn(4, 1, 6), torch.randn(5, 1), torch.randn(6))
    check(lambda a, b: a - b, torch.randn(1), torch.randn(3, 4), strides=False)


@pytest.mark.parametrize("name", ["gelu", "silu", "pow2", "scalars", "floor"])
def test_dynamic_sizes(name):
    f = torch.compile(UNARY[name], backend="strata", dynamic=True)
    for n in (5, 9, 2, 31):
        x = torch.randn(n, 3)
        torch.testing.assert_close(f(x), UNARY[name](x))
    assert strata.counters()["compiles"] == 1, strata.events()


def test_symbolic_numbers():
    f = torch.compile(lambda x: x * x.shape[0] + x.shape[1] // 2, backend="strata", dynamic=True)
    for shape in ((4, 6), (5, 8), (7, 3)):
        x = torch.randn(shape)
        torch.testing.assert_close(f(x), x * shape[0] + shape[1] // 2)


def test_creation():
    check(lambda x: (x + torch.arange(6), torch.full((2, 3), 7), torch.zeros_like(x), torch.ones(3, dtype=torch.int32)), torch.randn(4, 6))
    check(lambda x: (torch.arange(2, 17, 3), torch.arange(0.5, 3, 0.25), x.new_full((2,), 3.5), torch.tensor(2.5) * x), torch.randn(4))
    check(lambda x: (torch.full((2,), 2**60 + 1), torch.full((), float("-inf")), x.tril(), x.triu(1)), torch.randn(4, 4))
