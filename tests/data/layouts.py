# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/layouts: small models with ops along the sequence and with layouts that the model collection lacks.

    python tests/data/layouts.py [NAME...]  (torch 2.15 with Python; see cmake/torch-requirements-full.txt)

Beside each NAME.pt2: its batch (NAME.inputs.safetensors) and what PyTorch computes on it in float64 (NAME.ref.json, as in
tests/data/README.md)."""
import json
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layouts")


class Block(torch.nn.Module):
    """Causal attention with `heads` heads of `qk` and `v` channels; [B, S, D], or [S, B, D] with seq_first."""

    def __init__(self, dim, heads, qk=None, v=None, seq_first=False):
        super().__init__()
        self.heads, self.qk, self.v, self.seq_first = heads, qk or dim // heads, v or dim // heads, seq_first
        self.q = torch.nn.Linear(dim, heads * self.qk)
        self.k = torch.nn.Linear(dim, heads * self.qk)
        self.value = torch.nn.Linear(dim, heads * self.v)
        self.o = torch.nn.Linear(heads * self.v, dim)

    def forward(self, x):
        def split(y, size):
            if self.seq_first:
                s, b, _ = y.shape
                return y.view(s, b, self.heads, size).permute(1, 2, 0, 3)
            b, s, _ = y.shape
            return y.view(b, s, self.heads, size).transpose(1, 2)

        a = F.scaled_dot_product_attention(split(self.q(x), self.qk), split(self.k(x), self.qk), split(self.value(x), self.v), is_causal=True)
        a = a.permute(2, 0, 1, 3) if self.seq_first else a.transpose(1, 2)
        return x + self.o(a.reshape(x.shape[0], x.shape[1], -1))


class Model(torch.nn.Module):
    """Embedding, `mix` along the sequence, attention, head, mean cross entropy."""

    def __init__(self, mix, dim=16, heads=4, vocab=40, **block):
        super().__init__()
        self.seq_first = block.get("seq_first", False)
        self.e = torch.nn.Embedding(vocab, dim)
        self.mix = mix
        self.block = Block(dim, heads, **block)
        self.head = torch.nn.Linear(dim, vocab)

    def forward(self, input_ids, labels):
        x = self.e(input_ids)
        if self.seq_first:
            x = x.transpose(0, 1)
        x = self.block(x + self.mix(x))
        if self.seq_first:
            x = x.transpose(0, 1)
        logits = self.head(x)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


class CausalConv(torch.nn.Module):
    def __init__(self, dim, k, groups, bias=True, pad_inside=False):
        super().__init__()
        self.k, self.pad_inside = k, pad_inside
        self.c = torch.nn.Conv1d(dim, dim, k, groups=groups, bias=bias, padding=k - 1 if pad_inside else 0)

    def forward(self, x):
        y = x.transpose(1, 2)
        if self.pad_inside:
            y = self.c(y)[..., : x.shape[1]]
        else:
            y = self.c(F.pad(y, (self.k - 1, 0)))
        return F.silu(y).transpose(1, 2)


class Of(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def shift(x):  # of half the channels, by one token: RWKV
    return torch.cat([torch.roll(x[..., :8], 1, 1), x[..., 8:]], -1)


def pointwise(x):
    y = torch.multiply(torch.atan(x), F.hardsigmoid(x)) + torch.negative(torch.asinh(x)) + F.celu(x) + torch.exp2(x * 0.1)
    y = torch.subtract(y, torch.logaddexp(x, x * 2)) + torch.hypot(x, y + 3) + torch.float_power(y.abs() + 1, 0.5).to(x.dtype)
    return torch.where(torch.less(y, 1.5), y, F.softshrink(x)) + torch.fmin(x, y).clip(-1, 1)


MODELS = {
    "causal_conv": (lambda: Model(CausalConv(16, 4, 16)), 2, 24),
    "causal_conv_full": (lambda: Model(CausalConv(16, 3, 1, bias=False)), 2, 24),
    "causal_conv_inside": (lambda: Model(CausalConv(16, 4, 16, pad_inside=True)), 2, 24),
    "causal_conv_odd": (lambda: Model(CausalConv(16, 4, 16)), 1, 29),
    "roll": (lambda: Model(Of(lambda x: torch.roll(x, 1, 1) - 0.5 * torch.roll(x, -3, 1))), 2, 24),
    "roll_shift": (lambda: Model(Of(shift)), 2, 24),
    "flip": (lambda: Model(Of(lambda x: torch.flip(x, [1]))), 2, 24),
    "cumsum": (lambda: Model(Of(lambda x: torch.cumsum(x, 1) * 0.1)), 2, 24),
    "cumsum_odd": (lambda: Model(Of(lambda x: torch.cumsum(x, 1) * 0.1)), 2, 27),
    "seqfirst_cumsum": (lambda: Model(Of(lambda x: torch.cumsum(x, 0) * 0.1), seq_first=True), 3, 24),
    "mla": (lambda: Model(Of(torch.tanh), qk=10, v=6), 2, 24),
    "all_equal": (lambda: Model(Of(torch.tanh), dim=8, heads=8, vocab=8), 8, 8),
    "short": (lambda: Model(Of(torch.tanh)), 3, 3),
    "odd": (lambda: Model(Of(torch.tanh), dim=15, heads=5), 1, 31),
    "pointwise": (lambda: Model(Of(pointwise)), 2, 24),
}


def figures(g):
    g = g.double().flatten()
    n = g.numel()
    idx = sorted({round(i * (n - 1) / 5) for i in range(6)})
    return {"norm": g.norm().item(), "sum": g.sum().item(), "absmax": g.abs().max().item(),
            "dot_sin": (g * torch.sin(torch.arange(1, n + 1, dtype=torch.float64))).sum().item(), "idx": idx, "val": [g[i].item() for i in idx]}


def write(folder, models, how, extra=lambda name, batch, seq, model: {}):
    os.makedirs(folder, exist_ok=True)
    manifest = {"how": how, "models": []}
    for number, (name, (make, batch, seq)) in enumerate(models.items()):
        manifest["models"].append({"name": name, "batch": batch, "seq": seq})
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(number)
        model = make()
        vocab = model.head.out_features
        ids = torch.randint(0, vocab, (batch, seq))
        labels = torch.randint(0, vocab, (batch, seq))
        labels[:, 0] = -100
        batch_of = {"input_ids": ids, "labels": labels, **extra(name, batch, seq, model)}
        torch.export.save(torch.export.export(model, (), batch_of, strict=False), f"{folder}/{name}.pt2")
        save_file(batch_of, f"{folder}/{name}.inputs.safetensors")
        model.double()
        loss = model(**{n: t.double() if t.is_floating_point() else t for n, t in batch_of.items()})
        loss = loss[0] if isinstance(loss, tuple) else loss
        loss.backward()
        ref = {"name": name, "loss_f64": loss.item(),
               "grads": {n: {"shape": list(p.shape), "f64": figures(p.grad)} for n, p in model.named_parameters() if p.grad is not None}}
        with open(f"{folder}/{name}.ref.json", "w") as f:
            json.dump(ref, f)
    with open(f"{folder}/manifest.json", "w") as f:
        json.dump(manifest, f, indent=1)


if __name__ == "__main__":
    write(OUT, MODELS, "tests/data/layouts.py")
