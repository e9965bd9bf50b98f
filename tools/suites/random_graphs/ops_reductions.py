"""Reductions, products, images, norms, scans, orders."""

from catalog import both, dim, floating, full, Nothing, number, op, ranked, several
from program import SHORT


# ---- reductions ----
@op("reductions", 5)
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
@op("products", 4)
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
@op("images", 2)
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
@op("norms", 2)
def softmax(g):
    x = g.pick(both(floating, ranked(1, 2, 3, 4), full))
    return g.choose([f"{x}.softmax({dim(g, x)})", f"{x}.log_softmax({dim(g, x)})", f"{x}.softmax({dim(g, x)}, dtype=f32)"])


@op("norms", 2)
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


# ---- scans and orders ----
@op("scans", 2)
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
