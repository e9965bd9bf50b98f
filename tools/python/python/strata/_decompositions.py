"""Which ops are expressed by others before the compiler sees them: PyTorch's own decompositions, and Strata's.

Strata's are functions of the op's arguments in a table `{op: function}` of each file `_decompose_*.py`. They run while AOTAutograd traces, on fake
tensors with sizes that may be symbols, and use ops that have a lowering. A function that returns NotImplemented leaves its op whole.
"""

import contextlib
import contextvars
import functools

import torch

aten = torch.ops.aten

# What PyTorch's own decompositions express by ops that have a lowering, besides those of core ATen.
_FURTHER = """
    _addmm_activation _euclidean_dist _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    bucketize diag dist grid_sampler_2d narrow_copy nll_loss rrelu_with_noise_backward
    tril_indices triu_indices upsample_bicubic2d upsample_bilinear2d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_trilinear3d special_ndtr batch_norm_backward _batch_norm_with_update_functional
"""


# Pointwise ops that PyTorch rounds otherwise than its decompositions of them do: whole in strict numerics, for PyTorch to run.
_ROUNDED_AS_ONE = """
    addcdiv addcmul elu gelu glu hardsigmoid hardsigmoid_ hardswish hardswish_ ldexp lerp log_sigmoid_forward logaddexp logaddexp2 logit
    mish mvlgamma sigmoid silu sinc _softmax_backward_data softplus special_log_ndtr special_ndtr special_xlog1py xlogy
"""

# What PyTorch's decompositions make of these takes negative indices, which the ops themselves do not, or is longer than what the compiler has.
_WHOLE = "index_add index_copy index_fill take"

_NATIVE = {torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
_whole = contextvars.ContextVar("strata_whole", default=None)


@contextlib.contextmanager
def whole(op):
    """Within it `op` is recorded as it is: for a decomposition that uses its own op."""
    token = _whole.set(op)
    try:
        yield
    finally:
        _whole.reset(token)


def _guarded(op, function):
    """The function, where the op is not to stay whole and all element types are the compiler's."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        tensors = [t for t in torch.utils._pytree.arg_tree_leaves(*args, **kwargs) if isinstance(t, torch.Tensor)]
        if _whole.get() is op or any(t.dtype not in _NATIVE or t.layout is not torch.strided for t in tensors):
            return NotImplemented
        return function(*args, **kwargs)

    return run


@functools.cache
def decompositions(strict=False):
    """The table for AOTAutograd."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    from . import _decompose_bags, _decompose_foreach, _decompose_indexing, _decompose_math, _decompose_pooling, _decompose_sampling

    table = dict(core_aten_decompositions())
    table.update(get_decompositions([getattr(aten, name) for name in _FURTHER.split()]))
    # It hands the backward op the probabilities for the logarithms of the sums, and hides the attention.
    table.pop(aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    table = {op: f for op, f in table.items() if str(op).split(".")[1] not in _WHOLE.split()}
    if strict:
        pointwise = set(_ROUNDED_AS_ONE.split())
        table = {op: f for op, f in table.items() if str(op).split(".")[1] not in pointwise}
    for theme in (_decompose_pooling, _decompose_sampling, _decompose_bags, _decompose_indexing, _decompose_math, _decompose_foreach):
        table.update({op: _guarded(op, f) for op, f in theme.TABLE.items()})
    return table
