"""Views and copies in other orders, joins, constants."""

from catalog import both, dim, floating, full, Nothing, op, ranked, several
from program import DTYPES


# ---- views ----
@op("views", 3)
def transpose(g):
    x = g.pick(ranked(2, 3, 4))
    order = g.shuffled(range(g[x].dim()))
    return g.choose([f"{x}.transpose({order[0]}, {order[1]})", f"{x}.permute({', '.join(map(str, order))})", f"{x}.movedim({order[0]}, {order[1]})", f"{x}.mT"])


@op("views", 3)
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


@op("views", 2)
def expand(g):
    x = g.pick(ranked(0, 1, 2, 3))
    sizes = [g.size(x, d) if n != 1 else str(g.small()) for d, n in enumerate(g[x].shape)]
    return g.choose([f"{x}.expand({', '.join([str(g.small()), *sizes])})", f"{x}.unsqueeze({g.rng.randint(-1, g[x].dim())})", f"{x}.squeeze()", f"{x}.expand({', '.join(sizes) or '3'})"])


@op("views", 2)
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
@op("joins", 2)
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
