"""What a program must compute, and whether Strata does: types, shapes, strides, aliases, values, written inputs, gradients."""

import dataclasses
import math

import torch

from program import DTYPES, FLOATS, WIDE, wide_default

EPS = {d: torch.finfo(d).eps for d in FLOATS.values()}
NOISE = 4  # in units of the last place


class Rejected(Exception):
    """The program is no good test."""


def noisy(t, dtype, draw):
    """A float64 value with the error that computing it in `dtype` may have."""
    if not t.is_floating_point():
        return t
    return t * (1 + NOISE * EPS[dtype] * (2 * torch.rand(t.shape, generator=draw, dtype=torch.float64) - 1))


def run(f, inputs, grad):
    """Results, written inputs, gradients."""
    results = list(f(*inputs))
    grads = []
    if grad:
        roots, leaves = [r for r in results if r.requires_grad], [i for i in inputs if i.requires_grad]
        weights = [torch.linspace(0.5, 1.5, r.numel(), dtype=torch.float64).to(r.dtype).view(r.shape) for r in roots]
        grads = [g for g in torch.autograd.grad(roots, leaves, weights, allow_unused=True)]
    return results, inputs, grads


class Twins:
    """A program's values three times: as PyTorch computes them, in float64, and in float64 with noise where PyTorch rounds."""

    def __init__(self, seed=0, special=False):
        self.special = special
        self.names = [{**DTYPES}, {**WIDE}, {**WIDE}]
        self.draw = torch.Generator().manual_seed(seed)
        for n in self.names:
            n |= {"torch": torch, "F": torch.nn.functional}

    def add_input(self, i, shape=None):
        values = [i.make(DTYPES, shape), i.make(WIDE, shape), None]
        with torch.no_grad():
            last = values[1].detach().clone() if 0 in values[1].stride() else self._same_layout(i, shape)
            last = noisy(last, values[0].dtype, self.draw) if 0 in values[1].stride() else last
        values[2] = last.requires_grad_(i.grad)
        for names, v in zip(self.names, values):
            names[i.name] = v

    def _same_layout(self, i, shape):
        t = dataclasses.replace(i, grad=False).make(WIDE, shape)
        if t.is_floating_point():
            t.mul_(noisy(torch.ones_like(t), DTYPES[i.dtype], self.draw))
        return t

    def step(self, step):
        """Runs a step in all three; raises Rejected if it cannot, or if its numbers say nothing."""
        before = {v.untyped_storage().data_ptr() for v in self.names[0].values() if isinstance(v, torch.Tensor)}
        try:
            code = compile(step.text, "<step>", "exec")
            exec(code, self.names[0])
            with wide_default():
                exec(code, self.names[1])
                exec(code, self.names[2])
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as e:
            raise Rejected(f"{type(e).__name__}: {e}") from None
        for out in step.outs:
            t = self.names[0][out]
            if not isinstance(t, torch.Tensor) or t.dtype not in DTYPES.values():
                raise Rejected(f"a result of type {getattr(t, 'dtype', type(t))}")
            if t.untyped_storage().data_ptr() not in before and t.is_floating_point():
                self.names[2][out] = noisy(self.names[2][out], t.dtype, self.draw)
        if step.mutates:
            t = self.names[2][step.mutates]
            if t.is_floating_point():
                t.detach().mul_(noisy(torch.ones_like(t), self.names[0][step.mutates].dtype, self.draw))
        for name in step.outs or [step.mutates]:
            self.well_conditioned(name)

    def well_conditioned(self, name):
        value, exact, moved = (n[name].detach() for n in self.names)
        if not (value.shape == exact.shape == moved.shape and value.dtype.is_floating_point == exact.dtype.is_floating_point):
            raise Rejected("the shape depends on the rounding")
        if not value.is_floating_point():
            if not torch.equal(value, exact) or not torch.equal(value, moved):
                raise Rejected("the result depends on the rounding")
            return
        if value.numel() == 0:
            return
        finite = exact.isfinite()
        if not finite.all():
            if not self.special:
                raise Rejected("not finite")
            if not same_specials(value, exact) or not same_specials(moved, exact):
                raise Rejected("what is finite depends on the rounding")
            exact, moved = exact[finite], moved[finite]
            if not exact.numel():
                return
        elif not (value.isfinite().all() and moved.isfinite().all()):
            raise Rejected("what is finite depends on the rounding")
        if exact.abs().max() > (100 if value.dtype == torch.float16 else 1e4):
            raise Rejected("too large")
        if (exact - moved).abs().max() > max(0.25 * exact.abs().max().item(), 1e-3):
            raise Rejected("ill-conditioned")


def same_specials(got, exact):
    """Whether NaN and the infinities stand at the same places."""
    got, at = got.detach().double(), ~exact.isfinite()
    return torch.equal(~got.isfinite(), at) and torch.equal(got[at].nan_to_num(7), exact.detach().double()[at].nan_to_num(7))


def tolerance(want, exact, moved):
    """The largest error allowed: of the rounding, of PyTorch, of the noise."""
    if not exact.isfinite().any():
        return 0.0
    # Under the smallest normal number errors are no longer relative.
    scale, least = exact[exact.isfinite()].abs().max().item(), torch.finfo(want.dtype).smallest_normal
    return max(8 * EPS[want.dtype] * scale, 3 * error(want, exact), 3 * error(moved, exact), least)


def error(got, exact):
    """The largest distance; infinite where other places are not finite."""
    got, exact = got.detach().double(), exact.detach().double()
    finite = exact.isfinite()
    if not finite.all():
        if not same_specials(got, exact):
            return math.inf
        got, exact = got[finite], exact[finite]
    worst = (got - exact).abs().max().item() if exact.numel() else 0.0
    return worst if math.isfinite(worst) else math.inf


@dataclasses.dataclass
class Expected:
    """What one call must give."""

    results: list
    written: list
    grads: list
    aliases: list


def alias_of(t, inputs):
    """Which input a result shares memory with."""
    if t.numel() == 0:
        return None
    return next((n for n, i in enumerate(inputs) if i.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()), None)


def expected(program, second=False):
    """(PyTorch's, float64's, noisy float64's) results of a call."""
    twins = Twins(program.number, any(i.kind == "special" for i in program.inputs))
    for i in program.inputs:
        twins.add_input(i, program.second(i.shape) if second else None)
    inputs = [[n[i.name] for i in program.inputs] for n in twins.names]
    for step in program.steps:
        twins.step(step)
    for o in program.outputs:
        twins.well_conditioned(o)
    found = []
    for names, given in zip(twins.names, inputs):
        results = [names[o] for o in program.outputs]
        grads = []
        if program.grad:
            try:
                _, _, grads = run(lambda *_: results, given, True)
            except RuntimeError as e:
                raise Rejected(f"no gradient: {e}") from None
        found.append(Expected(results, given, grads, [alias_of(r, given) for r in results]))
    if program.grad and not any(g is not None for g in found[0].grads):
        raise Rejected("no gradient")
    return found


def same_strides(got, want):
    sizes = [d for d in range(want.dim()) if want.shape[d] != 1] if want.numel() else []
    return [got.stride(d) for d in sizes] == [want.stride(d) for d in sizes]


def dense(t):
    """Whether a tensor fills its memory, in whatever order of dimensions."""
    n = 1
    for s, size in sorted((s, size) for size, s in zip(t.shape, t.stride()) if size != 1):
        if s != n:
            return False
        n *= size
    return True


def difference(got, want, exact, moved, strides=True):
    """What is wrong with one tensor, or nothing."""
    if want is None or got is None:
        return None if want is got else "a gradient is missing" if got is None else "a gradient too many"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype} instead of {want.dtype}"
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)} instead of {tuple(want.shape)}"
    if strides and not same_strides(got, want):
        return f"{'strides' if dense(want) else 'strides of a sparse view'} {got.stride()} instead of {want.stride()}"
    if not want.is_floating_point():
        return None if torch.equal(got, want) else "values"
    allowed = tolerance(want, exact, moved)
    return None if error(got, exact) <= allowed else f"values: error {error(got, exact):.2g}, allowed {allowed:.2g}"


def compare(found, results, inputs, grads):
    """The differences of a call, by place."""
    want, exact, moved = found
    out = {}
    for part, given in (("results", results), ("written", inputs), ("grads", grads)):
        columns = [getattr(e, part) for e in found]
        if len(given) != len(columns[0]):
            out[part] = f"{len(given)} instead of {len(columns[0])}"
            continue
        for n, (g, *row) in enumerate(zip(given, *columns)):
            # Gradients may lie as they like.
            problem = difference(g, *row, strides=part != "grads")
            if problem:
                out[f"{part}[{n}]"] = problem
    for n, (r, a) in enumerate(zip(results, want.aliases)):
        if n < len(want.results) and alias_of(r, inputs) != a:
            out.setdefault(f"results[{n}]", f"shares memory with argument {alias_of(r, inputs)} instead of {a}")
    return out
