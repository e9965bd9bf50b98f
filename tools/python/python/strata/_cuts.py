"""Which nodes of a graph PyTorch has to run between two compiled graphs, and why."""

import operator

import torch
from torch._library.utils import get_layout_constraint_tag
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx.node import Node, map_arg

from ._serialize import memory_order, part_of
from ._sizes import expr_of

# Checks: they run where their operands are known, and are no fallbacks.
_CHECKS = {"_assert_scalar", "_assert_async", "sym_constrain_range", "sym_constrain_range_for_size"}
# Only say to the tracer what it knows.
_NOTES = {"_assert_tensor_metadata"}
_READ_MEMORY = {"as_strided", "as_strided_copy", "as_strided_scatter", "view_as_complex"}
# Of their results PyTorch's fake tensors say another device (of the seed and the offset of random numbers), or other strides (on a CPU).
_OTHER_DEVICE = {"_efficient_attention_forward", "_efficient_attention_backward", "_flash_attention_forward", "_flash_attention_backward"}
_OTHER_STRIDES = {"_fft_c2c", "_fft_c2r", "_fft_r2c"}
_VIEWS = {
    "alias", "as_strided", "detach", "diagonal", "expand", "permute", "select", "slice", "squeeze", "t", "transpose", "unfold", "unsqueeze", "view",
}
_CONTROL = {"cond", "while_loop", "while_loop_stack_output", "scan", "map_impl", "associative_scan", "invoke_subgraph"}


def base(node):
    """The name of an op without namespace and overload."""
    target = node.target
    if isinstance(target, OpOverload):
        return target._schema.name.split("::")[1]
    return getattr(target, "__name__", str(target))


def is_view(node):
    """Whether the op only makes another view: PyTorch does that for nothing."""
    return isinstance(node.target, OpOverload) and node.target.namespace == "aten" and base(node) in _VIEWS


def is_size(node):
    """Whether the node computes a number from numbers and sizes, which Python does."""
    val = node.meta.get("val")
    return isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)) and not node.meta.get("unbacked_bindings")


def symbols_of(value):
    """The names of the symbols in sizes, strides and numbers."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return {s.name for s in value.node.expr.free_symbols}
    if isinstance(value, torch.Tensor):
        found = set()
        for n in (*value.shape, *(value.stride() if value.layout == torch.strided else ())):
            found |= symbols_of(n)
        return found
    if isinstance(value, (list, tuple)):
        return set().union(*map(symbols_of, value)) if value else set()
    return set()


def _values(node):
    """The node's operands' and its own values."""
    out = []
    map_arg((node.args, node.kwargs), lambda n: out.append(n.meta.get("val")))
    own = node.meta.get("val")
    return out + (list(own) if isinstance(own, (list, tuple)) else [own])


def _foreign(value):
    if not isinstance(value, torch.Tensor):
        return None
    if value.layout != torch.strided:
        return f"a tensor of layout {value.layout}"
    if value.is_quantized:
        return "a quantized tensor"
    if value.device.type not in ("cpu", "cuda", "meta"):
        return f"a tensor on {value.device}"
    return None


def _any_operand(node, is_so):
    found = []
    map_arg((node.args, node.kwargs), lambda n: found.append(n.meta.get("val")))
    return any(isinstance(v, torch.Tensor) and v.layout == torch.strided and is_so(v) for v in found)


def _not_contiguous(v):
    return not torch._prims_common.is_contiguous_or_false(v)


def _scattered(v):
    """Whether a compiled graph has no way to lay it so."""
    shape, strides = [expr_of(n) for n in v.shape], [expr_of(s) for s in v.stride()]
    return memory_order(shape, strides) is None and part_of(shape, strides) is None


def _reason(node):
    target, val = node.target, node.meta.get("val")
    name = base(node)
    for v in _values(node):
        if foreign := _foreign(v):
            return foreign
    if isinstance(target, HigherOrderOperator):
        if name in _CONTROL:
            return "control flow runs in Python, its bodies are compiled"
        return "PyTorch runs this operator"
    if not isinstance(target, OpOverload):
        return None if target is operator.getitem else f"{target} is no op of PyTorch's"
    if node.meta.get("unbacked_bindings"):
        if isinstance(val, torch.Tensor):
            return "the size of its result depends on values"
        return "its result is a number that depends on values"
    if val is None or target._schema.is_mutable:
        return "it has an effect, and no result"
    if name in _OTHER_DEVICE:
        return "PyTorch tells another device of its result than it has"
    if name in _OTHER_STRIDES and isinstance(val, torch.Tensor) and val.device.type == "cpu":
        return "PyTorch tells other strides of its result than it has"
    if get_layout_constraint_tag(target) != torch.Tag.flexible_layout and _any_operand(node, _scattered):
        return "it expects the strides of an operand with gaps"
    if name in _READ_MEMORY and _any_operand(node, _not_contiguous):
        return "it reads the memory of an operand that is not contiguous"
    return None


# Instead of a reason: a check, or the new value of an argument that is written at the end.
CHECK, STORE = None, ""


def _stores(node):
    return node.target is torch.ops.aten.copy_.default and all(isinstance(a, Node) for a in node.args) and node.args[0].op == "placeholder"


def find(gm):
    """The nodes, by name, with the reason for each, or CHECK or STORE. Notes are dropped from the graph."""
    cuts = {}
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or is_size(node):
            continue
        name = base(node)
        if name in _NOTES or (name == "_assert_scalar" and not isinstance(node.args[0], Node)):
            gm.graph.erase_node(node)
        elif name in _CHECKS:
            cuts[node.name] = CHECK
        elif _stores(node):
            cuts[node.name] = STORE
        elif node.target is not operator.getitem and (reason := _reason(node)):
            cuts[node.name] = reason
    return cuts


def mistold(gm):
    """A node whose result PyTorch traces with another size than it has when it runs, so that nothing is known of what follows."""
    return next((n for n in gm.graph.nodes if n.target is torch.ops.aten._unique.default), None)


def random(node):
    """Whether the op may draw numbers from a generator, itself or in a body: the order of such ops has to stay."""
    if isinstance(node.target, HigherOrderOperator):
        return True
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
