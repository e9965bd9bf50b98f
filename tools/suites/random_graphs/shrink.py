"""Makes a failing program small: fewer outputs, steps, sizes, types, with the same kind of fault."""

import dataclasses
import re

import oracle
from program import SHORT, Input


def kind(answer):
    """What must stay the same while a program shrinks: the status, and what is wrong first."""
    if answer["status"] in ("ok", "none", "pytorch"):
        return None
    problems = answer.get("problems", {})
    first = next(iter(problems.values()), "")
    if answer["status"] == "wrong":
        return "wrong", re.split(r":| instead|[\d(]", first)[0].strip()
    # Messages without names, numbers and what differs from run to run.
    words = re.sub(r"^.*?error: |/\S+|\b\w*\d\w*\b|[^a-zA-Z_. ]", "", first.split("\n")[0])
    return answer["status"], " ".join(words.split())[:80]


def needed(p, steps, outputs):
    """The steps that matter to the outputs; writes always do, if what they write to is still there."""
    kept, used = [], set(outputs)
    writes = [s for s in steps if s.mutates]
    for s in reversed(steps):
        if any(o in used for o in s.outs) or s in writes:
            kept.insert(0, s)
            used |= set(s.uses)
    return kept, [i for i in p.inputs if i.name in used]


def rebuilt(p, **changes):
    p = dataclasses.replace(p, **changes)
    steps, inputs = needed(p, p.steps, p.outputs)
    return dataclasses.replace(p, steps=steps, inputs=inputs)


def captured(p, name):
    """An input that has the value which a step gave."""
    twins = oracle.Twins(p.number, any(i.kind == "special" for i in p.inputs))
    for i in p.inputs:
        twins.add_input(i)
    for s in p.steps:
        twins.step(s)
        if name in s.outs:
            break
    t = twins.names[0][name].detach()
    size = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) if t.numel() else 0
    flat = t.as_strided((size,), (1,)) if size else t.reshape(-1)
    return Input(name, SHORT[t.dtype], list(t.shape), values=flat.tolist(), strides=list(t.stride()), grad=p.grad and t.is_floating_point())


def candidates(p):
    """Smaller programs, the boldest first."""
    if len(p.outputs) > 1:
        for o in p.outputs:
            yield "output", rebuilt(p, outputs=[o])
        for o in p.outputs:
            yield "output", rebuilt(p, outputs=[x for x in p.outputs if x != o])
    made = {o for s in p.steps for o in s.outs}
    for s in p.steps:
        # What a result was made of, instead of it.
        for o in set(s.outs) & set(p.outputs):
            for u in (u for u in s.uses if u in made):
                yield "operand", rebuilt(p, outputs=[u if x == o else x for x in p.outputs])
    for n in reversed(range(len(p.steps))):
        s = p.steps[n]
        rest = p.steps[:n] + p.steps[n + 1 :]
        if s.mutates:
            yield "write", rebuilt(p, steps=rest)
        elif s.outs:
            users = [t for t in rest if s.outs[0] in t.uses or t.mutates == s.outs[0]]
            if not users and s.outs[0] in p.outputs:
                continue
            try:
                i = captured(p, s.outs[0])
            except oracle.Rejected:
                continue
            yield "step", rebuilt(p, steps=rest, inputs=[*p.inputs, i])
    if p.grad:
        yield "grad", dataclasses.replace(p, grad=False, inputs=[dataclasses.replace(i, grad=False) for i in p.inputs])
    if p.dynamic:
        yield "dynamic", dataclasses.replace(p, dynamic=None)
    if p.compile and not p.dynamic:
        yield "compile", dataclasses.replace(p, compile=False)
    for n, i in enumerate(p.inputs):
        for changed in simpler(i):
            yield "input", dataclasses.replace(p, inputs=[*p.inputs[:n], changed, *p.inputs[n + 1 :]])
    sizes = sorted({n for i in p.inputs for n in i.shape if n > 1}, reverse=True)
    for size in sizes:
        for less in sorted({1, 2, size // 2, size - 1} - {size}):
            if less < size:
                yield "size", dataclasses.replace(p, inputs=[smaller(i, size, less) for i in p.inputs])


def simpler(i):
    if i.strides is not None:
        plain = dataclasses.replace(i, strides=None, values=None, seed=1)
        yield plain
    if i.kind == "special":
        yield dataclasses.replace(i, kind="plain")
    if i.offset or i.steps:
        yield dataclasses.replace(i, offset=0, steps=None)
    if i.order:
        yield dataclasses.replace(i, order=None)
    if i.dtype in ("f16", "bf16", "f64"):
        yield dataclasses.replace(i, dtype="f32", values=None if i.strides is None else i.values)
    if i.dtype in ("i8", "u8", "i16", "i32"):
        yield dataclasses.replace(i, dtype="i64")


def smaller(i, size, less):
    if i.strides is not None:
        return i
    return dataclasses.replace(i, shape=[less if n == size else n for n in i.shape], limit=min(i.limit, less) if i.limit == size else i.limit)


def shrink(program, ask, most=150):
    """The smallest program found that fails in the same way, and its answer; `ask` runs one in a child."""
    answer = ask(program.to_json())
    wanted, tried, seen = kind(answer), 0, set()
    if wanted is None:
        return program, answer
    again = True
    while again and tried < most:
        again = False
        for _, p in candidates(program):
            text = repr(p)
            if text in seen or not p.outputs:
                continue
            seen.add(text)
            tried += 1
            a = ask(p.to_json())
            if kind(a) == wanted:
                program, answer, again = p, a, True
                break
            if tried >= most:
                break
    return program, answer
