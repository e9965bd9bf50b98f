"""Whether two results are the same, as a user of PyTorch would expect it."""

import math

import torch
from torch.utils._pytree import tree_flatten, tree_map_only

# Relative and absolute, per dtype. Wider than `assert_close` in f32, where sums may be taken in another order.
_TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-4),
    torch.float16: (2e-3, 1e-4),
    torch.complex64: (1e-4, 1e-5),
    torch.complex128: (1e-7, 1e-7),
    torch.complex32: (2e-3, 1e-3),
}


class Mismatch(Exception):
    """A result differs; says where and how."""


def flat(tree):
    """Leaves of a result, with named tuples and the like opened."""
    return tree_flatten(tree)[0]


def _wide(t):
    if t.is_complex():
        return t.to(torch.complex128)
    return t.to(torch.float64) if t.is_floating_point() else t


def widened(tree):
    """The same arguments with all floating-point numbers in float64: for the reference."""
    return tree_map_only(torch.Tensor, _wide, tree)


def _strides_matter(t):
    return [s for n, s in zip(t.shape, t.stride()) if n > 1] if t.numel() else []


def compare(expected, actual, reference, what, values=True, strides=True, exact=False):
    """Raises Mismatch. `reference`: the same leaves computed in float64, or None; `values`: whether they are defined at all;
    `exact`: floats bit by bit, where any NaN is as good as another."""
    if len(expected) != len(actual):
        raise Mismatch(f"{what}: {len(actual)} results, expected {len(expected)}")
    for i, (e, a) in enumerate(zip(expected, actual)):
        r = reference[i] if reference is not None and i < len(reference) else None
        _leaf(e, a, r, f"{what} {i}" if len(expected) > 1 else what, values, strides, exact)


def _bits(t):
    """Which elements are equal bit by bit shows in these."""
    return t.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])


def _leaf(e, a, r, what, values, strides, exact):
    if not isinstance(e, torch.Tensor):
        same = e == a or (isinstance(e, float) and isinstance(a, float) and (math.isnan(e) and math.isnan(a) or math.isclose(e, a, rel_tol=1e-5)))
        if not same:
            raise Mismatch(f"{what}: {a!r}, expected {e!r}")
        return
    if not isinstance(a, torch.Tensor):
        raise Mismatch(f"{what}: a {type(a).__name__}, expected a tensor")
    for name in ("dtype", "shape", "device", "layout"):
        if getattr(e, name) != getattr(a, name):
            raise Mismatch(f"{what}: {name} {getattr(a, name)}, expected {getattr(e, name)}")
    if e.layout is not torch.strided:
        e, a = e.to_dense(), a.to_dense()
    elif strides and _strides_matter(e) != _strides_matter(a):
        raise Mismatch(f"{what}: strides {a.stride()}, expected {e.stride()}")
    if not values or e.numel() == 0:
        return
    if e.dtype not in _TOLERANCE:
        if not torch.equal(e, a):
            raise Mismatch(f"{what}: {int((e != a).sum())} of {e.numel()} elements differ{_first(e, a)}")
        return
    if exact and e.is_floating_point():
        wrong = (_bits(e) != _bits(a)) & ~(e.isnan() & a.isnan())
        if wrong.any():
            raise Mismatch(f"{what}: {int(wrong.sum())} of {e.numel()} elements are not bit-equal{_first(e, a, wrong)}")
        return
    rtol, atol = _TOLERANCE[e.dtype]
    if torch.allclose(e, a, rtol=rtol, atol=atol, equal_nan=True):
        return
    if isinstance(r, torch.Tensor) and r.shape == e.shape and _as_good(e, a, r, rtol, atol):
        return
    wrong = ~torch.isclose(e, a, rtol=rtol, atol=atol, equal_nan=True)
    raise Mismatch(f"{what}: {int(wrong.sum())} of {e.numel()} elements differ{_first(e, a, wrong)}")


def _as_good(e, a, r, rtol, atol):
    """Whether the result is about as near to the exact one as PyTorch's is."""
    e, a, r = _wide(e), _wide(a), _wide(r)
    same = (e == a) | (e.isnan() & a.isnan())
    finite = r.isfinite() & a.isfinite()
    if not bool((same | finite).all()):
        return False
    theirs, ours = (e - r).abs(), (a - r).abs()
    bound = torch.maximum(2 * theirs, atol + rtol * r.abs())
    return bool((same | (ours <= bound)).all())


def _first(e, a, wrong=None):
    wrong = (e != a) if wrong is None else wrong
    at = wrong.nonzero()
    if len(at) == 0:
        return ""
    at = tuple(at[0].tolist())
    return f"; first at {list(at)}: {a[at].item()!r}, expected {e[at].item()!r}"
