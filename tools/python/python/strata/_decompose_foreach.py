"""Ops on lists of tensors, as optimizers use them: the op of each tensor."""

import torch

aten = torch.ops.aten

# Those whose op on one tensor has the same name and arguments.
_SAME = """
    abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp lgamma log log10 log1p
    log2 mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc
"""
# Of a tensor and a number PyTorch has other names.
_OTHERS = {
    "maximum": lambda x, y: torch.maximum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_min(x, y),
    "minimum": lambda x, y: torch.minimum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_max(x, y),
    "max": torch.max,
    "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
    "zero": torch.zeros_like,
    "copy": lambda x, source: source.to(x.dtype).expand(x.shape).clone(),
}


def _each(schema, one):
    lists = [isinstance(a.type, torch.ListType) for a in schema.arguments]
    keyword = {a.name for a in schema.arguments if a.kwarg_only}
    # The numbers of a list are one number's argument.
    last = {"scalars": "value"} if schema.name in ("aten::_foreach_addcdiv", "aten::_foreach_addcmul") else {}

    def run(*args, **kwargs):
        given = [(a.name, is_list, v) for a, is_list, v in zip(schema.arguments, lists, args)]
        given += [(a.name, is_list, kwargs[a.name]) for a, is_list in zip(schema.arguments, lists) if a.name in kwargs]
        count = len(next(v for _, is_list, v in given if is_list))
        results = []
        for i in range(count):
            positional, named = [], {}
            for name, is_list, value in given:
                value = value[i] if is_list else value
                if name in keyword or name == "value" or name in last:
                    named[last.get(name, name)] = value
                else:
                    positional.append(value)
            results.append(one(*positional, **named))
        return results

    return run


def _table():
    ones = {name: getattr(torch, name) for name in _SAME.split()} | _OTHERS
    table = {}
    for name, one in ones.items():
        packet = getattr(aten, f"_foreach_{name}")
        for overload in packet.overloads():
            op = getattr(packet, overload)
            # A tensor of numbers is no number.
            plain = overload.endswith("out") or any(a.name == "scalars" and not isinstance(a.type, torch.ListType) for a in op._schema.arguments)
            if not plain:
                table[op] = _each(op._schema, one)
    return table


TABLE = _table()
