"""GPT-2 small and ResNet-50 with random weights through torch.compile: errors against float64, counts, times.

usage   python torch_models.py [MODEL ...]    gpt2 resnet50; default both
        --device cuda|cpu                     default: cuda where there is a GPU. On a CPU the models are small
        --backends eager,strata,inductor      what is compared
        --dynamic                             symbolic sizes
Weights and inputs are bf16 on a GPU and float32 on a CPU. A line of JSON a model and backend goes to standard output, a table to
standard error. The exit status is 1 where strata's error exceeds 1.5 times the largest of the others' (or one rounding), or a
graph of it runs in PyTorch.
"""

import argparse
import copy
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1, self.ln2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
        self.qkv, self.proj, self.fc, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocab, length, d, heads, layers):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.blocks, self.norm = nn.ModuleList(Block(d, heads) for _ in range(layers)), nn.LayerNorm(d)
        nn.init.normal_(self.tokens.weight, std=0.02), nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, i):
        x = self.tokens(i) + self.places(torch.arange(i.shape[1], device=i.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.t()


def conv(i, o, k, s=1):
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o))


class Bottleneck(nn.Module):
    def __init__(self, cin, c, stride):
        super().__init__()
        self.body = nn.Sequential(conv(cin, c, 1), nn.ReLU(), conv(c, c, 3, stride), nn.ReLU(), conv(c, 4 * c, 1))
        self.skip = conv(cin, 4 * c, 1, stride) if stride != 1 or cin != 4 * c else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet(width, depths, classes):
    layers, cin = [conv(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], width
    for stage, depth in enumerate(depths):
        c = width << stage
        for i in range(depth):
            layers.append(Bottleneck(cin, c, 2 if stage and not i else 1))
            cin = 4 * c
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, classes))


def build(name, device):
    full = device == "cuda"
    if name == "gpt2":
        vocab, length, d, heads, layers, batch = (50257, 1024, 768, 12, 12, 8) if full else (500, 64, 64, 4, 2, 2)
        return Gpt2(vocab, length, d, heads, layers), torch.randint(0, vocab, (batch, length))
    if name == "resnet50":
        m, x = (resnet(64, (3, 4, 6, 3), 1000), torch.randn(64, 3, 224, 224)) if full else (resnet(8, (1, 1, 2, 1), 10), torch.randn(2, 3, 64, 64))
        for bn in (b for b in m.modules() if isinstance(b, nn.BatchNorm2d)):
            bn.running_mean.normal_(std=0.1), bn.running_var.uniform_(0.5, 1.5)
        return m, x
    sys.exit(f"no model is called {name}; known: gpt2, resnet50")


def distance(a, b):
    return ((a.double() - b).norm() / b.norm()).item()


def timed(f, x, device):
    sync = torch.cuda.synchronize if device == "cuda" else lambda: None
    f(x), sync()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        f(x), sync()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def measure(backend, model, x, exact, args):
    torch._dynamo.reset()
    row = {"backend": backend}
    f = model if backend == "eager" else torch.compile(model, backend=backend, dynamic=args.dynamic or None)
    if backend == "strata":
        import strata

        strata.reset_counters()
    start = time.perf_counter()
    f(x)
    row["first_s"] = time.perf_counter() - start
    row["error"] = distance(f(x), exact)
    row["ms"] = timed(f, x, args.device)
    if backend == "strata":
        row["counters"] = strata.counters()
        row["events"] = [f"{e['reason']} ({e['location']})" for e in strata.events()]
    return row


def main():
    p = argparse.ArgumentParser()
    p.add_argument("models", nargs="*", default=["gpt2", "resnet50"])
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--backends", default="eager,strata,inductor" if torch.cuda.is_available() else "eager,strata")
    p.add_argument("--dynamic", action="store_true")
    args, bad = p.parse_args(), False
    for name in args.models:
        torch.manual_seed(0)
        model, x = build(name, args.device)
        dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
        model = model.eval().to(args.device, dtype)
        x = x.to(args.device) if x.dtype == torch.int64 else x.to(args.device, dtype)
        with torch.no_grad():
            exact = copy.deepcopy(model).double()(x if x.dtype == torch.int64 else x.double())
            rows = []
            for backend in args.backends.split(","):
                try:
                    rows.append(measure(backend, model, x, exact, args))
                except Exception as e:
                    rows.append({"backend": backend, "failed": f"{type(e).__name__}: {e}"[:500]})
        others = [r["error"] for r in rows if r["backend"] != "strata" and "error" in r]
        allowed = 1.5 * max([*others, distance(exact.to(dtype), exact)])
        for row in rows:
            if row["backend"] == "strata":
                row["allowed"] = allowed
                row["ok"] = "error" in row and row["error"] <= allowed and row["counters"]["eager_graphs"] == 0
                bad |= not row["ok"]
            print(json.dumps({"model": name, "device": args.device, **row}), flush=True)
            print(f"{name:10s} {row['backend']:9s} {row.get('ms', float('nan')):9.3f} ms  first {row.get('first_s', float('nan')):6.2f} s  error {row.get('error', float('nan')):.2e} {row.get('counters', '')} {row.get('failed', '')}", file=sys.stderr)
    sys.exit(bad)


if __name__ == "__main__":
    main()
