"""From a number to a program: step after step, each run at once, so that every program is valid and says something."""

import random

import catalog
import ops_indexing  # noqa: F401
import ops_pointwise  # noqa: F401
import ops_reductions  # noqa: F401
import ops_views  # noqa: F401
import oracle
from program import DTYPES, FLOATS, INTEGERS, SHORT, Input, Program, Step

VARYING, OTHERS = 7, (11, 13)
SIZES = (1, 2, 3, 3, 4, 5, 6, 8)
# Longer than vectors, not their multiples; longer than a run of a sum; many.
LONG = (16, 17, 31, 33, 64, 65, 100, 130, 257, 1000)
MOST = 400  # elements of a value, or ten times as many in a program with a long dimension


class Generator:
    """What the catalog's entries use to pick operands; `self[name]` is a value as PyTorch computed it."""

    def __init__(self, number):
        self.rng, self.number = random.Random(f"strata {number}"), number
        self.twins, self.inputs, self.steps = oracle.Twins(number), [], []
        self.grad = self.rng.random() < 0.18
        self.varying = self.rng.random() < 0.08
        self.long = self.rng.random() < 0.3
        self.special = not self.grad and self.rng.random() < 0.1
        self.twins.special = self.special
        floats = self.rng.random()
        self.favourite = self.rng.choice(["f16", "bf16", "f64"]) if floats < 0.35 else "f32"

    def __getitem__(self, name):
        return self.twins.names[0][name]

    def names(self):
        return [i.name for i in self.inputs if i.kind != "index"] + [o for s in self.steps for o in s.outs]

    def choose(self, options):
        return self.rng.choice(options)

    def shuffled(self, options):
        options = list(options)
        self.rng.shuffle(options)
        return options

    def small(self):
        return self.choose((1, 2, 3, 4))

    def size(self, x, d):
        """A size as source: by name where it may be another at the next call."""
        n = self[x].shape[d]
        return f"{x}.shape[{d}]" if n == VARYING else str(n)

    def pick(self, fits):
        names = [n for n in self.names() if fits(self[n])]
        if not names:
            raise catalog.Nothing
        # What was made last, rather: programs that are deep, not wide.
        return names[-1] if self.rng.random() < 0.4 else self.choose(names)

    def partner(self, x, fits, dtype):
        """A value that broadcasts with x to x's shape."""
        shape = self[x].shape
        names = [n for n in self.names() if fits(self[n]) and broadcasts(self[n].shape, shape)]
        if names and self.rng.random() < 0.8:
            return self.choose(names)
        return self.new_input(dtype, self.broadcasting(shape))

    def broadcasting(self, shape):
        out = [1 if self.rng.random() < 0.2 else n for n in shape]
        return out[self.rng.randint(0, len(out)) :] if out and self.rng.random() < 0.25 else out

    def pair(self, fits):
        x = self.pick(fits)
        shape = self[x].shape
        names = [n for n in self.names() if fits(self[n]) and (broadcasts(self[n].shape, shape) or broadcasts(shape, self[n].shape))]
        if self.rng.random() < 0.25:
            names.append(self.new_input(self.choose(INPUT_TYPES) if fits(DUMMY["i32"]) else self.favourite, self.broadcasting(shape)))
        y = self.choose([n for n in names if fits(self[n])] or [x])
        return (x, y) if self.rng.random() < 0.5 else (y, x)

    def fitting(self, fits, dtype, shape):
        names = [n for n in self.names() if fits(self[n])]
        return self.choose(names) if names and self.rng.random() < 0.7 else self.new_input(dtype, shape)

    def bounded(self, *names):
        if any(self.largest(n) > 50 for n in names):
            raise catalog.Nothing

    def largest(self, name):
        t = self[name]
        return t.detach().double().nan_to_num(posinf=1e6, neginf=1e6).abs().max().item() if t.numel() and SHORT[t.dtype] != "b1" else 0

    def overlaps(self, t):
        """Whether two positions of a value may be one element."""
        at = 0
        for s, n in sorted((s, n) for n, s in zip(t.shape, t.stride()) if n != 1):
            if s <= at:
                return True
            at += (n - 1) * s
        return False

    def new_input(self, dtype, shape, kind="plain", limit=0):
        if len(self.inputs) >= 7:
            raise catalog.Nothing
        shape, rank = list(shape), len(shape)
        i = Input(f"a{len(self.inputs)}", dtype, shape, kind=kind, limit=limit, seed=self.rng.randrange(1 << 30))
        if self.rng.random() < 0.35 and rank:
            i.order = [0, 2, 3, 1] if rank == 4 and self.rng.random() < 0.5 else self.shuffled(range(rank))
            if self.rng.random() < 0.4:
                i.steps = [self.choose((1, 1, 1, 2, 0 if kind == "plain" else 1)) for _ in shape]
            i.offset = self.choose((0, 0, 3))
        if self.special and dtype in FLOATS and kind == "plain":
            i.kind = "special"
        i.grad = self.grad and dtype in FLOATS and self.rng.random() < 0.7 and 0 not in (i.steps or ())
        self.twins.add_input(i)
        self.inputs.append(i)
        return i.name

    def starting_shape(self):
        if self.rng.random() < 0.06:
            return []
        shape = [self.choose(SIZES) for _ in range(self.choose((1, 2, 2, 2, 3, 3, 4)))]
        if self.long:
            shape[self.rng.choice((-1, -1, 0))] = self.choose(LONG)
        if self.varying:
            shape[self.rng.randrange(len(shape))] = VARYING
        elif self.rng.random() < 0.05:
            shape[self.rng.randrange(len(shape))] = 0
        return shape

    def add_step(self):
        group = self.rng.choices(list(catalog.WEIGHTS), catalog.WEIGHTS.values())[0]
        if group == "writes" and self.grad:
            return False
        had = len(self.inputs)
        try:
            line = self.choose(catalog.GROUPS[group])(self)
            if isinstance(line, catalog.Writes):
                step = Step(str(line), [], line.target)
            else:
                name = f"v{sum(len(s.outs) for s in self.steps)}"
                step = Step(f"{name} = {line}", [name])
            self.twins.step(step)
        except (catalog.Nothing, oracle.Rejected):
            self.forget(had)
            return False
        if step.outs and self[step.outs[0]].numel() > MOST * (10 if self.long else 1):
            self.forget(had)
            return False
        self.steps.append(step)
        return True

    def forget(self, had):
        for i in self.inputs[had:]:
            for names in self.twins.names:
                del names[i.name]
        del self.inputs[had:]

    def program(self):
        """The program; raises Rejected where the number makes none."""
        for _ in range(self.choose((1, 2, 2, 3))):
            shape = self.starting_shape() if not self.inputs or self.rng.random() < 0.3 else self.broadcasting(self.inputs[0].shape)
            self.new_input(self.favourite if self.rng.random() < 0.7 else self.choose(INPUT_TYPES), shape)
        wanted = self.choose((3, 3, 4, 4, 5, 5, 6, 8, 12))
        for _ in range(6 * wanted):
            if len(self.steps) == wanted:
                break
            self.add_step()
        made = [o for s in self.steps for o in s.outs]
        used = {u for s in self.steps for u in s.uses}
        outputs = [o for o in made if o not in used or self.rng.random() < 0.15][-6:]
        if self.rng.random() < 0.05:
            outputs.append(self.inputs[0].name)
        if not made or not outputs:
            raise oracle.Rejected("no step")
        used |= set(outputs) | {s.mutates for s in self.steps}
        inputs = [i for i in self.inputs if i.name in used]
        p = Program(self.number, inputs, self.steps, outputs, self.grad and any(i.grad for i in inputs))
        return self.settle(p)

    def settle(self, p):
        """Chooses how it runs; what cannot be checked so is left out."""
        p.found = {}  # what it must compute, so that a trial in this process need not compute it again
        try:
            p.found[False] = oracle.expected(p)
        except oracle.Rejected:
            if not p.grad:
                raise
            p.grad = False
            for i in p.inputs:
                i.grad = False
            p.found[False] = oracle.expected(p)
        if self.varying and any(VARYING in i.shape for i in p.inputs):
            p.dynamic = [VARYING, self.choose(OTHERS)]
            try:
                p.found[True] = oracle.expected(p, second=True)
            except oracle.Rejected:
                p.dynamic = None
        p.compile = p.dynamic is not None or self.rng.random() < 0.05
        return p


INPUT_TYPES = ["f32", "f32", "f64", "f16", "bf16", "b1", *INTEGERS]


class _Dummy:
    def __init__(self, dtype):
        self.dtype = dtype

    def is_floating_point(self):
        return self.dtype.is_floating_point


DUMMY = {n: _Dummy(d) for n, d in DTYPES.items()}


def broadcasts(shape, to):
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to)))


def generate(number):
    """The number's program, or none."""
    try:
        return Generator(number).program()
    except oracle.Rejected:
        return None
