"""Ops without lowering, run by PyTorch on the plan's memory."""

import functools
import json

import torch


def _operator(name):
    namespace, op, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), op), overload)


class Fallbacks:
    """Calls ops by the payloads that the compiler wrote; see `import/fx/fallback.rs`."""

    def __init__(self, objects, device):
        self.objects, self.device = objects, device
        self.prepared = functools.cache(self._prepare)

    def _prepare(self, payload):
        call = json.loads(payload)
        args = dict(call["args"])
        if "target" in args and isinstance(args["target"], dict) and "object" in args["target"]:
            target = self.objects[args.pop("target")["object"]]
            positional = [args.pop(f"a{i}") for i in range(len(args)) if f"a{i}" in args]
        else:
            # By position as far as the schema goes: some of its names are no Python names.
            target, positional = _operator(call["op"]), []
            for a in target._schema.arguments:
                if a.kwarg_only or a.name not in args:
                    break
                positional.append(args.pop(a.name))
        inputs = [getattr(torch, d) for d in call["in"]]
        outputs = [d and getattr(torch, d) for d in call["out"]]
        return target, positional, args, inputs, outputs

    def __call__(self, payload, inputs, symbols, outputs):
        target, positional, named, in_types, out_types = self.prepared(payload)
        tensors = [t if t.dtype == d else t.view(d) for t, d in zip(inputs, in_types)]

        def value(a):
            if isinstance(a, list):
                return [value(x) for x in a]
            if not isinstance(a, dict):
                return a
            ((kind, v),) = a.items()
            if kind == "tensor":
                return tensors[v]
            if kind == "symbol":
                return symbols[v]
            if kind == "float":
                return float(v)
            if kind in ("dtype", "torch"):
                return getattr(torch, v)
            if kind == "device":
                return torch.device(v)
            if kind == "object":
                return self.objects[v]
            raise ValueError(f"an argument {a} of {target}")

        with torch.no_grad():
            results = target(*map(value, positional), **{k: value(v) for k, v in named.items()})
            if isinstance(results, torch.Tensor):
                results = [results]
            places = iter(outputs)
            for r, dtype in zip(results, out_types):
                if dtype is None:
                    continue
                place = next(places)
                place = place if place.dtype == dtype else place.view(dtype)
                if place.shape != r.shape:
                    raise RuntimeError(f"{target} gives {tuple(r.shape)}, the graph expects {tuple(place.shape)}")
                place.copy_(r)
