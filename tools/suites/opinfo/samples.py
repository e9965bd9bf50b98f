"""The samples of PyTorch's op database, always the same ones."""

import itertools

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map_only

DTYPES = ("float32", "bfloat16", "float16", "int64", "bool")
PER_OP = 4
MODES = ("forward", "backward", "error")


def names():
    """A name for each entry of `op_db`: unique, and the same in every process."""
    out = []
    for op in op_db:
        out.append(f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name)
    assert len(set(out)) == len(out)
    return out


def tasks(device, modes):
    """(op number, dtype, mode) of everything there is to run."""
    kind = torch.device(device).type
    for number, op in enumerate(op_db):
        supported = op.supported_dtypes(kind)
        for dtype in DTYPES:
            if "forward" in modes and getattr(torch, dtype) in supported:
                yield number, dtype, "forward"
        if "backward" in modes and torch.float32 in op.supported_backward_dtypes(kind) and op.supports_autograd:
            yield number, "float32", "backward"
        if "error" in modes and op.error_inputs_func is not None:
            yield number, "float32", "error"


def _spread(samples):
    """At most PER_OP of the samples, from the first to the last."""
    samples = list(itertools.islice(samples, 400))
    n = len(samples)
    if n <= PER_OP:
        return samples
    return [samples[round(i * (n - 1) / (PER_OP - 1))] for i in range(PER_OP)]


def samples_of(number, dtype, mode, device):
    """What one task consists of: `SampleInput`s, or `ErrorInput`s for the mode "error"."""
    op = op_db[number]
    torch.manual_seed(number)
    if mode == "error":
        return _spread(op.error_inputs(torch.device(device)))
    return _spread(op.sample_inputs(device, getattr(torch, dtype), requires_grad=mode == "backward"))


def copy_of(tree):
    """The same values in memory of their own, each tensor a leaf with strides and views of its own kept where they are dense."""

    def one(t):
        if t.layout is not torch.strided:
            return t.detach().clone().requires_grad_(t.requires_grad)
        if t.numel() and any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape)):
            # An expanded tensor stays one.
            base = t.detach().as_strided([1 if s == 0 else n for s, n in zip(t.stride(), t.shape)], t.stride())
            return copy_of(base).expand(t.shape).requires_grad_(t.requires_grad)
        out = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
        with torch.no_grad():
            out.copy_(t)
        if t.is_conj():
            out = t.detach().clone()
        if t.is_neg():
            out = t.detach().clone()
        return out.requires_grad_(t.requires_grad)

    return tree_map_only(torch.Tensor, one, tree)
