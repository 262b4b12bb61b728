# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small transformer twice from the same start: with PyTorch's own operators, and with Tegula's
kernels for norms, attention and cross entropy, forward and backward. The two loss curves must agree.

    python3 train.py                       # on the CPU
    python3 train.py --device cuda --dtype bf16 --width 512 --layers 8 --context 512
    python3 train.py --compile             # both through torch.compile(fullgraph=True)

Ends with status 1 if a loss differs by more than --tolerance (relative), or if the loss does not fall. The
text is made of words in a fixed grammar, so that there is something to learn.
"""

from __future__ import annotations

import argparse
import math
import random
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tegula.torch import nn as ours


class Plain:
    """PyTorch's operators, with the names of tegula.torch.nn."""

    rms_norm = staticmethod(F.rms_norm)
    scaled_dot_product_attention = staticmethod(F.scaled_dot_product_attention)
    cross_entropy = staticmethod(F.cross_entropy)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, ops: object) -> None:
        super().__init__()
        self.heads, self.ops = heads, ops
        self.norms = nn.ParameterList([nn.Parameter(torch.ones(width)) for _ in range(2)])
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        z = self.ops.rms_norm(x, (width,), self.norms[0], 1e-6)
        q, k, v = (
            t.view(batch, length, self.heads, -1).transpose(1, 2)
            for t in self.qkv(z).chunk(3, dim=-1)
        )
        y = self.ops.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        z = self.ops.rms_norm(x, (width,), self.norms[1], 1e-6)
        return x + self.down(F.gelu(self.up(z)))


class Transformer(nn.Module):
    def __init__(self, how: argparse.Namespace, ops: object) -> None:
        super().__init__()
        self.ops = ops
        self.embed = nn.Embedding(256, how.width)
        self.place = nn.Parameter(0.02 * torch.randn(how.context, how.width))
        self.blocks = nn.ModuleList(Block(how.width, how.heads, ops) for _ in range(how.layers))
        self.norm = nn.Parameter(torch.ones(how.width))
        self.head = nn.Linear(how.width, 256, bias=False)

    def forward(self, text: Tensor, following: Tensor) -> Tensor:
        x = self.embed(text) + self.place
        for block in self.blocks:
            x = block(x)
        x = self.ops.rms_norm(x, (x.shape[-1],), self.norm, 1e-6)
        return self.ops.cross_entropy(self.head(x).flatten(0, 1), following.flatten())


def sample_text(n: int) -> Tensor:
    """About n letters of sentences like 'the small tile hides a warp.'"""
    draw = random.Random(0)
    words = "the a", "small fast cold", "tile warp kernel", "hides finds sums", "the a", "row lane bank"
    text = ""
    while len(text) < n:
        text += " ".join(draw.choice(choice.split()) for choice in words) + ". "
    return torch.tensor(list(text.encode()))


def train(how: argparse.Namespace, ops: object) -> list[float]:
    """The loss of each step."""
    torch.manual_seed(0)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[how.dtype]
    model = Transformer(how, ops).to(how.device, dtype)
    run = torch.compile(model, fullgraph=True) if how.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    text = sample_text(20000)
    losses = []
    for _ in range(how.steps):
        at = torch.randint(len(text) - how.context - 1, (how.batch, 1)) + torch.arange(how.context)
        loss = run(text[at].to(how.device), text[at + 1].to(how.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> int:
    parse = argparse.ArgumentParser(description="trains with PyTorch's operators and with Tegula's")
    parse.add_argument("--device", default="cpu")
    parse.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    for name, value in dict(steps=40, batch=8, context=32, width=64, heads=4, layers=2).items():
        parse.add_argument(f"--{name}", type=int, default=value)
    parse.add_argument("--tolerance", type=float, help="relative; 1e-3 for f32, 2e-2 for bf16")
    parse.add_argument("--compile", action="store_true")
    how = parse.parse_args()
    tolerance = how.tolerance or {"f32": 1e-3, "bf16": 2e-2}[how.dtype]
    theirs, mine = train(how, Plain), train(how, ours)
    worst = max(abs(a - b) / a for a, b in zip(theirs, mine))
    for step in range(0, how.steps, max(1, how.steps // 8)):
        print(f"step {step:4}: PyTorch {theirs[step]:.5f}, Tegula {mine[step]:.5f}")
    print(f"last losses {theirs[-1]:.5f} and {mine[-1]:.5f}; largest difference {worst:.2e}")
    falls = mine[-1] < 0.9 * mine[0] and math.isfinite(mine[-1])
    return 0 if worst <= tolerance and falls else 1


if __name__ == "__main__":
    sys.exit(main())
