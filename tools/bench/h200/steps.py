"""The steps of both stages, the most important first."""

import dataclasses
import pathlib

BENCH = pathlib.Path(__file__).resolve().parents[1]
SUITES = BENCH.parent / "suites"
TESTS = next((f for f in (BENCH.parent / "python" / "tests", BENCH.parent / "python-tests") if f.is_dir()), BENCH)
STAGES = ("correctness", "measure")
ROWS = object()  # in a command: the file that the step's rows go to
LIMIT = object()  # in a command: seconds that it may take, less those for an orderly end

# Full size, seconds a row: eager ones, ours.
CAPTIONING = {
    "static_eager": 40, "dynamic_eager": 40, "dynamic_eager_1": 40, "dynamic_eager_32": 40, "static_compile": 60, "dynamic_mark": 70, "dynamic_mark_64": 70,
    "dynamic_true": 110, "dynamic_8_static": 90, "modular": 90, "regional": 90, "static_optimizer": 90,
    "static_reduce_overhead": 70, "static_max_autotune": 70,
}  # fmt: skip
# Rows that even a compiler that is right may leave outside the tolerance.
INDUCTOR = {"static_compile": 110, "static_optimizer": 200}
# Forward and training with Inductor beside, in seconds; the strict ones of the suite first.
MODELS = {
    "gpt2": 80, "vit": 80, "resnet50": 100, "bert": 80, "llama": 120, "experts": 150, "t5": 120, "whisper": 120, "convnext": 110, "unet": 180, "lstm": 150,
}  # fmt: skip


@dataclasses.dataclass
class Step:
    name: str
    seconds: int  # about
    command: list
    env: dict = dataclasses.field(default_factory=dict)
    missing: str | None = None  # why it cannot run here
    prints: bool = False  # its row is the last line that it prints
    all_gpus: bool = False  # the others see one


def correctness(args):
    flags = ["--device", args.device]
    size = "small" if args.small else "full"
    model = lambda name, s: Step(f"model {name}", s, [SUITES / "models.py", *flags, "--size", size, "--only", name, "--inductor", "--json", ROWS])
    check = lambda name, s: Step(f"check {name}", s, [BENCH / "h200" / "checks.py", name, *flags, "--json", ROWS])
    captioning = {name: caption(args, name, s) for name, s in CAPTIONING.items()}
    rest = dict(MODELS)
    yield from (captioning[n] for n in ("static_eager", "dynamic_eager", "dynamic_eager_1"))
    yield from (model(n, rest.pop(n)) for n in ("gpt2", "vit", "resnet50", "bert", "llama"))
    yield from (captioning[n] for n in ("static_compile", "dynamic_mark", "dynamic_mark_64", "dynamic_true"))
    yield from (caption(args, n, s, "inductor") for n, s in INDUCTOR.items())
    only = ["--only", "add", "--only", "exp"] if args.small else []
    # On a GPU, where whole samples take tens of ms; a few processes share it.
    yield Step("strict pointwise", 100, [SUITES / "opinfo", *flags, "--numerics", "strict", "--mode", "forward", "--kind", "pointwise", "--together", "--jobs", 1 if args.small else 4, "--limit", LIMIT, *only, "--json", ROWS])
    yield Step("op database", 280, [SUITES / "opinfo", *flags, "--mode", "forward", "--mode", "backward", "--jobs", 1 if args.small else 8, "--limit", LIMIT, *only, "--json", ROWS])
    yield from (check(n, 40) for n in ("recorded", "streams", "triton_kernel"))
    yield dataclasses.replace(check("ddp", 60), all_gpus=True)
    yield from (captioning[n] for n in ("dynamic_eager_32", "dynamic_8_static", "modular", "regional", "static_optimizer", "static_reduce_overhead", "static_max_autotune"))
    yield from (model(n, s) for n, s in rest.items())
    yield Step("tests of the contract", 80, ["-m", "pytest", "-q", "-p", "no:cacheprovider", *(["-k", "stream or graph or gpu"] if args.small else []), TESTS / "test_contract.py"])


def caption(args, name, seconds, backend="strata"):
    backend = "eager" if "eager" in name else backend
    folder = args.captioning or pathlib.Path("captioning")
    env = {"CHECK": "1", "DEVICE": args.device, "SMALL": str(int(args.small)), "STRATA_LOGS": "recompiles,fallbacks"}
    missing = None if args.captioning else "no --captioning"
    label = f"captioning {name}" + (" inductor" if backend == "inductor" else "")
    return Step(label, seconds, [folder / "captioning.py", name, backend], env, missing, prints=True)


def measure(args):
    flags = ["--device", args.device, *(["--small"] if args.small else [])]
    calls = 50 if args.small else 2000
    memory = lambda *more: [BENCH / "memory.py", *flags, *more, "--json", ROWS]
    yield Step("call", 40, [BENCH / "call.py", "inputs_149", "inputs_1", "outputs_100", "--device", args.device, "--calls", calls, "--json", ROWS])
    yield Step("gpt2 batch 1", 50, [BENCH / "torch_models.py", "gpt2_short", *flags, "--json", ROWS])
    for name in ("gpt2", "vit", "resnet50"):
        yield Step(f"first call {name}", 90, [BENCH / "first_call.py", name, *flags, "--repeat", 1, "--json", ROWS])
    for name in ("gpt2", "resnet50"):
        yield Step(f"memory {name}", 45, memory(name))
        yield Step(f"memory {name} training", 55, memory(name, "--training"))
    yield Step("memory vit", 45, memory("vit"))
    yield Step("memory vit training", 55, memory("vit", "--training"))
    yield Step("models", 90, [BENCH / "torch_models.py", "gpt2", "resnet50", *flags, "--json", ROWS])


def of(args):
    return list({"correctness": correctness, "measure": measure}[args.stage](args))
