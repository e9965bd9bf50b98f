"""The ops of random programs: each entry picks operands and says a line of source."""

import math

from program import DTYPES, FLOATS, INTEGERS, SHORT

GROUPS = {}  # group -> [function]
WEIGHTS = {
    "pointwise": 20, "casts": 6, "views": 24, "joins": 7, "reductions": 14, "products": 8, "indexing": 12,
    "writes": 11, "integers": 6, "norms": 5, "scans": 5, "constants": 3, "images": 4,
}  # fmt: skip


class Nothing(Exception):
    """No value fits; another op is tried."""


class Writes(str):
    """A line that writes to a value; `target` is its name."""

    def __new__(cls, target, text):
        line = super().__new__(cls, text)
        line.target = target
        return line


def op(group):
    def register(f):
        GROUPS.setdefault(group, []).append(f)
        return f

    return register


def floating(t):
    return t.is_floating_point()


def number(t):
    return t.dtype in DTYPES.values() and SHORT[t.dtype] != "b1"


def whole(t):
    return SHORT[t.dtype] in INTEGERS


def ranked(*ranks):
    return lambda t: t.dim() in ranks


def both(*conditions):
    return lambda t: all(c(t) for c in conditions)


def full(t):
    return t.numel() > 0


# ---- pointwise ----
@op("pointwise")
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


@op("pointwise")
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


@op("pointwise")
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


@op("pointwise")
def where(g):
    x, y = g.pair(lambda t: True)
    c = g.partner(x, lambda t: SHORT[t.dtype] == "b1", "b1")
    return g.choose([f"torch.where({c}, {x}, {y})", f"torch.where({c}, {x}, {g.choose([0, 1, 2])})", f"{x}.masked_fill({c}, {g.choose([0, 1])})"])


# ---- casts and integers ----
@op("casts")
def cast(g):
    x, to = g.pick(lambda t: True), g.choose(list(DTYPES))
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


# ---- views ----
def dim(g, x, least=1):
    t = g[x]
    fit = [d for d in range(t.dim()) if t.shape[d] >= least]
    if not fit:
        raise Nothing
    d = g.choose(fit)
    return d if g.rng.random() < 0.7 else d - t.dim()


def several(g, x, least=1):
    dims = list(range(g[x].dim()))
    if not dims:
        raise Nothing
    g.rng.shuffle(dims)
    return sorted(dims[: g.rng.randint(least, len(dims))])


@op("views")
def transpose(g):
    x = g.pick(ranked(2, 3, 4))
    order = g.shuffled(range(g[x].dim()))
    return g.choose([f"{x}.transpose({order[0]}, {order[1]})", f"{x}.permute({', '.join(map(str, order))})", f"{x}.movedim({order[0]}, {order[1]})", f"{x}.mT"])


@op("views")
def cut(g):
    x = g.pick(both(ranked(1, 2, 3, 4), full))
    parts, any_cut = [], False
    for d, n in enumerate(g[x].shape):
        k = g.rng.random()
        if k < 0.5:
            parts.append(":")
        elif k < 0.85 or n == 0:
            start, step = g.rng.randint(0, max(n - 2, 0)), g.choose([1, 1, 2, 3])
            stop = g.choose(["", "", f"{max(n - 1, start + 1)}", "-1"])
            parts.append(f"{start or ''}:{stop}:{step}")
        elif k < 0.95:
            parts.append(str(g.choose([0, -1, n // 2])))
        else:
            parts.append("None, :")
        any_cut |= parts[-1] != ":"
    if not any_cut:
        raise Nothing
    return f"{x}[{', '.join(parts)}]"


@op("views")
def pieces(g):
    x = g.pick(both(ranked(1, 2, 3, 4), full))
    d = dim(g, x)
    n = g[x].shape[d]
    return g.choose([f"{x}.narrow({d}, {n // 3}, {max(n // 2, 1)})", f"{x}.select({d}, {g.choose([0, -1, n // 2])})", f"{x}.split({max(n // 2, 1)}, {d})[-1]", f"{x}.chunk(2, {d})[0]", f"{x}.unbind({d})[{n - 1}]", f"torch.tensor_split({x}, 3, {d})[1]"])


@op("views")
def expand(g):
    x = g.pick(ranked(0, 1, 2, 3))
    sizes = [g.size(x, d) if n != 1 else str(g.small()) for d, n in enumerate(g[x].shape)]
    return g.choose([f"{x}.expand({', '.join([str(g.small()), *sizes])})", f"{x}.unsqueeze({g.rng.randint(-1, g[x].dim())})", f"{x}.squeeze()", f"{x}.expand({', '.join(sizes) or '3'})"])


@op("views")
def reshape(g):
    x = g.pick(full)
    t = g[x]
    kind = g.choose(["flat", "merge", "split", "any", "view"])
    if kind == "flat" or t.dim() < 2:
        return g.choose([f"{x}.reshape(-1)", f"{x}.flatten()", f"{x}.reshape(1, -1)", f"torch.ravel({x})"])
    if kind == "merge":
        d = g.rng.randint(0, t.dim() - 2)
        return f"{x}.flatten({d}, {d + 1})"
    if kind == "split":
        d, k = g.rng.randint(0, t.dim() - 1), g.choose([2, 3])
        if t.shape[d] % k:
            raise Nothing
        return f"{x}.unflatten({d}, ({k}, -1))"
    n = t.numel()
    a = g.choose([k for k in (1, 2, 3, 4, 6) if n % k == 0])
    return f"{x}.{'view' if kind == 'view' else 'reshape'}({g.choose([f'{a}, -1', f'-1, {a}', f'{a}, -1, 1'])})"


@op("views")
def diagonal(g):
    x = g.pick(ranked(2, 3))
    a, b = g.shuffled(range(g[x].dim()))[:2]
    return f"{x}.diagonal({g.choose([0, 1, -1])}, {a}, {b})"


@op("views")
def windows(g):
    x = g.pick(ranked(1, 2, 3))
    d = dim(g, x, 2)
    k = g.rng.randint(1, g[x].shape[d])
    return f"{x}.unfold({d}, {k}, {g.choose([1, 1, 2])})"


@op("views")
def strided(g):
    x = g.pick(both(full, ranked(1, 2, 3)))
    t = g[x]
    if not t.is_contiguous() or t.storage_offset() or t.numel() < 4:
        raise Nothing
    rows = g.rng.randint(1, 3)
    step = g.choose([0, 1, 2])
    columns = g.rng.randint(1, (t.numel() - 1 - (rows - 1) * 1) // max(step, 1) or 1)
    columns = min(columns, 4, max(1, (t.numel() - rows) // max(step, 1)))
    return f"torch.as_strided({x}, ({rows}, {columns}), (1, {step}))"


@op("views")
def rearranged(g):
    x = g.pick(ranked(1, 2, 3, 4))
    d = dim(g, x)
    return g.choose([f"{x}.flip({d})", f"torch.roll({x}, {g.choose([1, 2, -1])}, {d})", f"{x}.repeat_interleave(2, {d})", f"{x}.contiguous()", f"{x}.clone()", f"{x}.flip({', '.join(map(str, several(g, x)))})"])


@op("views")
def repeats(g):
    x = g.pick(lambda t: t.dim() < 4 and t.numel() < 60)
    return g.choose([f"{x}.repeat({', '.join(str(g.rng.randint(1, 2)) for _ in range(g[x].dim() + 1))})", f"{x}.tile((2,))"])


@op("views")
def triangles(g):
    x = g.pick(ranked(2, 3, 4))
    return f"torch.{g.choose(['tril', 'triu'])}({x}, {g.choose([0, 1, -1])})"


# ---- joins and constants ----
@op("joins")
def cat(g):
    x = g.pick(ranked(1, 2, 3, 4))
    d = dim(g, x, 0)
    fit = [n for n in g.names() if g[n].dim() == g[x].dim() and all(a == b for e, (a, b) in enumerate(zip(g[n].shape, g[x].shape)) if e != d % g[x].dim())]
    return f"torch.cat(({', '.join(g.choose(fit) for _ in range(g.rng.randint(1, 3)))}, {x}), {d})"


@op("joins")
def stack(g):
    x = g.pick(lambda t: t.dim() < 4)
    fit = [n for n in g.names() if g[n].shape == g[x].shape]
    parts = [g.choose(fit) for _ in range(g.rng.randint(1, 2))]
    return f"torch.stack(({x}, {', '.join(parts)}), {g.rng.randint(-1, g[x].dim())})"


@op("joins")
def pad(g):
    x = g.pick(ranked(1, 2, 3))
    if g.rng.random() < 0.6:
        widths = [g.choose([0, 1, 2, -1]) for _ in range(2 * g.rng.randint(1, g[x].dim()))]
        return f"F.pad({x}, {tuple(widths)}, value={g.choose([0, 1, 2])})"
    if g[x].dim() < 2 or not floating(g[x]):
        raise Nothing
    return f"F.pad({x}, (1, 1), mode='{g.choose(['reflect', 'replicate', 'circular'])}')"


@op("constants")
def constant(g):
    x = g.pick(lambda t: True)
    return g.choose([f"torch.zeros_like({x})", f"torch.full_like({x}, 2)", f"torch.arange({g.small()}, dtype={g.choose(['i64', 'f32', 'i32'])})", f"{x}.new_ones(({g.small()}, {g.small()}))", f"torch.tensor([1, 2, 3], dtype={g.choose(list(DTYPES))})", f"torch.eye({g.small()}, {g.small()}, dtype=f32)", f"torch.linspace(0, 1, {g.small()})"])


# ---- reductions ----
@op("reductions")
def reduction(g):
    f = g.choose("sum sum mean amax amin prod any all logsumexp norm var std count argmax argmin".split())
    x = g.pick(floating if f in ("mean", "logsumexp", "norm", "var", "std", "prod", "argmax", "argmin") else lambda t: True)
    keep = g.choose(["", ", keepdim=True"])
    if f in ("argmax", "argmin"):
        return f"torch.{f}({x}, dim={dim(g, x)}{keep})"
    if f == "count":
        return f"torch.count_nonzero({x}, {dim(g, x)})"
    if f == "prod":
        return f"torch.prod({x}.tanh() + 1, {dim(g, x)}{keep})"
    if f in ("any", "all"):
        return f"torch.{f}({x}, dim={dim(g, x)}{keep})"
    dims = tuple(several(g, x))
    if f == "norm":
        return f"torch.linalg.vector_norm({x}, {g.choose([2, 1])}, {dims}{keep})"
    if f in ("var", "std"):
        return f"torch.{f}({x}, {dims}, correction={g.choose([0, 1])}{keep})" if f == "var" else f"torch.sqrt(torch.var({x}, {dims}{keep}) + 0.1)"
    to = f", dtype={g.choose(['f32', 'f64'])}" if f in ("sum", "mean") and g.rng.random() < 0.15 else ""
    return f"torch.{f}({x}, {dims}{keep}{to})"


@op("reductions")
def whole_reduction(g):
    x = g.pick(both(number, full))
    return g.choose([f"{x}.sum()", f"{x}.max()", f"{x}.min()", f"{x}.any()", f"{x}.all()", f"{x}.argmax()", f"{x}.argmin()", f"{x}.double().mean()"])


@op("reductions")
def with_positions(g):
    x = g.pick(both(number, full, ranked(1, 2, 3)))
    return f"{x}.{g.choose(['max', 'min', 'median', 'mode'] if g.rng.random() < 0.1 else ['max', 'min'])}({dim(g, x)}{g.choose(['', ', keepdim=True'])})[{g.choose([0, 0, 1])}]"


# ---- products ----
@op("products")
def product(g):
    x = g.pick(both(floating, ranked(1, 2, 3)))
    k, d = g[x].shape[-1], SHORT[g[x].dtype]
    g.bounded(x)
    y = g.fitting(lambda t: t.dtype == g[x].dtype and t.dim() == 2 and t.shape[0] == k, d, [k, g.small()])
    kind = g.choose(["matmul", "linear", "square", "bmm", "addmm", "mv", "einsum", "outer"])
    if kind == "square":
        return f"{x} @ {x}.mT" if g[x].dim() > 1 else f"{x} @ {x}"
    if kind == "linear":
        return f"F.linear({x}, {y}.t(){', ' + g.fitting(lambda t: t.dtype == g[x].dtype and t.shape == g[y].shape[1:], d, [g[y].shape[1]]) if g.rng.random() < 0.6 else ''})"
    if kind == "bmm" and g[x].dim() == 3:
        z = g.fitting(lambda t: t.dtype == g[x].dtype and t.dim() == 3 and t.shape[:2] == (g[x].shape[0], k), d, [g[x].shape[0], k, g.small()])
        return g.choose([f"torch.bmm({x}, {z})", f"torch.einsum('bij,bjk->bik', {x}, {z})", f"torch.einsum('bij,bjk->ki', {x}, {z})"])
    if kind == "addmm" and g[x].dim() == 2:
        return f"torch.addmm({g.choose([f'{y}[0]', f'{y}[:1].sum()'])}, {x}, {y}, beta={g.choose([1, 0.5])}, alpha={g.choose([1, 2])})" if k else f"{x} @ {y}"
    if kind == "mv":
        return f"{x} @ {y}[:, 0]"
    if kind == "einsum" and g[x].dim() == 2:
        return g.choose([f"torch.einsum('ij,jk->ki', {x}, {y})", f"torch.einsum('ij,jk->i', {x}, {y})", f"torch.einsum('ij,jk->ijk', {x}, {y})"])
    if kind == "outer" and g[x].dim() == 1:
        return f"torch.outer({x}, {x})"
    return f"{x} @ {y}"


@op("products")
def attention(g):
    x = g.pick(both(floating, ranked(3, 4), full))
    return f"F.scaled_dot_product_attention({x}, {x}.flip(-2), {x}.tanh(){g.choose(['', ', is_causal=True'])})"


# ---- images ----
@op("images")
def convolution(g):
    x = g.pick(both(floating, ranked(3, 4), full))
    t, c, n = g[x], g[x].shape[1], g[x].dim() - 2
    groups = c if g.rng.random() < 0.25 else 1
    kernel = [min(s, g.choose([1, 2, 3])) for s in t.shape[2:]]
    w = g.new_input(SHORT[t.dtype], [c * g.choose([1, 2]) if groups > 1 else g.small(), c // groups, *kernel])
    g.bounded(x)
    return f"F.conv{n}d({x}, {w}, stride={g.choose([1, 1, 2])}, padding={g.choose([0, 1])}, dilation={g.choose([1, 1, 2])}, groups={groups})"


@op("images")
def pooling(g):
    x = g.pick(both(floating, ranked(3, 4), full))
    n = g[x].dim() - 2
    if min(g[x].shape[2:]) < 2:
        raise Nothing
    return g.choose([f"F.max_pool{n}d({x}, 2, {g.choose([1, 2])})", f"F.avg_pool{n}d({x}, 2, {g.choose([1, 2])}, padding={g.choose([0, 1])})", f"F.adaptive_avg_pool{n}d({x}, {g.choose([1, 2])})", f"F.interpolate({x}, scale_factor=2.0, mode='nearest')"])


@op("images")
def channels_last(g):
    x = g.pick(ranked(4))
    return f"{x}.to(memory_format=torch.channels_last, copy=True)"


# ---- norms ----
@op("norms")
def softmax(g):
    x = g.pick(both(floating, ranked(1, 2, 3, 4), full))
    return g.choose([f"{x}.softmax({dim(g, x)})", f"{x}.log_softmax({dim(g, x)})", f"{x}.softmax({dim(g, x)}, dtype=f32)"])


@op("norms")
def norm(g):
    x = g.pick(both(floating, ranked(2, 3, 4), full))
    t = g[x]
    # The norm of few numbers divides by their distance.
    x = f"({x} + torch.linspace(0, 3, {t.shape[-1]}, dtype={SHORT[t.dtype]}))"
    weight = g.new_input(SHORT[t.dtype], [t.shape[-1]]) if g.rng.random() < 0.5 else "None"
    if g.rng.random() < 0.3:
        return f"F.rms_norm({x}, ({t.shape[-1]},), {weight}, eps=1e-3)"
    if t.dim() > 2 and g.rng.random() < 0.5:
        groups = g.choose([k for k in (1, 2, 3) if t.shape[1] % k == 0])
        return f"F.group_norm({x}, {groups}, eps=0.01)"
    return f"F.layer_norm({x}, ({t.shape[-1]},), {weight}, eps=0.01)"


# ---- indexing ----
def indices(g, x, d, shape=None):
    """An index tensor into dimension d of x."""
    n = g[x].shape[d]
    if not n:
        raise Nothing
    return g.new_input("i64", shape or [g.small()], kind="index", limit=n)


@op("indexing")
def select_many(g):
    x = g.pick(both(ranked(1, 2, 3), full))
    d = dim(g, x)
    i = indices(g, x, d)
    at = [":"] * (d % g[x].dim())
    return g.choose([f"torch.index_select({x}, {d}, {i})", f"{x}[{', '.join([*at, i])}]", f"{x}[{', '.join([*at, f'{i} - {g[x].shape[d]}'])}]", f"torch.take({x}, {i})"])


@op("indexing")
def index_pairs(g):
    x = g.pick(both(ranked(2, 3), full))
    a, b = indices(g, x, 0, [2, 1]), indices(g, x, -1, [3])
    return f"{x}[{a}, {b}]" if g[x].dim() == 2 else f"{x}[{a}, :, {b}]"


@op("indexing")
def embedding(g):
    x = g.pick(both(floating, ranked(2), full))
    return f"F.embedding({indices(g, x, 0, [2, 3])}, {x})"


@op("indexing")
def gather(g):
    x = g.pick(both(ranked(1, 2, 3), full))
    d = dim(g, x)
    shape = [g.rng.randint(1, n) for n in g[x].shape]
    i = indices(g, x, d, shape)
    return g.choose([f"torch.gather({x}, {d}, {i})", f"torch.take_along_dim({x}, {i}, {d})"] if shape[:d] == list(g[x].shape)[:d] else [f"torch.gather({x}, {d}, {i})"])


@op("indexing")
def masked(g):
    x = g.pick(both(ranked(1, 2), full))
    # A mask of the same size at each call: its count is no size that depends on data.
    return f"torch.where({g.partner(x, lambda t: SHORT[t.dtype] == 'b1', 'b1')}, {x}, 0).sum()"


@op("indexing")
def scatter(g):
    x = g.pick(both(ranked(1, 2), full, number))
    t = g[x]
    d = g.rng.randint(0, t.dim() - 1)
    # No element is written twice: which write comes last is not defined.
    i = f"torch.arange({t.shape[d] - 1}, -1, -1)" + (".view(-1, 1).expand(-1, {})".format(t.shape[1]) if t.dim() == 2 and d == 0 else f".expand({t.shape[0]}, -1)" if t.dim() == 2 else "")
    y = g.fitting(lambda u: u.dtype == t.dtype and u.shape == t.shape, SHORT[t.dtype], list(t.shape))
    return g.choose([f"torch.scatter({x}, {d}, {i}, {y})", f"torch.scatter({x}, {d}, {i}, {g.choose([0, 1])})", f"torch.scatter_add({x}, {d}, {indices(g, x, d, list(t.shape))}, {y})", f"torch.scatter_reduce({x}, {d}, {indices(g, x, d, list(t.shape))}, {y}, '{g.choose(['amax', 'amin', 'sum'])}')"])


@op("indexing")
def index_add(g):
    x = g.pick(both(ranked(1, 2), full, number))
    t, n = g[x], g.small()
    y = g.fitting(lambda u: u.dtype == t.dtype and list(u.shape) == [n, *t.shape[1:]], SHORT[t.dtype], [n, *t.shape[1:]])
    return g.choose([f"torch.index_add({x}, 0, {indices(g, x, 0, [n])}, {y})", f"torch.index_put({x}, ({indices(g, x, 0, [n])},), {y}, accumulate=True)"])


@op("indexing")
def one_hot(g):
    x = g.pick(both(ranked(1, 2), full))
    return g.choose([f"F.one_hot({indices(g, x, 0, [3])}, {g[x].shape[0]})", f"torch.bucketize({g.pick(floating)}, torch.tensor([-1.3, -0.217, 0.551, 1.9], dtype=f32))"])


# ---- scans and orders ----
@op("scans")
def scan(g):
    x = g.pick(both(number, ranked(1, 2, 3), full))
    d = dim(g, x)
    return g.choose([f"torch.cumsum({x}, {d})", f"torch.cumsum({x}, {d})", f"torch.cumprod({x}.tanh() + 0.5, {d})" if floating(g[x]) else f"torch.cumsum({x}, {d}, dtype=f32)", f"torch.cummax({x}, {d})[0]", f"torch.logcumsumexp({x}, {d})" if floating(g[x]) else f"torch.diff({x}, dim={d})"])


@op("scans")
def order(g):
    x = g.pick(both(number, ranked(1, 2, 3), full))
    d = dim(g, x)
    n = g[x].shape[d]
    return g.choose([f"torch.sort({x}, dim={d}, stable=True)[{g.choose([0, 1])}]", f"torch.topk({x}, {max(n // 2, 1)}, dim={d})[0]", f"torch.argsort({x}, dim={d}, descending=True, stable=True)"])


# ---- writes ----
def written(g):
    """A value that may be written: no element of it lies under two positions."""
    return g.pick(lambda t: full(t) and all(s or n == 1 for n, s in zip(t.shape, t.stride())) and not t.requires_grad and not g.overlaps(t))


@op("writes")
def write_all(g):
    x = written(g)
    y = g.partner(x, lambda t: True, SHORT[g[x].dtype])
    n = g.choose([0, 1, 2])
    line = g.choose([f"{x}.add_({y})", f"{x}.copy_({y})", f"{x}.fill_({n})", f"{x}.mul_({n})", f"{x}.zero_()", f"{x}.sub_({y}, alpha=2)", f"{x}.clamp_(-1, 1)", f"{x}.masked_fill_({x} > 0, {n})", f"{x}.neg_()"])
    return Writes(x, line)


@op("writes")
def write_float(g):
    x = written(g)
    if not floating(g[x]):
        raise Nothing
    return Writes(x, g.choose([f"{x}.tanh_()", f"{x}.relu_()", f"{x}.sigmoid_()", f"{x}.abs_().add_(0.5)", f"{x}.lerp_({x} * 0.5, 0.25)", f"torch.sin({x}, out={x})" if False else f"{x}.sin_()"]))


@op("writes")
def write_part(g):
    x = written(g)
    t = g[x]
    if not t.dim():
        raise Nothing
    n = t.shape[0]
    at = g.choose(["0", "-1", f"{n // 2}:", "::2", "..., :1", f"..., {t.shape[-1] - 1}"])
    y = g.pick(lambda u: u.dim() == 0) if g.rng.random() < 0.2 else str(g.choose([0, 1, 2]))
    return Writes(x, g.choose([f"{x}[{at}] = {y}", f"{x}[{at}] += 1", f"{x}[{at}] *= 2", f"{x}[{at}] = {x}[{at}].flip(-1) * 1" if t.dim() > 1 else f"{x}[{at}] = 1"]))


@op("writes")
def write_view(g):
    x = written(g)
    t = g[x]
    if t.dim() < 2:
        raise Nothing
    view = g.choose([f"{x}.transpose(0, -1)", f"{x}.diagonal()", f"{x}.select(0, 0)", f"{x}.flatten(0)" if t.is_contiguous() else f"{x}.mT", f"{x}.unsqueeze(0)[:, ::2]"])
    return Writes(x, f"{view}.{g.choose(['add_(1)', 'mul_(2)', 'zero_()', 'clamp_(0, 1)'])}")


@op("writes")
def write_at(g):
    x = written(g)
    if not g[x].dim():
        raise Nothing
    i = f"torch.arange({max(g[x].shape[0] // 2, 1)})"
    return Writes(x, g.choose([f"{x}[{i}] = 1", f"{x}.index_fill_(0, {i}, 2)", f"{x}.index_add_(0, {i}, {x}[{i}] * 1)", f"{x}[{x} > 0] = 0", f"{x}.index_copy_(0, {i}, {x}[{i}].flip(0))"]))
