"""Train the demo's digit classifier and write it as an ONNX file with ten test images.

    python tools/demo/train_digits.py            # train, export, check; overwrites the files beside this script
    python tools/demo/train_digits.py --check    # only check the files that are there

Needs torch, onnx, numpy, scikit-learn (whose bundled 8x8 digits are the data; nothing is downloaded).
The result depends on the seed and on torch's version only: one thread, deterministic kernels.
"""

import argparse
import contextlib
import io
import json
import pathlib
import sys

import numpy as np
import onnx
import onnx.reference
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE / "digits.onnx"
IMAGES = HERE / "images"
OPSET = 17
MAX_BYTES = 300_000
MIN_ACCURACY = 0.97


class Block(nn.Module):
    """A pre-norm transformer block written with plain products and a softmax, so that the export holds these."""

    def __init__(self, width: int, heads: int, positions: int):
        super().__init__()
        self.heads, self.positions, self.head_width = heads, positions, width // heads
        self.norm1 = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def split(self, x):
        # Positions and heads are fixed, so the batch is the dimension that is inferred.
        return x.reshape(-1, self.positions, self.heads, self.head_width).transpose(1, 2)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = self.split(self.query(y)), self.split(self.key(y)), self.split(self.value(y))
        weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * self.head_width**-0.5, dim=-1)
        y = torch.matmul(weights, v).transpose(1, 2).reshape(-1, self.positions, self.heads * self.head_width)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Digits(nn.Module):
    """Two convolutions, a pooling to 4x4 positions, one attention block over them, a classifier of their mean."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.place = nn.Parameter(0.02 * torch.randn(16, width))
        self.block = Block(width, heads=2, positions=16)
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, 10)

    def forward(self, image):
        x = F.relu(self.bn1(self.conv1(image)))
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = x.reshape(-1, x.shape[1], 16).transpose(1, 2) + self.place
        return self.classify(self.norm(self.block(x)).mean(dim=1))


def data():
    """Train and test images in [0, 1] as [n, 1, 8, 8], and their labels. The split is fixed."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    return train_test_split(images, digits.target, test_size=0.25, stratify=digits.target, random_state=0)


def shifted(x, generator):
    """Every image moved by up to one pixel each way: the set is small, and this is what it lacks."""
    padded = F.pad(x, (1, 1, 1, 1))
    dy, dx = torch.randint(0, 3, (2, len(x)), generator=generator)
    rows = dy[:, None] + torch.arange(8)
    cols = dx[:, None] + torch.arange(8)
    return padded[torch.arange(len(x))[:, None, None], 0, rows[:, :, None], cols[:, None, :]][:, None]


def train(seed: int, epochs: int):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    x, _, y, _ = data()
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    generator = torch.Generator().manual_seed(seed)
    model = Digits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    batch = 64
    steps = epochs * (len(x) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for epoch in range(epochs):
        order = torch.randperm(len(x), generator=generator)
        for i in range(len(x) // batch):
            pick = order[i * batch : (i + 1) * batch]
            loss = F.cross_entropy(model(shifted(x[pick], generator)), y[pick], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3}: loss {loss.item():.4f}", flush=True)
    return model.eval()


def export(model):
    _, test, _, labels = data()
    # The exporter that needs no package beside torch. PRESERVE leaves the batch normalisations in the graph
    # (in inference form, as the model is): merging them into the convolutions is the compiler's work to show.
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(
            model, (torch.from_numpy(test[:2]),), str(MODEL), dynamo=False, opset_version=OPSET,
            input_names=["image"], output_names=["logits"], training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False, dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
        )
    proto = onnx.load(MODEL)
    proto.graph.name = "digits"
    proto.doc_string = "8x8 digits: convolutions, one attention block, classifier. Made by tools/demo/train_digits.py."
    onnx.save(proto, MODEL)

    IMAGES.mkdir(exist_ok=True)
    with torch.no_grad():
        double = model.double()
        chosen = {}
        for digit in range(10):
            name = f"digit-{digit}"
            image = test[np.flatnonzero(labels == digit)[0]][None]
            np.save(IMAGES / f"{name}.npy", image)
            np.save(IMAGES / f"{name}.logits.npy", double(torch.from_numpy(image).double()).numpy())
            chosen[f"{name}.npy"] = digit
    (IMAGES / "labels.json").write_text(json.dumps(chosen, indent=2) + "\n")


def check() -> int:
    """Everything the demo relies on, from the files alone."""
    proto = onnx.load(MODEL)
    onnx.checker.check_model(proto, full_check=True)
    size = MODEL.stat().st_size
    run = onnx.reference.ReferenceEvaluator(proto)
    _, test, _, labels = data()
    (logits,) = run.run(None, {"image": test})
    accuracy = float((logits.argmax(1) == labels).mean())
    worst = 0.0
    shown = json.loads((IMAGES / "labels.json").read_text())
    right = 0
    for name, label in shown.items():
        image = np.load(IMAGES / name)
        want = np.load(IMAGES / name.replace(".npy", ".logits.npy"))
        assert image.shape == (1, 1, 8, 8) and image.dtype == np.float32 and want.dtype == np.float64
        (got,) = run.run(None, {"image": image})
        worst = max(worst, float(np.abs(got - want).max()))
        right += int(want.argmax() == label)
    ops = sorted({node.op_type for node in proto.graph.node})
    print(f"{MODEL.name}: {size} bytes, opset {proto.opset_import[0].version}, {len(proto.graph.node)} nodes: {' '.join(ops)}")
    print(f"test accuracy {accuracy:.4f} ({len(labels)} images); {right} of {len(shown)} shown images right")
    print(f"largest difference to the float64 logits: {worst:.2e}")
    good = size < MAX_BYTES and accuracy >= MIN_ACCURACY and right == len(shown) == 10 and worst < 1e-4
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--check", action="store_true", help="check the files, train nothing")
    arguments = parser.parse_args()
    if not arguments.check:
        export(train(arguments.seed, arguments.epochs))
    sys.exit(check())
