"""Results that have to be memory of their own.

To the compiler a graph is pure: a copy is its operand, and equal values are one. PyTorch's user may write into a result, or into the argument
that it was copied from; so where two tensors that PyTorch keeps apart came out as one, a copy is made.
"""

import re

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_BUFFER = re.compile(r"^  buffer b(\d+) : \S.* = (?:(input) (\d+)|alias of b(\d+) .*|.*)$", re.M)
_OUTPUT = re.compile(r"^  output \S+ = b(\d+)$", re.M)


def _roots(plan):
    """Buffer number -> number of the buffer that holds its memory; that one's input number or None."""
    of, inputs = {}, {}
    for number, is_input, parameter, alias in _BUFFER.findall(plan):
        of[int(number)] = int(alias) if alias else None
        if is_input:
            inputs[int(number)] = int(parameter)

    def root(b):
        while of.get(b) is not None:
            b = of[b]
        return b

    return {b: root(b) for b in of}, inputs


def storage(val):
    """A number that two fake tensors have in common that share memory."""
    return StorageWeakRef(val.untyped_storage()).cdata if isinstance(val, torch.Tensor) and val.layout == torch.strided else None


def shared(gm, graph, plan):
    """The numbers of results that would share memory with an argument or an earlier result, and must not."""
    roots, inputs = _roots(plan)
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    output = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    places = [int(b) for b in _OUTPUT.findall(plan)]
    owners, found = {}, []
    for buffer, parameter in inputs.items():
        index = graph.arguments[parameter].index
        owners[buffer] = storage(placeholders[index].meta.get("val")) if index is not None else None
    for number, (made, node) in enumerate(zip(graph.results, output.args[0])):
        if made.kind != "output" or made.value >= len(places):
            continue
        root, own = roots.get(places[made.value]), storage(node.meta.get("val"))
        if root not in owners:
            owners[root] = own
        elif own is None or owners[root] != own:
            found.append(number)
    return found


def copied(run, numbers):
    """`run` with those results copied."""

    def fresh(args):
        out = list(run(args))
        for n in numbers:
            out[n] = out[n].clone()
        return out

    fresh._boxed_call = True
    return fresh
