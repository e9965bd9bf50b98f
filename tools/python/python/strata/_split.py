"""A graph of which PyTorch has to run a part: compiled pieces with PyTorch's ops between them.

Nodes get a level. The compiled nodes of level k are piece k; what PyTorch runs at level k comes after piece k, in the graph's order. So there
are as few pieces as the graph's dependencies allow. Sizes that come into being between pieces are ordinary symbols of the later ones. What results
is a module of FX's, whose code can be read: ``module.print_readable()``.
"""

import operator

import torch
from torch.fx import Graph, GraphModule
from torch.fx.graph import _BoxedCodeGen
from torch.fx.node import Node, map_arg

from . import _cuts as cuts_of
from ._serialize import memory_of
from ._modules import Body, InPyTorch, Piece, as_list
from ._serialize import location_of
from ._sizes import expr_of

_START = -1


class Split:
    """Builds the module. `compile_piece(gm, given)` gives a callable and the strides of its results; `compile_body(gm, inputs, kind)` a callable."""

    def __init__(self, gm, inputs, cuts, kind, compile_piece, compile_body):
        self.gm, self.cuts, self.kind = gm, cuts, kind
        self.compile_piece, self.compile_body = compile_piece, compile_body
        self.nodes = list(gm.graph.nodes)
        self.order = {n: i for i, n in enumerate(self.nodes)}
        self.given = dict(zip((n for n in self.nodes if n.op == "placeholder"), inputs))
        self.level, self.symbol_level = {}, {}
        self.graph, self.root = Graph(), torch.nn.Module()
        self.graph.set_codegen(_BoxedCodeGen())
        self.outer, self.sizes, self.bodies, self.strides = {}, {}, {}, {}
        self.pieces, self.stores = 0, []

    # -- levels --

    def compiled(self, node):
        """Whether the node is part of a piece."""
        if node.op != "call_function" or node.name in self.cuts or cuts_of.is_size(node):
            return False
        return node.target is not operator.getitem or self.compiled(node.args[0])

    def see_symbols(self, node, level):
        for name in _whole_symbols(node.meta.get("val")):
            self.symbol_level.setdefault(name, level)

    def assign(self):
        last_random, seen = _START, _START
        for node in self.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.level[node] = _START
                self.see_symbols(node, _START)
                continue
            inside, level = self.compiled(node), _START
            for operand in node.all_input_nodes:
                val = operand.meta.get("val")
                if inside and isinstance(val, (torch.SymInt, int)):
                    for name in cuts_of.symbols_of(val):
                        level = max(level, self.symbol_level.get(name, _START) + 1)
                else:
                    level = max(level, self.level[operand] + (inside and not self.compiled(operand)))
            if inside:
                level = max(level, 0)
            if cuts_of.random(node):
                last_random = level = max(level, last_random)
            if not inside and isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
                level = max(level, seen)
            self.level[node] = level
            seen = max(seen, level)
            if not inside:
                self.see_symbols(node, level)

    # -- the outer graph --

    def value(self, node):
        """The outer graph's node for a node of the whole graph; numbers are computed where they are first needed."""
        if node in self.outer:
            return self.outer[node]
        val = node.meta.get("val")
        if isinstance(val, (int, float)):
            return val
        if self.known(val):
            return self.size(val.node.expr.name)
        if node.op == "get_attr":
            new = self.attribute(node)
        else:
            new = self.graph.call_function(node.target, map_arg(node.args, self.value), map_arg(node.kwargs, self.value))
            new.meta = dict(node.meta)
            if isinstance(val, torch.Tensor):
                self.strides[node] = None
        self.outer[node] = new
        return new

    def attribute(self, node):
        held = _attribute(self.gm, node.target)
        if isinstance(held, GraphModule):
            if id(held) not in self.bodies:
                self.bodies[id(held)] = self.add(node.target.replace(".", "_"), Body(held, self.kind, self.compile_body))
            return self.graph.get_attr(self.bodies[id(held)])
        name = node.target.replace(".", "_")
        setattr(self.root, name, held)
        return self.graph.get_attr(name)

    def add(self, name, module):
        while hasattr(self.root, name):
            name += "_"
        self.root.add_module(name, module)
        return name

    def bind_sizes(self, node):
        """Notes where the values of symbols are to be found: in numbers, and in the sizes of tensors."""
        val = node.meta.get("val")
        if isinstance(val, torch.SymInt) and val.node.expr.is_Symbol:
            self.sizes.setdefault(val.node.expr.name, (node, None, val))
        elif isinstance(val, torch.Tensor):
            for d, n in enumerate(val.shape):
                if isinstance(n, torch.SymInt) and n.node.expr.is_Symbol:
                    self.sizes.setdefault(n.node.expr.name, (node, d, n))

    def size(self, name):
        node, d, val = self.sizes[name]
        if d is None:
            return self.outer[node]
        key = (node, d)
        if key not in self.outer:
            self.outer[key] = self.graph.call_function(torch.ops.aten.sym_size.int, (self.value(node), d))
            self.outer[key].meta["val"] = val
        return self.outer[key]

    def build(self):
        self.assign()
        for node in self.nodes:
            if node.op == "placeholder":
                self.outer[node] = self.graph.node_copy(node)
                self.bind_sizes(node)
        steps = [n for n in self.nodes if n.op == "call_function"]
        output = next(n for n in self.nodes if n.op == "output")
        for level in range(_START, max([self.level[n] for n in steps], default=_START) + 1):
            here = [n for n in steps if self.level[n] == level]
            piece = [n for n in here if self.compiled(n)]
            if piece:
                self.piece(piece)
            for node in here:
                if node.name in self.cuts:
                    self.cut(node)
                elif node.target is operator.getitem and not self.compiled(node) and node.users:
                    self.value(node)
                    self.bind_sizes(node)
        self.store()
        returned = map_arg(output.args[0], self.value)
        self.graph.output(returned)
        module = GraphModule(self.root, self.graph, f"Split_{self.kind}")
        return module, [self.strides.get(n) if isinstance(n, Node) else None for n in output.args[0]]

    def store(self):
        """Writes the new values of arguments: those of one type and device in one call."""
        groups, written = {}, [memory_of(node.args[0].meta["val"]) for node in self.stores]
        for node in self.stores:
            place, value = node.args
            outer = self.value(value)
            if memory_of(value.meta["val"]) in written:
                outer = self.graph.call_function(torch.clone, (outer,))
            val = place.meta["val"]
            groups.setdefault((val.dtype, val.device), ([], []))
            groups[val.dtype, val.device][0].append(self.outer[place])
            groups[val.dtype, val.device][1].append(outer)
        for places, values in groups.values():
            self.graph.call_function(torch._foreach_copy_, (places, values))

    def cut(self, node):
        reason = self.cuts[node.name]
        if reason is cuts_of.STORE:
            self.stores.append(node)
            self.outer[node] = self.outer[node.args[0]]
            return
        if reason is cuts_of.CHECK:
            new = self.graph.call_function(node.target, map_arg(node.args, self.value), map_arg(node.kwargs, self.value))
        else:
            name = self.add(f"pytorch_{node.name}", InPyTorch(node))
            new = self.graph.call_module(name, map_arg(node.args, self.value), map_arg(node.kwargs, self.value))
        new.meta = dict(node.meta)
        self.outer[node] = new
        self.bind_sizes(node)

    def piece(self, nodes):
        inside = set(nodes)
        if all(cuts_of.is_view(n) for n in nodes):
            for n in nodes:
                self.value(n)
            return
        graph, env, taken, given = Graph(), {}, [], []

        def take(key, outer, val, like=None):
            env[key] = graph.placeholder(key.name if isinstance(key, Node) else key)
            env[key].meta = {"val": val}
            taken.append(outer)
            given.append(val if like is None else like)

        def need(operand):
            """Makes an input of what the piece needs from outside."""
            val = operand.meta.get("val")
            if operand in inside or operand in env or operand.op == "get_attr":
                return
            if not cuts_of.is_size(operand) and not isinstance(val, torch.SymInt):
                take(operand, self.value(operand), val, self.given.get(operand))
            elif isinstance(val, torch.SymFloat):
                with _fake_mode(nodes):
                    like = torch.zeros((), dtype=torch.float64)
                number = self.graph.call_function(torch.scalar_tensor, (self.value(operand),), {"dtype": torch.float64})
                take(operand, number, like)
            elif isinstance(val, torch.SymInt) and not self.known(val):
                for o in operand.all_input_nodes:
                    need(o)

        needed = set()
        for n in nodes:
            for operand in n.all_input_nodes:
                need(operand)
                needed |= cuts_of.symbols_of(operand.meta.get("val"))
            needed |= cuts_of.symbols_of(n.meta.get("val"))
        for name in sorted(needed & set(self.sizes)):
            take(name, self.size(name), self.sizes[name][2])
        root = torch.nn.Module()
        for n in nodes:
            self.copy(n, graph, env, root)
        returned = [n for n in nodes if any(u not in inside for u in n.users) and not isinstance(n.meta.get("val"), (list, tuple))]
        graph.output([env[n] for n in returned])
        compiled, strides = self.compile_piece(GraphModule(root, graph), given)
        self.pieces += 1
        name = self.add(f"piece_{self.pieces - 1}", Piece(compiled))
        call = self.graph.call_module(name, tuple(taken))
        for i, n in enumerate(returned):
            self.outer[n] = self.graph.call_function(operator.getitem, (call, i))
            self.outer[n].meta = dict(n.meta)
            self.bind_sizes(n)
            self.strides[n] = strides[i]
            if strides[i] is not None and list(strides[i]) != [expr_of(s) for s in n.meta["val"].stride()]:
                self.given[n] = _lying(n.meta["val"], strides[i])

    def known(self, val):
        """Whether the number is a symbol of which the value is at hand."""
        return isinstance(val, torch.SymInt) and val.node.expr.is_Symbol and val.node.expr.name in self.sizes

    def copy(self, node, graph, env, root):
        def operand(o):
            if o in env:
                return env[o]
            val = o.meta.get("val")
            if isinstance(val, (int, float)):
                return val
            if self.known(val):
                return env[val.node.expr.name]
            if isinstance(val, torch.SymInt) and val.node.expr.is_Integer:
                return int(val.node.expr)  # an argument that turned out to be always the same
            if o.op == "get_attr":
                name = o.target.replace(".", "_")
                setattr(root, name, _attribute(self.gm, o.target))
                env[o] = graph.get_attr(name)
                env[o].meta = dict(o.meta)
                return env[o]
            self.copy(o, graph, env, root)  # arithmetic on sizes
            return env[o]

        args, kwargs = map_arg(node.args, operand), map_arg(node.kwargs, operand)
        env[node] = graph.create_node("call_function", node.target, args, kwargs, node.name)
        env[node].meta = dict(node.meta)


def _fake_mode(nodes):
    return next(t.fake_mode for n in nodes for t in as_list(n.meta.get("val")) if isinstance(t, torch._subclasses.FakeTensor))


def _whole_symbols(value):
    """The symbols that a value has as a whole: a number, or sizes of a tensor."""
    parts = value.shape if isinstance(value, torch.Tensor) else as_list(value)
    out = set()
    for p in parts:
        if isinstance(p, torch.SymInt) and p.node.expr.is_Symbol:
            out.add(p.node.expr.name)
        elif isinstance(p, torch.Tensor):
            out |= _whole_symbols(p)
    return out


def _lying(val, strides):
    """A fake tensor like `val` that lies otherwise in memory."""
    if not all(isinstance(s, int) for s in strides):
        return None
    with val.fake_mode:
        return torch.empty_strided(val.shape, strides, dtype=val.dtype, device=val.device)


def _attribute(gm, target):
    for part in target.split("."):
        gm = getattr(gm, part)
    return gm


def where(node):
    """Source file and line of a node, as events have them."""
    location = location_of(node) if node is not None else None
    return f"{location[0]}:{location[1]}" if location else ""
