"""``strata.export``: a model in one file, and ``strata.load``: the file on PyTorch's tensors."""

import inspect
import json
import os

import torch
from torch.fx.node import Node
from torch.utils import _pytree as pytree

from . import _backend, _options
from . import strata_native as native
from ._decompositions import decompositions
from ._expand import expand
from ._serialize import Result, _Serializer
from ._sizes import Unsupported


class ExportError(RuntimeError):
    """A model that no file can hold: why, and where in its source."""


class _Plain(_Serializer):
    """Inputs and results lie row by row: a file says what it takes, PyTorch's memory does not matter."""

    standalone = True

    def tensor_input(self, name, t, argument, given=None):
        super().tensor_input(name, t, argument)
        if str(t.dtype) not in _TYPES:
            raise Unsupported(f"input {name} has type {t.dtype}; a file takes {', '.join(sorted(_TYPES))}")
        argument.order = None
        for key in ("permutation", "strides"):
            self.inputs[-1].pop(key, None)

    def result(self, node, outputs, numbers):
        val = self.value_meta(node) if isinstance(node, Node) else node
        if not isinstance(val, torch.Tensor) or str(val.dtype) not in _TYPES:
            what = val.dtype if isinstance(val, torch.Tensor) else f"{type(val).__name__} {val!r}"
            raise Unsupported(f"result {len(numbers)} is {what}; a file returns tensors of {', '.join(sorted(_TYPES))}")
        if node.name not in numbers:
            numbers[node.name] = len(outputs)
            outputs.append({"name": node.name, "permutation": None, "repeated": []})
        return Result("output", numbers[node.name], dtype=val.dtype, device=val.device)


_TYPES = {
    f"torch.{n}"
    for n in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8", "uint8", "bool")
}


def export(model, args, kwargs=None, *, path, dynamic_shapes=None, target=None, options=None):
    """Compiles a module, or a program of `torch.export`, with its parameters into one file, which `strata run`, the Rust runtime and
    `strata.load` run.

    `args`, `kwargs`, `dynamic_shapes`: as `torch.export.export` takes them. `target`: ``"cpu"``, this machine's processor;
    ``"x86-64-v3"`` and the like, any such processor; ``"sm_90a"`` and the like, a GPU; by default what the model is on.
    `options`: as for `torch.compile`; nothing may be left to PyTorch. Raises ExportError.
    """
    options = _options.parse(None, options)
    _backend._prepare(options.get("cache_dir"))
    program = model if isinstance(model, torch.export.ExportedProgram) else torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    program = program.run_decompositions(decompositions())
    signature = program.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise ExportError(f"the model writes to {', '.join(written)}, and a file holds constants\n  next: model.eval(), or return the new value")
    expand(program.graph_module, decompositions())
    name = type(model).__name__ if isinstance(model, torch.nn.Module) else "model"
    try:
        plain = _Plain(program.graph_module, [None] * len(signature.input_specs), f"{name}_0")
        graph = plain.run()
        sizes = [a for a in graph.arguments if a.size]
        if sizes:
            raise Unsupported("an integer argument that is no constant")
    except Unsupported as e:
        where = next((n.meta.get("stack_trace") for n in program.graph.nodes if n.name == e.node), None)
        raise ExportError(f"the model cannot be exported: {e}" + (f"\n{where}" if where else "")) from None
    weights, places = _weights(program, graph)
    notes = {
        "in_spec": pytree.treespec_dumps(program.call_spec.in_spec),
        "out_spec": pytree.treespec_dumps(program.call_spec.out_spec),
        "in_order": json.dumps(places),
        "out_order": json.dumps([r.value for r in graph.results]),
        "signature": json.dumps(_names_of(model)),
    }
    if target is None:
        target = "cpu"
        if graph.device.type == "cuda":
            major, minor = torch.cuda.get_device_capability(graph.device)
            target = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    given = {k: v for k, v in options.items() if k in ("numerics", "dump_dir")}
    text = _named_sizes(graph.text, program, dynamic_shapes)
    try:
        calls = native.export(text, target, {"source_name": name, **given}, weights, notes, os.fspath(path), _backend.find_server())
    except native.StrataError as e:
        raise ExportError(f"the model cannot be exported: {e.args[0]}\n  next: {e.args[2]}") from None
    if calls:
        lines = "".join(f"\n  {op}: {reason}\n    where: {location or 'unknown'}" for op, reason, location in calls)
        raise ExportError(f"{len(calls)} ops would run in PyTorch, which a file has not:{lines}\n  next: write these with other ops")


def _weights(program, graph):
    """Parameters, buffers and constants by number of the plan's input; and for each input that is left its place among the user's."""
    kinds = torch.export.graph_signature.InputKind
    users = [s.arg.name for s in program.graph_signature.input_specs if s.kind == kinds.USER_INPUT]
    specs = {i: s for i, s in enumerate(program.graph_signature.input_specs)}
    tensors, weights, places = {}, [], []
    for number, argument in enumerate(graph.arguments):
        spec = specs.get(argument.index)
        if spec is not None and spec.kind == kinds.USER_INPUT:
            places.append(users.index(spec.arg.name))
            continue
        value = argument.constant if spec is None else program.state_dict.get(spec.target, program.constants.get(spec.target))
        if not isinstance(value, torch.Tensor):
            raise ExportError(f"the model uses {spec.target if spec else 'a constant'}, which is no tensor")
        # One copy for several names of one tensor: the file holds it once.
        key = (value.data_ptr(), value.dtype, tuple(value.shape), value.stride())
        if key not in tensors:
            tensors[key] = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
        weights.append((number, tensors[key]))
    return weights, places


def _names_of(model):
    if not isinstance(model, torch.nn.Module):
        return []
    return [p.name for p in inspect.signature(model.forward).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _named_sizes(text, program, dynamic_shapes):
    """PyTorch's numbers for sizes replaced by the names that the user gave them."""
    names = {}

    def visit(spec, value):
        if isinstance(spec, dict) and isinstance(value, torch.Tensor):
            spec = [spec.get(d) for d in range(value.dim())]
        if isinstance(value, torch.Tensor):
            for size, dim in zip(value.shape, spec or ()):
                if isinstance(size, torch.SymInt) and hasattr(dim, "__name__") and size.node.expr.is_Symbol:
                    names.setdefault(size.node.expr.name, dim.__name__)
        elif isinstance(spec, (list, tuple)) and isinstance(value, (list, tuple)):
            [visit(s, v) for s, v in zip(spec, value)]

    kinds = torch.export.graph_signature.InputKind
    nodes = {n.name: n.meta.get("val") for n in program.graph.nodes}
    users = [nodes[s.arg.name] for s in program.graph_signature.input_specs if s.kind == kinds.USER_INPUT and s.arg.name in nodes]
    args, _ = pytree.tree_unflatten(users, program.call_spec.in_spec) if dynamic_shapes else ((), {})
    visit(list(dynamic_shapes.values()) if isinstance(dynamic_shapes, dict) else dynamic_shapes, args)
    for old, new in names.items():
        if new not in nodes and f'"{new}"' not in text:
            text = text.replace(f'"{old}"', f'"{new}"')
    return text


class Model:
    """A file that `strata.export` or `strata compile` wrote: a function of tensors.

    Called as the module was, or where the file was not exported from PyTorch with tensors in the order of `inputs`, by position or by
    name. Tensors have to be on `device`, which scalars on the host may leave out.
    """

    def __init__(self, native_model):
        self._model, self._notes = native_model, native_model.notes
        self.inputs, self.outputs, self.device = native_model.inputs, native_model.outputs, native_model.device
        if "in_spec" in self._notes:
            self._in, self._out = (pytree.treespec_loads(self._notes[k]) for k in ("in_spec", "out_spec"))
            self._places, self._order, self._names = (json.loads(self._notes[k]) for k in ("in_order", "out_order", "signature"))

    def __call__(self, *args, **kwargs):
        if "in_spec" not in self._notes:
            return self._by_name(args, kwargs)
        # As the model was exported: what was given by name then may be given by position now, and the other way round.
        wanted_args, wanted_kwargs = self._in.child(0).num_children, list(self._in.child(1).context or [])
        args, kwargs = list(args), dict(kwargs)
        for name in self._names[len(args) : wanted_args]:
            if name in kwargs:
                args.append(kwargs.pop(name))
        for name in self._names[wanted_args : len(args)]:
            kwargs[name] = args.pop(wanted_args)
        leaves, spec = pytree.tree_flatten((tuple(args), {k: kwargs[k] for k in wanted_kwargs if k in kwargs} | kwargs))
        if spec != self._in:
            raise TypeError(f"the model takes arguments of the form {self._in}, got {spec}")
        results = self._model.run([leaves[i] for i in self._places])
        return pytree.tree_unflatten([results[i] for i in self._order], self._out)

    def _by_name(self, args, kwargs):
        given = dict(zip(self.inputs, args))
        for name, value in kwargs.items():
            if name not in self.inputs or name in given:
                raise TypeError(f"the model takes {', '.join(self.inputs)}; got {name}{' twice' if name in given else ''}")
            given[name] = value
        missing = [name for name in self.inputs if name not in given]
        if missing or len(args) > len(self.inputs):
            raise TypeError(f"the model takes {', '.join(self.inputs)}" + (f"; missing {', '.join(missing)}" if missing else ""))
        results = self._model.run([given[name] for name in self.inputs])
        return results[0] if len(results) == 1 else tuple(results)

    def plan(self):
        """What a call does, as text."""
        return self._model.plan()


def load(path, device=None):
    """The model in a file; one for a GPU runs on `device`, by default the current one. Needs no compiler."""
    _backend._functions()
    ordinal = 0
    if device is not None:
        ordinal = torch.device(device).index or 0
    elif torch.cuda.is_available():
        ordinal = torch.cuda.current_device()
    return Model(native.load(os.fspath(path), ordinal, torch.get_num_threads()))
