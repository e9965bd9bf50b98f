"""What a graph in pieces is made of: compiled pieces, ops that PyTorch runs, bodies of control flow."""

import contextlib

import torch
from torch._ops import HigherOrderOperator
from torch.fx import Graph, GraphModule


class InPyTorch(torch.nn.Module):
    """An op that PyTorch runs. Its results lie in memory as the graph expects them; those that are only returned, as the op lays them."""

    def __init__(self, node):
        super().__init__()
        self.target = node.target
        self.below = isinstance(node.target, HigherOrderOperator)
        returned = all(user.op == "output" for user in node.users)
        self.strides = None if returned else _strides(node.meta.get("val"))

    def forward(self, *args, **kwargs):
        with torch.no_grad(), torch._C._AutoDispatchBelowAutograd() if self.below else contextlib.nullcontext():
            out = self.target(*args, **kwargs)
        return restride(out, self.strides)


class Body(torch.nn.Module):
    """A graph inside of a higher-order op, compiled when it is first called."""

    def __init__(self, gm, kind, compile_fx):
        super().__init__()
        self.kind, self.compile_fx, self.compiled = kind, compile_fx, None
        graph = Graph()
        returned = graph.graph_copy(gm.graph, {})
        self.kept = type(returned) if isinstance(returned, (list, tuple)) else lambda out: out[0]
        graph.output(list(returned) if isinstance(returned, (list, tuple)) else [returned])
        self.gm = GraphModule(gm, graph)

    def forward(self, *args):
        if self.compiled is None:
            given = [n.meta.get("val") for n in self.gm.graph.nodes if n.op == "placeholder"]
            self.compiled = self.compile_fx(self.gm, given, self.kind)
        return self.kept(self.compiled(list(args)))


class Piece(torch.nn.Module):
    """A compiled graph."""

    def __init__(self, compiled):
        super().__init__()
        self.compiled = compiled

    def forward(self, *args):
        return self.compiled(list(args))


def as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _strides(value):
    """The strides of a tensor, where they are numbers; True where it is contiguous; a list for a list."""
    if isinstance(value, (list, tuple)):
        return [_strides(v) for v in value]
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    if all(isinstance(s, int) for s in value.stride()):
        return value.stride()
    return True if torch._prims_common.is_contiguous_or_false(value) else None


def restride(out, strides):
    """The results with these strides, copied where they have others."""
    if isinstance(out, (list, tuple)):
        matches = isinstance(strides, list) and len(strides) == len(out)
        return [restride(t, s) for t, s in zip(out, strides)] if matches else out
    if not isinstance(out, torch.Tensor) or strides is None or isinstance(strides, list) or out.layout != torch.strided:
        return out
    if strides is True:
        return out.contiguous()
    kept = len(strides) != out.dim() or out.numel() == 0 or 0 in strides or all(n == 1 or a == b for n, a, b in zip(out.shape, out.stride(), strides))
    return out if kept else torch.empty_strided(out.shape, strides, dtype=out.dtype, device=out.device).copy_(out)
