"""Whole models for the benchmark, the suite and the tests: random weights, no dropout, nothing but PyTorch."""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F

from zoo_text import Bert, Gpt, Llama, Lstm, T5, Whisper
from zoo_vision import UNet, Vit, convnext, resnet

__all__ = ["MODELS", "Gpt", "resnet", "loss"]


def tokens(vocab, *shape):
    return torch.randint(1, vocab, shape)


def gpt2(batch, length, small):
    vocab, *rest = (500, 64, 64, 4, 2) if small else (50257, 1024, 768, 12, 12)
    return Gpt(vocab, *rest), tokens(vocab, batch, length)


def bert(batch, length, small):
    vocab, *rest = (500, 64, 64, 4, 2) if small else (30522, 512, 768, 12, 12)
    # The sentences of a batch are of different lengths.
    kept = torch.arange(length) < length - torch.arange(batch)[:, None] % 3 * (length // 4)
    return Bert(vocab, *rest), (tokens(vocab, batch, length) * kept, kept)


def llama(batch, length, small):
    vocab, *rest = (500, 64, 4, 2, 2, 176) if small else (32000, 2048, 32, 4, 16, 8192)
    return Llama(vocab, *rest), tokens(vocab, batch, length)


def experts(batch, length, small):
    vocab, *rest = (500, 64, 4, 2, 2, 96, 4) if small else (32000, 1024, 16, 4, 8, 2048, 8)
    return Llama(vocab, *rest), tokens(vocab, batch, length)


def t5(batch, length, out, small):
    vocab, *rest = (500, 64, 4, 16, 128, 2) if small else (32128, 768, 12, 64, 3072, 12)
    return T5(vocab, *rest), (tokens(vocab, batch, length), tokens(vocab, batch, out))


def whisper(batch, frames, length, small):
    vocab, bands, places, d, heads, layers = (500, 16, 32, 64, 4, 2) if small else (51865, 80, 448, 512, 8, 6)
    return Whisper(vocab, bands, frames, places, d, heads, layers), (torch.randn(batch, bands, frames), tokens(vocab, batch, length))


def lstm(batch, length, small):
    vocab, *rest = (500, 64, 2) if small else (10000, 650, 2)
    return Lstm(vocab, *rest), tokens(vocab, batch, length)


def resnet50(images, side, small):
    model = resnet(8, ((8, 1), (16, 1), (32, 2), (64, 1))) if small else resnet(64, ((64, 3), (128, 4), (256, 6), (512, 3)), 1000)
    return model, torch.randn(images, 3, side, side)


def vit(images, side, small):
    model = Vit(side, 8, 64, 4, 2) if small else Vit(side, 16, 768, 12, 12, 1000)
    return model, torch.randn(images, 3, side, side)


def convnext_tiny(images, side, small):
    model = convnext() if small else convnext((96, 192, 384, 768), (3, 3, 9, 3), 1000)
    return model, torch.randn(images, 3, side, side)


def unet(images, side, small):
    model = UNet() if small else UNet(128, (1, 2, 2, 4), 2, 8, 32)
    return model, (torch.randn(images, 3, side, side), torch.arange(images) * 37 % 1000)


@dataclasses.dataclass(frozen=True)
class Entry:
    """How a model and its input are made: (amounts…, small) -> (model, input or inputs)."""

    make: Callable
    cuda: tuple
    cpu: tuple
    small: tuple

    def build(self, device, small):
        """The model and a tuple of its inputs."""
        model, inputs = self.make(*(self.small if small else getattr(self, device)), small)
        return model, inputs if isinstance(inputs, tuple) else (inputs,)


MODELS = {
    # Tokens: sequences × length.
    "gpt2": Entry(gpt2, (8, 512), (1, 128), (2, 64)),
    # Little work a kernel: what a call costs the host shows.
    "gpt2_short": Entry(gpt2, (1, 16), (1, 16), (1, 16)),
    "bert": Entry(bert, (8, 512), (2, 128), (3, 32)),
    "llama": Entry(llama, (4, 512), (1, 32), (2, 32)),
    "experts": Entry(experts, (4, 512), (1, 64), (2, 32)),
    "lstm": Entry(lstm, (32, 64), (4, 16), (2, 8)),
    # Sequences × length read × length written.
    "t5": Entry(t5, (8, 512, 128), (1, 128, 32), (2, 40, 24)),
    # Recordings × frames × length written.
    "whisper": Entry(whisper, (8, 3000, 128), (1, 600, 32), (2, 48, 16)),
    # Images × side.
    "resnet50": Entry(resnet50, (64, 224), (4, 224), (2, 64)),
    "vit": Entry(vit, (32, 224), (2, 224), (2, 32)),
    "convnext": Entry(convnext_tiny, (64, 224), (2, 224), (2, 64)),
    "unet": Entry(unet, (16, 64), (1, 32), (2, 16)),
}


def loss(out):
    """A loss that fits a model's result: images are compared with a wave, of tokens and classes one is right."""
    out = out.to(torch.promote_types(out.dtype, torch.float32))
    if out.dim() == 4:
        return F.mse_loss(out, torch.arange(out.numel(), device=out.device).to(out.dtype).sin().view(out.shape))
    out = out.flatten(0, -2)
    return F.cross_entropy(out, torch.arange(out.shape[0], device=out.device) * 7 % out.shape[1])
