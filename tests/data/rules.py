# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/rules: models with ops of another library ("mylib"), which libtorch does not have.

    python tests/data/rules.py            (torch 2.15 with Python; see cmake/torch-requirements-full.txt)

The rules that say what they are stand in tests/data/rules/mylib.toml. Beside each NAME.pt2: its batch and what PyTorch
computes on it in float64, as in tests/data/layouts.py."""
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from layouts import Of, write  # noqa: E402

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules")


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def attend(q, k, v, scale: float):
    scores = (q * scale) @ k.transpose(-1, -2)
    s = q.shape[2]
    past = torch.ones(s, s, dtype=torch.bool, device=q.device).tril()
    return scores.masked_fill(~past, float("-inf")).softmax(-1) @ v


def energy(x):  # of each channel over the sequence; and how large it is at most
    return (x * x).sum(1), x.abs().amax(-1)


def scan(x):
    return x.cumsum(1) * 0.1


def logsum(x):
    return x.logsumexp(1)


def op(name, schema, f):
    made = torch.library.custom_op("mylib::" + name, f, mutates_args=(), schema=schema)
    made.register_fake(lambda *a: tuple(t.clone() for t in f(*a)) if isinstance(f(*a), tuple) else f(*a).clone())

    def backward(ctx, *grads):
        with torch.enable_grad():
            inputs = [t.detach().requires_grad_() for t in ctx.saved_tensors]
            out = f(*inputs, *ctx.rest)
            got = torch.autograd.grad(out, inputs, grads if isinstance(out, tuple) else grads[0])
        return (*got, *(None for _ in ctx.rest))

    def setup(ctx, inputs, output):
        tensors = [a for a in inputs if isinstance(a, torch.Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.rest = inputs[len(tensors):]

    made.register_autograd(backward, setup_context=setup)
    return made


ROPE = op("fused_rope", "(Tensor x, Tensor cos, Tensor sin) -> Tensor", rope)
ATTEND = op("attend", "(Tensor q, Tensor k, Tensor v, float scale) -> Tensor", attend)
ENERGY = op("energy", "(Tensor x) -> (Tensor, Tensor)", energy)
SCAN = op("scan", "(Tensor x) -> Tensor", scan)
LOGSUM = op("logsum", "(Tensor x) -> Tensor", logsum)


class Attention(torch.nn.Module):
    """Rotary embedding and causal attention by the other library, over 4 heads of 6 channels."""

    def __init__(self, dim, heads=4, channels=6):
        super().__init__()
        self.heads, self.channels = heads, channels
        self.qkv = torch.nn.Linear(dim, 3 * heads * channels)
        self.o = torch.nn.Linear(heads * channels, dim)
        self.frequency = torch.nn.Parameter(torch.rand(channels // 2))

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, self.channels).permute(2, 0, 3, 1, 4).unbind(0)
        angle = torch.arange(s, device=x.device).to(x.dtype)[:, None] * self.frequency
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        a = ATTEND(ROPE(q, cos, sin), ROPE(k, cos, sin), v, self.channels ** -0.5)
        return self.o(a.transpose(1, 2).reshape(b, s, -1))


class Model(torch.nn.Module):
    def __init__(self, mix, dim=16, vocab=40, sides=None):
        super().__init__()
        self.e = torch.nn.Embedding(vocab, dim)
        self.mix = mix
        self.sides = sides
        self.head = torch.nn.Linear(dim, vocab)

    def forward(self, input_ids, labels):
        x = self.e(input_ids)
        x = x + self.mix(x)
        loss = F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten(), ignore_index=-100)
        if self.sides == "energy":
            sums, peaks = ENERGY(x)
            loss = loss + 1e-3 * sums.log1p().mean() + 1e-3 * peaks.mean()
        if self.sides == "logsum":
            loss = loss + 1e-3 * LOGSUM(x).mean()
        return loss


MODELS = {
    "attend": (lambda: Model(Attention(16)), 2, 24),
    "attend_odd": (lambda: Model(Attention(16)), 2, 19),
    "energy": (lambda: Model(Of(torch.tanh), sides="energy"), 2, 24),
    "scan": (lambda: Model(Of(SCAN)), 2, 24),
    "logsum": (lambda: Model(Of(torch.tanh), sides="logsum"), 2, 24),
    "glu": (lambda: Model(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GLU())), 2, 24),
}

if __name__ == "__main__":
    write(OUT, MODELS, "tests/data/rules.py")
