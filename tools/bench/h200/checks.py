"""What the suites and tests do not cover on a GPU: streams, recorded graphs, a user's Triton kernel, two GPUs.

usage   python checks.py NAME ...    of: {names}
        --device cuda|cpu            what wants a GPU says so on a CPU
        --json FILE                  appends a line a check

A check passes, fails, or is skipped with its reason; the exit status is 1 where one failed.
"""

import argparse
import json
import os
import socket
import sys
import traceback

import torch
from torch import nn

import strata


class Skipped(Exception):
    """Cannot be checked here."""


def compiled(f):
    return torch.compile(f, backend="strata", fullgraph=True)


def need_gpu(device):
    if device != "cuda":
        raise Skipped("no GPU")


def nothing_in_pytorch():
    counted = strata.counters()
    assert counted["kernels"] > 0 and counted["eager_graphs"] == 0, strata.events()


class Net(nn.Module):
    """A class of its own: Dynamo leaves out the frames of PyTorch's, DistributedDataParallel's among them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 64))

    def forward(self, x):
        return self.layers(x)


def net(device):
    torch.manual_seed(0)
    return Net().to(device)


def streams(device):
    """Calls in two streams at once, each behind its own work."""
    need_gpu(device)
    f, x = compiled(lambda x: (x * 2).softmax(-1)), torch.randn(512, 1000, device=device)
    f(x)
    results, inputs, sides = [], [x + i for i in range(4)], [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for i, y in enumerate(inputs):
        with torch.cuda.stream(sides[i % 2]):
            torch.cuda._sleep(10_000_000)
            results.append(f(y.add_(1)))
    torch.cuda.synchronize()
    for r, y in zip(results, inputs):
        torch.testing.assert_close(r, (y * 2).softmax(-1))
    nothing_in_pytorch()


def recorded(device):
    """A user's own recording of a forward pass, and of a whole training step, replayed with other data."""
    need_gpu(device)
    model, x = net(device), torch.randn(32, 64, device=device)
    f = compiled(model)
    static, side = x.clone(), torch.cuda.Stream()

    def step():
        model.zero_grad(set_to_none=True)
        loss = f(static).square().mean()
        loss.backward()
        return loss

    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    model.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    for i in range(3):
        static.copy_(x + i)
        graph.replay()
        got = [p.grad.clone() for p in model.parameters()]
        want = model(static).square().mean()
        torch.testing.assert_close(loss, want.detach(), atol=1e-5, rtol=1e-4)
        for g, w in zip(got, torch.autograd.grad(want, list(model.parameters()))):
            torch.testing.assert_close(g, w, atol=1e-4, rtol=1e-3)
    nothing_in_pytorch()


def triton_kernel(device):
    """A user's Triton kernel between ops that are compiled; its operand lies transposed."""
    need_gpu(device)
    import triton
    import triton.language as tl

    from user_kernel import scale_and_add

    def call(x, y):
        out = torch.empty_like(x)
        scale_and_add[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), 2.0, block=256)
        return out

    def f(x, y):
        return call(torch.relu(x).t() * 2, y + 1).sum(-1) * 3

    x, y = torch.randn(300, 70, device=device), torch.randn(300, 70, device=device).t()
    torch.testing.assert_close(compiled(f)(x, y), f(x, y))
    del tl
    assert strata.counters()["kernels"] > 0, strata.events()


def rank(number, count, port, device, answers):
    """One process of `ddp`."""
    try:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo", rank=number, world_size=count)
        at = torch.device("cuda", number) if device == "cuda" else torch.device("cpu")
        if device == "cuda":
            torch.cuda.set_device(at)
        ddp = nn.parallel.DistributedDataParallel(net(at), device_ids=[number] if device == "cuda" else None)
        opt = torch.optim.AdamW(ddp.parameters(), lr=1e-2)
        # Not fullgraph: Dynamo cuts the graph at the buckets of gradients.
        f, losses = torch.compile(ddp, backend="strata"), []
        for i in range(4):
            x = torch.randn(16, 64, generator=torch.Generator().manual_seed(10 * i + number)).to(at)
            opt.zero_grad()
            loss = (f(x) - x).square().mean()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        counted = strata.counters()
        assert counted["kernels"] > 0 and counted["eager_graphs"] == 0, strata.events()
        answers.put((number, losses, [p.detach().cpu().tolist() for p in ddp.parameters()][-1]))
        torch.distributed.destroy_process_group()
    except BaseException:
        answers.put((number, None, traceback.format_exc()[-3000:]))
        raise


def ddp(device):
    """Two processes train one model; it must come out as in one process that sees both halves of each batch."""
    if device == "cuda" and torch.cuda.device_count() < 2:
        raise Skipped("one GPU")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    processes = [context.Process(target=rank, args=(i, 2, port, device, answers)) for i in range(2)]
    for p in processes:
        p.start()
    found = sorted(answers.get() for _ in processes)
    for p in processes:
        p.join()
    for _, losses, rest in found:
        assert losses is not None, rest
    model = net(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for i in range(4):
        halves = [torch.randn(16, 64, generator=torch.Generator().manual_seed(10 * i + n)).to(device) for n in range(2)]
        opt.zero_grad()
        losses = [(model(x) - x).square().mean() for x in halves]
        (sum(losses) / 2).backward()
        opt.step()
        for n, loss in enumerate(losses):
            torch.testing.assert_close(found[n][1][i], loss.item(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(torch.tensor(found[0][2]), list(model.parameters())[-1].detach().cpu(), rtol=1e-3, atol=1e-4)


CHECKS = {"streams": streams, "recorded": recorded, "triton_kernel": triton_kernel, "ddp": ddp}


def main():
    p = argparse.ArgumentParser(description=__doc__.format(names=" ".join(CHECKS)), formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checks", nargs="*")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--json")
    args = p.parse_args()
    failed = 0
    for name in args.checks or CHECKS:
        if name not in CHECKS:
            p.error(f"no check is called {name}; known: {', '.join(CHECKS)}")
        torch._dynamo.reset()
        strata.reset_counters()
        row = {"check": name, "device": args.device}
        try:
            CHECKS[name](args.device)
            row["status"] = "passed"
        except Skipped as e:
            row |= {"status": "skipped", "reason": str(e)}
        except Exception as e:
            traceback.print_exc()
            row |= {"status": "failed", "reason": f"{type(e).__name__}: {e}"[:1000]}
            failed += 1
        row["fallbacks"] = sorted({e["reason"] for e in strata.events()})[:5]
        print(row["status"], name, row.get("reason", ""), flush=True)
        if args.json:
            with open(args.json, "a") as f:
                print(json.dumps(row), file=f)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
