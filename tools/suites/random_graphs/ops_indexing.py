"""Reads by index, and writes to values and to their views."""

from catalog import both, dim, floating, full, Nothing, number, op, ranked, Writes
from program import SHORT


# ---- indexing ----
def indices(g, x, d, shape=None):
    """An index tensor into dimension d of x."""
    n = g[x].shape[d]
    if not n:
        raise Nothing
    return g.new_input("i64", shape or [g.small()], kind="index", limit=n)


@op("indexing", 2)
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


# ---- writes ----
def written(g):
    """A value that may be written: no element of it lies under two positions."""
    return g.pick(lambda t: full(t) and all(s or n == 1 for n, s in zip(t.shape, t.stride())) and not t.requires_grad and not g.overlaps(t))


@op("writes", 2)
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
    return Writes(x, g.choose([f"{x}.tanh_()", f"{x}.relu_()", f"{x}.sigmoid_()", f"{x}.abs_().add_(0.5)", f"{x}.lerp_({x} * 0.5, 0.25)", f"{x}.sin_()"]))


@op("writes", 2)
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
