"""The ops of random programs by group: each entry picks operands and says a line of source. The files `ops_*.py` register them."""

from program import DTYPES, INTEGERS, SHORT

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


def op(group, weight=1):
    def register(f):
        GROUPS.setdefault(group, []).extend([f] * weight)
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
