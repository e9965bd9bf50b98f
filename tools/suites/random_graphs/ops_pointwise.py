"""Element by element: arithmetic, comparisons, casts, bits."""

from catalog import floating, Nothing, number, op, whole
from program import DTYPES, INTEGERS, SHORT


# ---- pointwise ----
@op("pointwise", 2)
def unary(g):
    f = g.choose("sin cos tanh sigmoid erf atan abs neg relu floor ceil trunc sign square exp expm1 asinh".split())
    x = g.pick(floating)
    if f in ("exp", "expm1", "square", "asinh") and g.largest(x) > 5:
        x = f"torch.tanh({x})"
    return f"torch.{f}({x})"


@op("pointwise")
def positive_unary(g):
    f = g.choose("log sqrt rsqrt log1p log2 reciprocal log10".split())
    return f"torch.{f}({g.pick(floating)}.abs() + 0.5)"


@op("pointwise")
def activation(g):
    x = g.pick(floating)
    return g.choose(
        [f"F.silu({x})", f"F.gelu({x})", f"F.gelu({x}, approximate='tanh')", f"F.leaky_relu({x}, 0.1)", f"F.elu({x})", f"F.softplus({x})"]
        + [f"F.hardtanh({x}, -0.7, 0.6)", f"F.hardswish({x})", f"F.mish({x})", f"F.hardsigmoid({x})", f"F.logsigmoid({x})", f"F.celu({x}, 1.5)"]
    )


@op("pointwise", 5)
def binary(g):
    x, y = g.pair(number)
    f = g.choose("add add mul mul sub maximum minimum".split())
    if f == "mul":
        g.bounded(x, y)
    return f"torch.{f}({x}, {y})"


@op("pointwise")
def binary_of_floats(g):
    x, y = g.pair(floating)
    return g.choose(
        [f"torch.atan2({x}, {y}.abs() + 0.5)", f"torch.lerp({x}, {y}, 0.3)" if g[x].dtype == g[y].dtype else f"{x} + {y}", f"torch.copysign({x}, {y})"]
        + [f"torch.fmax({x}, {y})", f"torch.fmin({x}, {y})", f"torch.logaddexp({x}, {y})" if g[x].dtype == g[y].dtype else f"{x} - {y}"]
        + [f"torch.hypot({x}, {y})" if g[x].dtype == g[y].dtype else f"{x} * {y}.tanh()", f"torch.addcmul({x}, {y}.tanh(), {x}, value=0.5)"]
    )


@op("pointwise", 2)
def with_number(g):
    x, n = g.pick(number), g.choose([2, 3, -1, 0.5, -1.5, 1])
    return g.choose([f"{x} + {n}", f"{x} * {n}", f"{n} - {x}", f"torch.sub({x}, {g.pick(number)}, alpha=2)", f"torch.clamp({x}, -1, 2)", f"torch.clamp({x}, min={n})"])


@op("pointwise")
def division(g):
    x, y = g.pair(number)
    y = f"(torch.abs({y}) + 1)" if number(g[y]) and SHORT[g[y].dtype] != "u8" else f"({y} + 1)"
    return g.choose([f"{x} / {y}", f"{x} / {y}", f"torch.div({x}, {y}, rounding_mode='floor')", f"torch.div({x}, {y}, rounding_mode='trunc')", f"torch.remainder({x}, {y})", f"torch.fmod({x}, {y})"])


@op("pointwise")
def power(g):
    x = g.pick(floating)
    return g.choose([f"{x}.tanh() ** 2", f"{x}.tanh() ** 3", f"({x}.tanh().abs() + 0.5) ** -1.5", f"({x}.tanh().abs() + 0.5) ** {g.pick(floating)}.tanh()" if g.rng.random() < 0.3 else f"2.0 ** {x}.tanh()"])


@op("pointwise")
def comparison(g):
    x, y = g.pair(number)
    return f"torch.{g.choose('eq ne lt le gt ge'.split())}({x}, {y})"


@op("pointwise")
def logic(g):
    x, y = g.pair(lambda t: True)
    return g.choose([f"torch.logical_{g.choose(['and', 'or', 'xor'])}({x}, {y})", f"torch.logical_not({x})", f"torch.isnan({x})", f"torch.isfinite({x})"])


@op("pointwise", 2)
def where(g):
    x, y = g.pair(lambda t: True)
    c = g.partner(x, lambda t: SHORT[t.dtype] == "b1", "b1")
    return g.choose([f"torch.where({c}, {x}, {y})", f"torch.where({c}, {x}, {g.choose([0, 1, 2])})", f"{x}.masked_fill({c}, {g.choose([0, 1])})"])


# ---- casts and integers ----
@op("casts", 4)
def cast(g):
    x, to = g.pick(lambda t: True), g.choose(list(DTYPES))
    # What lies outside of an integer type is not defined.
    if floating(g[x]) and to in INTEGERS and not (g[x].isfinite().all() and g.largest(x) < 100 and (to != "u8" or bool((g[x] >= 0).all()))):
        raise Nothing
    return f"{x}.to({to}, copy=True)"


@op("casts")
def bits(g):
    x = g.pick(lambda t: SHORT[t.dtype] in ("i32", "i16", "i8", "u8") or SHORT[t.dtype] == "i64")
    same = {"i8": "u8", "u8": "i8"}.get(SHORT[g[x].dtype])
    return f"{x}.view({same})" if same else f"{x}.clone()"


@op("integers")
def bitwise(g):
    x, y = g.pair(lambda t: not floating(t))
    return g.choose([f"torch.bitwise_{g.choose(['and', 'or', 'xor'])}({x}, {y})", f"torch.bitwise_not({x})"])


@op("integers")
def shift(g):
    x = g.pick(whole)
    return f"{x} {g.choose(['<<', '>>'])} {g.choose([1, 2, 3])}"


@op("integers")
def integer_arithmetic(g):
    x, y = g.pair(whole)
    return g.choose([f"{x} // ({y} * {y} % 5 + 1)", f"{x} % ({y} * {y} % 5 + 1)", f"torch.abs({x})", f"{x} * {y}", f"-{x}", f"torch.clamp({x}, -2, 3)", f"{x} ** 2", f"torch.sign({x})"])
