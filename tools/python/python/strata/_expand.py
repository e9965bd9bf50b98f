"""Higher-order ops of which PyTorch's own definition in plain ops is compiled instead: FlexAttention and its gradient."""

import functools

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import Node, map_arg

_EXPANDED = {"flex_attention", "flex_attention_backward"}
_DETACH = torch.ops.aten.detach_.default


def expand(gm, decompositions):
    """Replaces such nodes, in place."""
    found = [n for n in gm.graph.nodes if isinstance(n.target, HigherOrderOperator) and n.target.name() in _EXPANDED]
    for node in found:
        _replace(gm, node, decompositions)
    if found:
        gm.graph.eliminate_dead_code()
        gm.recompile()


def _replace(gm, node, decompositions):
    definition = node.target.py_kernels[DispatchKey.CompositeExplicitAutograd]
    taken = list(dict.fromkeys(n for n in node.all_input_nodes if not isinstance(_value(gm, n), GraphModule)))

    def run(*values):
        given = dict(zip(taken, values))
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: given.get(n, _value(gm, n)))
        return definition(*args, **kwargs)

    values = [_value(gm, n) for n in taken]
    mode = torch._guards.detect_fake_mode(values)
    with mode, torch.no_grad():
        trace = functools.partial(make_fx, decomposition_table=decompositions, tracing_mode="real", _allow_non_fake_inputs=True)
        traced = trace(run)(*values)
        if any(_mutates(n) for n in traced.graph.nodes):
            traced = trace(torch.func.functionalize(run, remove="mutations"))(*values)
    with gm.graph.inserting_before(node):
        env = dict(zip((n for n in traced.graph.nodes if n.op == "placeholder"), taken))
        for n in traced.graph.nodes:
            if n.op == "output":
                results = map_arg(n.args[0], lambda o: env[o])
            elif n.op == "get_attr":
                name = f"{node.name}{n.target}"
                gm.register_buffer(name, getattr(traced, n.target), persistent=False)
                env[n] = gm.graph.get_attr(name)
                env[n].meta = dict(n.meta)
            elif n.target is _DETACH:
                env[n] = env[n.args[0]]
            elif _fills(n):
                # The strides of the result are those of the memory that is filled.
                env[n] = env[n.args[0]] = gm.graph.call_function(torch.ops.aten.clone.default, (env[n.args[1]],))
                env[n].meta = {"val": n.args[0].meta["val"], "stack_trace": node.meta.get("stack_trace")}
            elif n.op == "call_function":
                env[n] = gm.graph.node_copy(n, lambda o: env[o])
                env[n].meta = {**n.meta, "stack_trace": node.meta.get("stack_trace")}
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        gm.graph.erase_node(user)
    gm.graph.erase_node(node)


def _mutates(node):
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable and node.target is not _DETACH and not _fills(node)


def _fills(node):
    """Whether the node copies into memory that was reserved just before, and all of it."""
    if node.target is not torch.ops.aten.copy_.default:
        return False
    place, value = node.args
    base = place.args[0] if place.target is torch.ops.aten.as_strided.default else place
    shapes = [n.meta["val"].shape for n in (base, place, value)]
    fresh = "empty" in getattr(base.target, "__name__", "") and len(base.users) == (1 if base is not place else len(place.users))
    return fresh and place.meta["val"].dtype == value.meta["val"].dtype and shapes[1] == shapes[2] and base.meta["val"].numel() == value.meta["val"].numel()


def _value(gm, node):
    if isinstance(node, Node) and node.op == "get_attr":
        return getattr(gm, node.target)
    return node.meta["val"]
