"""Indices out of range. A compiled graph notices one and stops; PyTorch then runs the graph once and raises what it raises in eager mode.

Nothing of the user's has been changed by then: new values of arguments are written when a graph is done.
"""

import torch

from . import _events as events


def _first_outside(index, size):
    """Where in an index tensor the first element is that is no position, and what it is."""
    flat = index.reshape(-1)
    wrong = ((flat < 0) | (flat >= size)).nonzero()
    place = int(wrong[0]) if len(wrong) else 0
    return place, int(flat[place])


def _target(index, size):
    return IndexError(f"Target {_first_outside(index, size)[1]} is out of bounds.")


def _bag(index, size):
    place, value = _first_outside(index, size)
    return RuntimeError(f"Index {place} of input takes value {value} which is not in the valid range [0, {size})")


# What ops say that are expressed by others before they are compiled: the op → the exception for an index tensor and a size.
_OWN_WORDS = {
    "aten.nll_loss_forward": _target,
    "aten.nll_loss_backward": _target,
    "aten.nll_loss2d_forward": _target,
    "aten.nll_loss2d_backward": _target,
    "aten._embedding_bag": _bag,
    "aten._embedding_bag_forward_only": _bag,
    "aten._embedding_bag_backward": _bag,
    "aten._embedding_bag_dense_backward": _bag,
    "aten.masked_scatter": lambda index, size: RuntimeError("Number of elements of source < number of ones in mask"),
    "aten.index_put": lambda index, size: RuntimeError("shape mismatch: the values cannot be broadcast to the elements that the mask picks"),
}


class _Eager(torch.fx.Interpreter):
    """Runs a graph op by op; an exception is the one that the user's own op raises."""

    def run_node(self, n):
        try:
            return super().run_node(n)
        except (IndexError, RuntimeError) as e:
            op, own = (str(o).rpartition(".")[0] for o in (n.target, n.meta.get("original_aten")))
            words = _OWN_WORDS.get(own)
            if words is None or op == own:
                raise
            given = {a.name: v for a, v in zip(n.target._schema.arguments, self.map_nodes_to_values(n.args, n))}
            index, x = given.get("index", given.get("indices")), given.get("self", given.get("weight"))
            if not isinstance(index, torch.Tensor) or not isinstance(x, torch.Tensor):
                raise
            size = x.shape[given["dim"]] if "dim" in given else x.shape[0]
            raise words(index, size) from e


def run(gm, location, message, args):
    """What PyTorch makes of the arguments for which a check has failed."""
    eager = _Eager(gm)
    eager.extra_traceback = False
    with torch.no_grad():
        results = eager.run(*args)
    # An op that PyTorch does not check, such as the gradient of an embedding.
    next_step = "this call ran in PyTorch, whose ops take the index; check what it is meant to be"
    events.emit("fallbacks", message, location, next_step)
    return list(results)
