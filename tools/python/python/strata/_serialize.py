"""FX graphs, as AOTAutograd leaves them, to the JSON that the compiler imports, and what is needed around it to call the result."""

import dataclasses
import json
import math
import operator
import os
import re

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.node import Node

from ._sizes import Unsupported, expr_of, symbol_facts, to_json

VERSION = 1
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = os.path.dirname(torch.__file__) + os.sep
# Ops that only say something about their operand.
_IGNORED = {"_assert_scalar", "sym_constrain_range_for_size", "sym_constrain_range", "_assert_async", "_assert_tensor_metadata"}


@dataclasses.dataclass
class Argument:
    """Where an argument of the compiled graph comes from."""

    index: int | None = None  # argument of the FX graph
    constant: object = None  # a tensor that the graph holds
    order: list | None = None  # dimensions in memory order
    size: bool = False  # an integer
    strides: list | None = None  # what is expected, as JSON
    lazy: bool = False  # PyTorch has a conjugation or a negation of it still to do


@dataclasses.dataclass
class Result:
    """How a result of the FX graph is made. One of `value`, `argument`, `view`, `output`, `size` says from what."""

    kind: str  # "constant", "argument", "view" (of an argument), "output", "size"
    value: object = None
    order: list | None = None  # dimensions of the output in memory, to be permuted back
    expand: list | None = None  # sizes, where one element stands for many
    gaps: list | None = None  # sizes and strides, where elements do not lie densely
    offset: object = None  # as a view of that argument or output: elements from its first to this one's first
    dtype: object = None  # element type; the compiled graph may only hold the bits
    device: object = None  # where PyTorch has it, if not where the graph runs
    strides: list | None = None  # as returned, SymPy


@dataclasses.dataclass
class Serialized:
    """A graph for the compiler, and how to call what comes back."""

    text: str
    device: torch.device
    arguments: list
    results: list
    objects: dict  # what JSON cannot hold, by number
    symbols: dict  # name -> ("arg", index) or ("size", index, dim)
    name: str
    location: str
    owns: bool = False  # whether nobody else has the arguments


def location_of(node):
    """File and line of the user's source: the innermost frame outside of PyTorch."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    for file, line in reversed(frames):
        if not file.startswith(_TORCH):
            return [file, int(line)]
    return [frames[-1][0], int(frames[-1][1])] if frames else None


def memory_order(shape, strides):
    """The dimensions, outermost first, in which a tensor is contiguous; None where it is in none.

    Sizes and strides are compared as expressions: nothing is assumed about them.
    """
    if any(isinstance(n, int) and n == 0 for n in shape):
        return list(range(len(shape)))
    left, order, expected = list(range(len(shape))), [], 1
    while left:
        found = next((d for d in reversed(left) if shape[d] == 1 or strides[d] == expected), None)
        if found is None:
            return None
        left.remove(found)
        order.insert(0, found)
        expected = expected * shape[found]
    return order


def part_of(shape, strides):
    """How a tensor lies that fills no memory: the order of its dimensions there and the sizes of what does fill it, larger along the
    innermost dimension (rows that begin at multiples of an alignment) or 1 where elements are repeated. None where it lies otherwise.
    """
    whole = [1 if isinstance(s, int) and s == 0 else n for n, s in zip(shape, strides)]
    inner = [d for d, s in enumerate(strides) if isinstance(s, int) and s == 1 and whole[d] != 1]
    rows = [whole[inner[0]]] if len(inner) == 1 else []
    rows += [s for s in strides if rows and s not in (0, 1, *rows) and not (isinstance(s, int) and isinstance(rows[0], int) and not rows[0] < s <= rows[0] + 64)]
    for size in rows or [None]:
        tried = [size if d in inner and size is not None else n for d, n in enumerate(whole)]
        if order := memory_order(tried, strides):
            return order, tried
    return None


class _Serializer:
    standalone = False  # whether it will run without PyTorch

    def __init__(self, gm, given, name, strict=False):
        self.gm, self.given, self.name, self.strict = gm, given, name, strict
        self.nodes, self.inputs, self.arguments, self.objects = [], [], [], {}
        self.symbols, self.env, self.device = {}, None, None
        self.bound, self.dense = {}, {}
        self.owners = {}  # memory of an argument -> its index and its value
        self.memories = {}  # memory of a result -> its number
        self.whole = {}  # memory -> the first node that fills it

    def size(self, size):
        e = expr_of(size)
        if not isinstance(e, int):
            for s in sorted(e.free_symbols, key=lambda s: s.name):
                self.symbols[s.name] = s
            if isinstance(size, torch.SymInt) and self.env is None:
                self.env = size.node.shape_env
        return e

    def meta(self, t):
        if t.layout != torch.strided or t.is_quantized:
            raise Unsupported(f"a tensor of layout {t.layout}")
        if t.device.type not in ("cpu", "cuda", "meta"):
            raise Unsupported(f"a tensor on {t.device}")
        shape = [self.size(n) for n in t.shape]
        order = memory_order(shape, [self.size(s) for s in t.stride()])
        meta = {
            "dtype": str(t.dtype).removeprefix("torch."),
            "shape": [to_json(n) for n in shape],
            "order": order,
        }
        if order is None and (part := part_of(shape, [self.size(s) for s in t.stride()])):
            meta["part"] = {"order": part[0], "shape": [to_json(n) for n in part[1]]}
        return meta

    def value_meta(self, node):
        if "val" not in node.meta:
            raise Unsupported(f"node {node.name} has no metadata")
        return node.meta["val"]

    # -- arguments of nodes --

    def arg(self, a):
        if isinstance(a, Node):
            if a.op == "get_attr" and a.name not in self.bound:
                return self.object(getattr(self.gm, a.target))
            val = self.value_meta(a)
            if isinstance(val, torch.Tensor):
                return {"node": a.name}
            if isinstance(val, (torch.SymInt, int)) and not isinstance(val, bool):
                return {"size": to_json(self.size(val))}
            if isinstance(val, (float, bool)) or val is None:
                return self.arg(val)
            if isinstance(val, (list, tuple)):
                return {"node": a.name}
            raise Unsupported(f"an argument of type {type(val).__name__}")
        if a is None or isinstance(a, (bool, str)):
            return a
        if isinstance(a, torch.SymInt):
            return {"size": to_json(self.size(a))}
        if isinstance(a, int):
            return a if abs(a) < 2**63 else self.object(a)
        if isinstance(a, float):
            if math.isfinite(a):
                return a
            return {"float": "nan" if math.isnan(a) else "inf" if a > 0 else "-inf"}
        if isinstance(a, (list, tuple)):
            return [self.arg(x) for x in a]
        if isinstance(a, torch.dtype):
            return {"dtype": str(a).removeprefix("torch.")}
        if isinstance(a, torch.device):
            return {"device": str(a)}
        if isinstance(a, (torch.memory_format, torch.layout)):
            return {"torch": str(a).removeprefix("torch.")}
        return self.object(a)

    def object(self, a):
        """Something for which only this process has a name."""
        number = len(self.objects)
        self.objects[number] = a
        return {"object": number}

    def arguments_of(self, node):
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            out, positional = {}, iter(node.args)
            for a in target._schema.arguments:
                if not a.kwarg_only:
                    try:
                        out[a.name] = self.arg(next(positional))
                        continue
                    except StopIteration:
                        pass
                if a.name in node.kwargs:
                    out[a.name] = self.arg(node.kwargs[a.name])
                elif a.has_default_value() and not a.kwarg_only:
                    out[a.name] = self.arg(a.default_value)
            return out
        out = {f"a{i}": self.arg(a) for i, a in enumerate(node.args)}
        out.update({k: self.arg(v) for k, v in node.kwargs.items()})
        return out

    # -- the graph --

    def placeholder(self, node, index):
        val = self.value_meta(node)
        if isinstance(val, torch.Tensor):
            argument = Argument(index=index)
            self.tensor_input(node.name, val, argument, self.given[index])
            if argument.strides == [to_json(self.size(s)) for s in val.stride()]:
                self.owners.setdefault(memory_of(val), (index, val))
        elif isinstance(val, torch.SymInt):
            e = self.size(val)
            if not isinstance(e, int) and e.is_Symbol:
                self.bound[e.name] = ("arg", index)
        self.bound.setdefault(node.name, index)

    def tensor_input(self, name, t, argument, given=None):
        # What comes may lie otherwise in memory than the graph was traced with: a result of the compiled forward graph.
        lies = given.stride() if isinstance(given, FakeTensor) and given.shape == t.shape else t.stride()
        shape, strides = [self.size(n) for n in t.shape], [self.size(s) for s in lies]
        order = memory_order(shape, strides)
        entry = {"name": name, "meta": self.meta(t)}
        if order is None:
            entry["strides"] = [to_json(s) for s in strides]
        elif order != list(range(len(order))):
            entry["permutation"] = argument.order = order
        argument.strides = [to_json(s) for s in strides]
        argument.lazy = t.is_conj() or t.is_neg()
        self.inputs.append(entry)
        self.arguments.append(argument)
        if isinstance(t.device, torch.device) and t.device.type == "cuda":
            self.use_device(t.device)

    def use_device(self, device):
        if self.device is None or self.device.type == "cpu":
            self.device = device
        elif self.device != device and device.type != "cpu":
            raise Unsupported(f"tensors on {self.device} and on {device}")

    def call(self, node):
        val = node.meta.get("val")
        if isinstance(val, (torch.SymInt, torch.SymBool, torch.SymFloat, int, float, bool)):
            return  # arithmetic on sizes: whoever uses it has the expression
        target = node.target
        op = str(target) if isinstance(target, torch._ops.OpOverload) else f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"
        if val is None:
            if any(word in op for word in _IGNORED):
                return
            raise Unsupported(f"{op} has no result")
        if target is operator.getitem:
            op = "getitem"
        entry = {"name": node.name, "op": op, "args": self.arguments_of(node), "location": location_of(node)}
        if not isinstance(target, torch._ops.OpOverload) and op != "getitem":
            entry["args"]["target"] = self.object(target)
        if isinstance(val, torch.Tensor):
            entry["out"] = [self.meta(val)]
            if self.fills(val):
                self.whole.setdefault(memory_of(val), node)
            if val.device.type == "cuda":
                self.use_device(val.device)
        elif isinstance(val, (list, tuple)):
            entry["out"] = [self.meta(v) if isinstance(v, torch.Tensor) else None for v in val]
            picked = {u.args[1] for u in node.users if u.target is operator.getitem and u.users}
            whole = any(u.target is not operator.getitem for u in node.users)
            entry["used"] = [whole or i in picked for i in range(len(val))]
        else:
            raise Unsupported(f"{op} has a result of type {type(val).__name__}")
        self.nodes.append(entry)

    def fills(self, val):
        """Whether a tensor is dense and all there is in its memory."""
        if val.is_conj() or val.is_neg() or any(isinstance(n, int) and n == 0 for n in val.shape):
            return False
        # Not `self.size`: the size of an argument's memory may be a symbol of its own, which no argument tells.
        all_there = expr_of(val.numel()) * val.element_size() == expr_of(val.untyped_storage().nbytes())
        return all_there and memory_order([self.size(n) for n in val.shape], [self.size(s) for s in val.stride()]) is not None

    def has_gaps(self, node):
        val = node.meta.get("val") if isinstance(node, Node) else None
        if not isinstance(val, torch.Tensor) or node.op == "placeholder":
            return False
        return memory_order([self.size(n) for n in val.shape], [self.size(s) for s in val.stride()]) is None

    def offset(self, base, view):
        """Elements from the first of one tensor to the first of another in the same memory, as JSON."""
        return to_json(sympy.sympify(self.size(view.storage_offset())) - self.size(base.storage_offset()))

    def holds(self, base, view):
        """Whether all elements of a tensor are elements of a dense one in the same memory, which may be a part of that memory."""
        if base.dtype != view.dtype:
            return False
        first = sympy.sympify(self.size(view.storage_offset())) - self.size(base.storage_offset())
        last = first + sum((sympy.sympify(self.size(n)) - 1) * self.size(s) for n, s in zip(view.shape, view.stride()))
        return all(sympy.expand(e).is_nonnegative for e in (first, self.size(base.numel()) - 1 - last))

    def holder(self, val):
        """A dense result that holds all elements of a tensor, and its number."""
        return next(((n, base) for n, base in self.dense.get(memory_of(val), ()) if self.holds(base, val)), (None, None))

    def result(self, node, outputs, numbers):
        if not isinstance(node, Node):
            return Result("constant", node)
        if node.op == "placeholder":
            return Result("argument", self.bound[node.name], strides=_strides(node.meta.get("val")))
        val = self.value_meta(node)
        if isinstance(val, (torch.SymInt, int)) and not isinstance(val, bool):
            return Result("size", to_json(self.size(val)))
        if not isinstance(val, torch.Tensor):
            raise Unsupported(f"a result of type {type(val).__name__}")
        shape, strides = [self.size(n) for n in val.shape], [self.size(s) for s in val.stride()]
        index, base = self.owners.get(memory_of(val), (None, None))
        if base is not None and (base.dtype, base.device, base.is_conj(), base.is_neg()) == (val.dtype, val.device, val.is_conj(), val.is_neg()):
            # PyTorch's user sees writes to either in both.
            return Result("view", index, gaps=_as_json(shape, strides), offset=self.offset(base, val), strides=strides)
        repeated = [d for d, s in enumerate(strides) if isinstance(s, int) and s == 0 and shape[d] not in (0, 1)]
        small = [1 if d in repeated else n for d, n in enumerate(shape)]
        order = memory_order(small, strides)
        own = strides
        if order is None:
            order, own = list(range(len(shape))), _contiguous(small)
        plain = order == list(range(len(order)))
        gaps = None
        if own is not strides and repeated:
            own, gaps = strides, _as_json(shape, strides)
        elif own is not strides:
            own, gaps = strides, _as_json(shape, strides)
            number, base = self.holder(val)
            whole = self.whole.get(memory_of(val))
            if base is None and whole is not None and self.holds(whole.meta["val"], val):
                # A part with gaps takes about as much memory as the whole, and several parts are often wanted: of queries, keys and values.
                self.result(whole, outputs, numbers)
                number, base = self.holder(val)
            if base is not None:
                return Result("output", number, gaps=gaps, offset=self.offset(base, val), dtype=val.dtype, device=val.device, strides=own)
        elif not repeated:
            self.dense.setdefault(memory_of(val), []).append((numbers.get(node.name, len(outputs)), val))
        if node.name not in numbers:
            numbers[node.name] = len(outputs)
            memory = self.memories.setdefault(memory_of(val), len(self.memories))
            outputs.append({"name": node.name, "permutation": None if plain else order, "repeated": repeated, "memory": memory})
        return Result(
            "output",
            numbers[node.name],
            None if plain else order,
            [to_json(n) for n in shape] if repeated else None,
            gaps,
            None,
            val.dtype,
            val.device,
            own,
        )

    def run(self):
        index, returned, lines = 0, (), []
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.placeholder(node, index)
                index += 1
            elif node.op == "get_attr":
                value = getattr(self.gm, node.target, None)
                if isinstance(value, torch.Tensor):
                    self.tensor_input(node.name, node.meta.get("val", value), Argument(constant=value))
                    self.bound[node.name] = None
            elif node.op == "call_function":
                try:
                    self.call(node)
                except Unsupported as e:
                    e.node = node.name
                    raise
                lines.append(location_of(node))
            elif node.op == "output":
                returned = node.args[0]
            else:
                raise Unsupported(f"a node of kind {node.op}")
        outputs, numbers = [], {}
        results = {}
        # Those with gaps last: they may be views of others.
        for i in sorted(range(len(returned)), key=lambda i: self.has_gaps(returned[i])):
            results[i] = self.result(returned[i], outputs, numbers)
        results = [results[i] for i in range(len(returned))]
        device = self.device or torch.device("cpu")
        for r in results:
            if r.kind == "output" and r.device == device:
                r.device = None
        symbols = self.bind_symbols()
        graph = {
            "version": VERSION,
            # Without its number: equal graphs have one entry in the cache.
            "name": self.name.rsplit("_", 1)[0],
            "device": device.type,
            "numerics": "strict" if self.strict else "default",
            "standalone": self.standalone,
            "symbols": [symbol_facts(s, self.env) for _, s in sorted(self.symbols.items())],
            "inputs": self.inputs,
            "nodes": self.nodes,
            "outputs": outputs,
        }
        lines = [f"{l[0]}:{l[1]}" for l in lines if l]
        return Serialized(
            json.dumps(graph), device, self.arguments, results, self.objects, symbols, self.name, lines[0] if lines else ""
        )

    def bind_symbols(self):
        """Where each symbol's value is; those that are the size of no argument become arguments of their own."""
        symbols = {}
        for name, (_, index) in ((k, v) for k, v in self.bound.items() if isinstance(v, tuple)):
            symbols[name] = ("arg", index)
        sizes = set()
        for entry, argument in zip(self.inputs, self.arguments):
            for d, e in enumerate(entry["meta"]["shape"]):
                if isinstance(e, str):
                    sizes.add(e)
                    if argument.index is not None:
                        symbols.setdefault(e, ("size", argument.index, d))
        for name in sorted(set(self.symbols) - sizes):
            where = symbols.get(name)
            if where is None or where[0] != "arg":
                raise Unsupported(f"the size {name} is the size of no argument")
            self.inputs.append({"name": name, "size": name})
            self.arguments.append(Argument(index=where[1], size=True))
        return symbols


def _contiguous(shape):
    out, n = [], 1
    for size in reversed(shape):
        out.insert(0, n)
        n = n * size
    return out


def _as_json(*lists):
    return [[to_json(n) for n in sizes] for sizes in lists]


def memory_of(val):
    """A number that two tensors have in common that share memory."""
    return val.untyped_storage()._cdata


def _strides(val):
    return [expr_of(s) for s in val.stride()] if isinstance(val, torch.Tensor) else None


def serialize(gm, given, name, strict=False):
    """The graph for the compiler; `given` are its arguments, as far as they are known; `strict`: numerics. Raises Unsupported where it has to run in PyTorch."""
    return _Serializer(gm, given, name, strict).run()
