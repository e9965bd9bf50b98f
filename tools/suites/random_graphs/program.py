"""Random programs as data: inputs, steps, outputs. Their source, their inputs' values, and how they run."""

import contextlib
import dataclasses
import inspect
import re

import numpy as np
import torch
import torch.nn.functional as F

import rerun

FLOATS = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
INTEGERS = {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}
DTYPES = FLOATS | INTEGERS | {"b1": torch.bool}
SHORT = {v: k for k, v in DTYPES.items()}
NAMES = {"torch": torch, "F": F}
_NAME = re.compile(r"\b[av]\d+\b")


def drawn(seed, n, dtype, kind, limit):
    """Numbers as PyTorch's version does not change them."""
    draw = np.random.RandomState(seed)
    if dtype == "b1":
        return (draw.random_sample(n) < 0.5).tolist()
    if kind == "index":
        return draw.randint(0, max(limit, 1), n).tolist()
    if dtype[0] in "iu":
        return draw.randint(0 if dtype == "u8" else -4, 5, n).tolist()
    x = np.round(4 * draw.random_sample(n) - 2, 3)
    if kind == "special":
        at = draw.random_sample(n)
        x = np.select([at < 0.06, at < 0.12, at < 0.18, at < 0.24], [np.nan, np.inf, -np.inf, -0.0], x)
    return x.tolist()


@dataclasses.dataclass
class Input:
    """A tensor argument. Its storage is drawn from `seed`, or is `values`; `strides` and `offset` say how it lies there."""

    name: str
    dtype: str
    shape: list
    order: list | None = None  # dimensions, outermost first; None: as they come
    steps: list | None = None  # every how manieth element of a dimension; 0 repeats one
    offset: int = 0
    kind: str = "plain"  # or "index": below `limit`; "special": NaN and infinities among the numbers
    limit: int = 0
    seed: int = 0
    grad: bool = False
    values: list | None = None
    strides: list | None = None  # with `values`

    def layout(self, shape):
        """Strides, and how many elements the storage has."""
        if self.strides is not None:
            strides = self.strides
        else:
            strides, n = [0] * len(shape), 1
            for d in reversed(self.order or range(len(shape))):
                step = self.steps[d] if self.steps else 1
                strides[d] = n * step
                n *= max(shape[d], 1) * step if step else 1
        return strides, self.offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else self.offset

    def storage(self, n):
        if self.values is not None:
            return self.values
        return drawn(self.seed, n, self.dtype, self.kind, self.limit)

    def make(self, dtypes=DTYPES, shape=None):
        shape = self.shape if shape is None else shape
        strides, n = self.layout(shape)
        # Rounded as the input's own type has it, whatever the type it is computed in.
        flat = torch.tensor(self.storage(n), dtype=DTYPES[self.dtype]).to(dtypes[self.dtype])
        t = flat.as_strided(shape, strides, self.offset)
        return t.requires_grad_() if self.grad else t

    def source(self):
        strides, n = self.layout(self.shape)
        values = self.storage(n) if n <= 64 or self.values is not None else f"drawn{(self.seed, n, self.dtype, self.kind, self.limit)!r}"
        text = f"torch.tensor({values}, dtype={self.dtype}).as_strided({tuple(self.shape)}, {tuple(strides)}, {self.offset})"
        return text + (".requires_grad_()" if self.grad else "")


@dataclasses.dataclass
class Step:
    """A line of source. What it writes to, if it makes no new value, is `mutates`."""

    text: str
    outs: list
    mutates: str | None = None

    @property
    def uses(self):
        return [n for n in dict.fromkeys(_NAME.findall(self.text)) if n not in self.outs]


@dataclasses.dataclass
class Program:
    number: int
    inputs: list
    steps: list
    outputs: list
    grad: bool = False
    dynamic: list | None = None  # the size that varies, and its second value
    compile: bool = False  # through torch.compile, else straight through AOTAutograd

    def to_json(self):
        return dataclasses.asdict(self)

    @staticmethod
    def of_json(data):
        data = dict(data)
        return Program(**data | {"inputs": [Input(**i) for i in data["inputs"]], "steps": [Step(**s) for s in data["steps"]]})

    def source(self):
        lines = [f"def program({', '.join(i.name for i in self.inputs)}):", *("    " + s.text for s in self.steps)]
        return "\n".join([*lines, f"    return ({''.join(o + ', ' for o in self.outputs)})"]) + "\n"

    def make_inputs(self, dtypes=DTYPES, second=False):
        return [i.make(dtypes, self.second(i.shape) if second else i.shape) for i in self.inputs]

    def second(self, shape):
        """The shape at the second call: the size that varies is another."""
        return [self.dynamic[1] if n == self.dynamic[0] else n for n in shape]

    def function(self, dtypes=DTYPES):
        names = NAMES | dtypes
        exec(compile(self.source(), f"<program {self.number}>", "exec"), names)
        return names["program"]


WIDE = DTYPES | dict.fromkeys(FLOATS, torch.float64)


@contextlib.contextmanager
def wide_default():
    """In float64, what integers are divided to is float64, too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


_SCRIPT = '''"""{title}

Prints the results of PyTorch and of Strata."""

import torch
import torch.nn.functional as F

nan, inf = float("nan"), float("inf")
{dtypes}
{drawn}

{source}

def inputs():
    return [
{inputs}
    ]


GRAD, DYNAMIC = {grad}, {dynamic}


{run}

{show}

if __name__ == "__main__":
    show(program, inputs, GRAD, DYNAMIC)
'''


def script(program, title):
    used = [n for n in DTYPES if re.search(rf"\b{n}\b", program.source()) or any(i.dtype == n for i in program.inputs)]
    inputs = "\n".join(f"        {i.source()},  # {i.name}" for i in program.inputs)
    return _SCRIPT.format(
        title=title,
        drawn=f"\n\nimport numpy as np\n\n\n{inspect.getsource(drawn)}" if "drawn(" in inputs else "",
        dtypes="\n".join(f"{n} = {DTYPES[n]}" for n in used),
        source=program.source(),
        inputs=inputs,
        grad=program.grad,
        dynamic=program.dynamic,
        run=inspect.getsource(rerun.run),
        show=inspect.getsource(rerun.show),
    )
