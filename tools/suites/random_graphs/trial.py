"""One program with Strata, beside what it must compute."""

import warnings

import torch

import generate
import oracle
from program import Program


class Function(torch.nn.Module):
    """A function as AOTAutograd takes it."""

    def __init__(self, f):
        super().__init__()
        self.f, self.graph = f, torch.fx.Graph()

    def forward(self, *args):
        return self.f(*args)


def compiled(program, inputs, backend):
    """The program with a backend: through torch.compile, or, faster, without Dynamo."""
    f = program.function()
    if program.compile or program.dynamic:
        torch._dynamo.reset()
        return torch.compile(f, backend=backend, fullgraph=True, dynamic=True if program.dynamic else False)
    return backend(Function(f), inputs)


def one_backend(program, backend):
    """The differences of the calls with a backend."""
    problems, f = {}, None
    for second in (False, True) if program.dynamic else (False,):
        found = getattr(program, "found", {}).get(second) or oracle.expected(program, second)
        inputs = program.make_inputs(second=second)
        with torch.set_grad_enabled(program.grad):
            f = f or compiled(program, [i.detach().clone().requires_grad_(i.requires_grad) if program.grad else i for i in program.make_inputs()], backend)
            results, written, grads = oracle.run(f, inputs, program.grad)
        problems |= {f"{k}{' of the second call' if second else ''}": v for k, v in oracle.compare(found, results, written, grads).items()}
    return problems


def restrided(result, told):
    if not isinstance(told, torch.Tensor) or not isinstance(result, torch.Tensor) or not all(isinstance(n, int) for n in (*told.shape, *told.stride())):
        return result
    if oracle.same_strides(result, told) or result.shape != told.shape or not oracle.dense(told):
        return result
    return torch.empty_strided(told.shape, told.stride(), dtype=result.dtype).copy_(result)


def reference_backend(gm, inputs):
    """PyTorch's own execution of what the backend is given, with the strides that it is told: where that differs from eager PyTorch,
    the fault is not ours."""
    from torch._dynamo.backends.common import aot_autograd

    from strata._decompositions import decompositions

    class AsTold(torch.fx.Interpreter):
        def run_node(self, n):
            return restrided(super().run_node(n), n.meta.get("val"))

    def plain(fx, _):
        def run(args):
            taken = list(args)
            args.clear()
            return AsTold(fx).run(*taken)

        run._boxed_call = True
        return run

    return aot_autograd(fw_compiler=plain, bw_compiler=plain, inference_compiler=plain, decompositions=decompositions())(gm, inputs)


def attempt(program, backend):
    try:
        return one_backend(program, backend)
    except oracle.Rejected:
        raise
    except Exception as e:
        return {"error": f"{type(e).__name__}: {str(e).strip()[:2000]}"}


def trial(program):
    """{"status": "ok", "wrong", "error", "eager", "pytorch" or "none", …}"""
    import strata

    strata.reset_counters()
    try:
        problems = attempt(program, strata.backend)
    except oracle.Rejected as e:
        return {"status": "none", "reason": str(e)}
    counted, events = strata.counters(), strata.events()
    out = {"counters": {k: counted.get(k, 0) for k in ("compiles", "kernels", "library_calls", "fallbacks", "eager_graphs")}}
    if program.dynamic:
        # A size that varies asks for no second compilation.
        out["counters"]["recompiled"] = int(counted.get("compiles", 0) > 1 + program.grad)
    out["fallbacks"] = sorted(e["reason"].split(":")[0] for e in events if e["reason"].startswith("aten."))
    if problems:
        # In graphs that PyTorch ran alone nothing is ours; and a fault may be in what precedes us.
        if attempt(program, reference_backend):
            return out | {"status": "pytorch", "problems": problems}
        return out | {"status": "error" if "error" in problems else "wrong", "problems": problems}
    if counted.get("eager_graphs"):
        reasons = [e["reason"] for e in events if not e["reason"].startswith("aten.")]
        return out | {"status": "eager", "problems": {"eager": "; ".join(reasons)[:1000]}}
    return out | {"status": "ok"}


def quiet():
    # Each worker is one of many.
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def trial_of_json(job):
    """A worker's job."""
    quiet()
    return trial(Program.of_json(job["program"]))


def trial_of_number(job):
    """Likewise; a program that fails comes with the answer."""
    quiet()
    program = generate.generate(job["number"])
    if program is None:
        return {"status": "none"}
    answer = trial(program)
    return answer if answer["status"] in ("ok", "none") else answer | {"program": program.to_json()}
