"""Symbolic sizes: SymPy's expressions to JSON and to Python functions."""

import sympy
import torch


class Unsupported(Exception):
    """The graph cannot be handed to the compiler; PyTorch will run it, or the node at fault alone where that is known."""

    node = None


def expr_of(size):
    """The number or SymPy expression of an int or SymInt."""
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    if isinstance(size, torch.SymInt):
        e = size.node.expr
        return int(e) if e.is_Integer else e
    if isinstance(size, sympy.Basic):
        return int(size) if size.is_Integer else size
    raise Unsupported(f"a size of type {type(size).__name__}")


def to_json(e):
    """``e`` as JSON: an int, a symbol's name, or ``[operator, operand, ...]``."""
    if isinstance(e, int):
        return e
    if e.is_Integer:
        return int(e)
    if e.is_Symbol:
        return e.name
    args = e.args
    name = type(e).__name__
    if e.is_Add:
        return ["add", *map(to_json, args)]
    if e.is_Mul:
        return ["mul", *map(to_json, args)]
    if e.is_Pow and args[1].is_Integer and args[1] > 0:
        return ["mul", *[to_json(args[0])] * int(args[1])]
    if name in ("FloorDiv", "CleanDiv") and len(args) == 2:
        return ["floordiv", *map(to_json, args)]
    if name in ("Mod", "PythonMod") and len(args) == 2:
        return ["mod", *map(to_json, args)]
    if name == "ModularIndexing":
        return ["mod", ["floordiv", to_json(args[0]), to_json(args[1])], to_json(args[2])]
    if name in ("CeilToInt", "FloorToInt", "TruncToInt") and type(args[0]).__name__ == "IntTrueDiv":
        # Sizes are not negative, so cutting off is rounding down.
        above, below = args[0].args
        return ["floordiv", to_json(above + below - 1 if name == "CeilToInt" else above), to_json(below)]
    if name in ("Max", "Min"):
        return [name.lower(), *map(to_json, args)]
    raise Unsupported(f"the size expression {e} ({name})")


def symbol_facts(symbol, env):
    """Name, range, hint and divisor of a symbol as the shape environment knows them."""
    facts = {"name": symbol.name, "min": None, "max": None, "hint": None, "divisor": 1}
    if env is None:
        return facts
    bounds = env.var_to_range.get(symbol)
    if bounds is not None:
        for key, value in (("min", bounds.lower), ("max", bounds.upper)):
            if isinstance(value, (int, sympy.Integer)) and abs(int(value)) < 2**62:
                facts[key] = int(value)
    value = hints(env).get(symbol)
    if value is not None:
        facts["hint"] = int(value)
    for divisible in getattr(env, "divisible", ()):
        args = getattr(divisible, "args", ())
        if len(args) == 2 and args[0] == symbol and getattr(args[1], "is_Integer", False):
            facts["divisor"] = max(facts["divisor"], int(args[1]))
    return facts


def hints(env):
    """The numbers for which the symbols stood when the graph was traced."""
    return env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
