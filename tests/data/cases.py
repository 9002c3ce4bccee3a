# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/cases: the small models of field cases (docs/field-cases.md) that the model collection lacks.

    python tests/data/cases.py            (torch 2.15 with Python; see cmake/torch-requirements-full.txt)

Beside each NAME.pt2: its batch and what PyTorch computes on it in float64, as in tests/data/layouts.py."""
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from layouts import write  # noqa: E402

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attention(torch.nn.Module):
    """Causal, grouped keys; rotary where tables are given; adapters of rank 2 on q where lora."""

    def __init__(self, dim, heads, kv, channels, lora):
        super().__init__()
        self.h, self.kv, self.c = heads, kv, channels
        self.q = torch.nn.Linear(dim, heads * channels)
        self.k = torch.nn.Linear(dim, kv * channels)
        self.v = torch.nn.Linear(dim, kv * channels)
        self.o = torch.nn.Linear(heads * channels, dim)
        if lora:
            self.a, self.b = torch.nn.Linear(dim, 2, bias=False), torch.nn.Linear(2, heads * channels, bias=False)
            for p in (*self.q.parameters(), *self.k.parameters()):
                p.requires_grad_(False)
        self.lora = lora

    def forward(self, x, tables):
        n, s, _ = x.shape
        q = self.q(x) + self.b(self.a(x)) * 0.5 if self.lora else self.q(x)
        q, k, v = (t.view(n, s, -1, self.c).transpose(1, 2) for t in (q, self.k(x), self.v(x)))
        if tables is not None:
            q, k = rotate(q, *tables), rotate(k, *tables)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.h)
        return self.o(a.transpose(1, 2).reshape(n, s, -1))


class Model(torch.nn.Module):
    """One layer. `rope`: "inputs", "constants", "arange", "three" (position_ids [3, B, S], a third of the channels each)."""

    def __init__(self, heads=4, kv=4, channels=4, dim=16, vocab=40, rope=None, loss="mean", lora=False, seq=0):
        super().__init__()
        self.e = torch.nn.Embedding(vocab, dim)
        self.attention = Attention(dim, heads, kv, channels, lora)
        self.head = torch.nn.Linear(dim, vocab)
        self.rope, self.loss = rope, loss
        self.register_buffer("frequency", 100.0 ** -(torch.arange(0, channels, 2) / channels), persistent=False)
        if rope == "constants":
            cos, sin = self.tables(torch.arange(seq))
            self.register_buffer("cos", cos), self.register_buffer("sin", sin)

    def tables(self, positions):
        angle = positions[..., None] * self.frequency
        return torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()

    def forward(self, input_ids, labels, cos=None, sin=None, position_ids=None, weights=None):
        x = self.e(input_ids)
        tables = None
        if self.rope == "inputs":
            tables = cos, sin
        elif self.rope == "constants":
            tables = self.cos, self.sin
        elif self.rope == "arange":
            tables = self.tables(torch.arange(input_ids.shape[1], device=input_ids.device))
        elif self.rope == "three":  # [3, B, S] -> [B, 1, S, channels]: channel i takes the positions of i mod 3
            each = [torch.stack(self.tables(p)) for p in position_ids.unbind(0)]
            picked = torch.stack([each[i % 3][..., i] for i in range(self.attention.c)], -1)
            tables = picked[0].unsqueeze(1), picked[1].unsqueeze(1)
        logits = self.head(x + self.attention(x, tables))
        if self.loss == "mean":
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        if self.loss == "shift":  # inside the graph, by slices
            return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        if self.loss == "external":  # the same shift, another way to write the loss
            target = F.pad(labels, (0, 1), value=-100)[:, 1:]
            valid = target != -100
            picked = logits.log_softmax(-1).gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
            return -(picked * valid).sum() / valid.sum()
        each = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100, reduction="none")
        if self.loss == "weighted":
            return (each * weights).sum() / weights.sum()
        if self.loss == "each":  # a loss of every token, and a metric on the labels
            right = ((logits.argmax(-1) == labels) & (labels != -100)).sum()
            return each.square().mean(), each, right
        # of whole sequences: as in DPO, a pair of rows is compared by the sums of their log probabilities
        sums = -each.sum(1)
        return -F.logsigmoid(0.1 * (sums[0] - sums[1]))


def extra(name, batch, seq, model):
    if name == "rope_inputs":
        cos, sin = model.tables(torch.arange(seq))
        return {"cos": cos, "sin": sin}
    if name.startswith("positions_3"):
        text = torch.arange(seq).expand(batch, seq)
        if name.endswith("packed"):
            text = torch.where(text < 7, text, text - 7)
        return {"position_ids": torch.stack([text, text // 3, text % 5])}
    if name == "loss_weighted":
        return {"weights": torch.rand(batch, seq)}
    return {}


MODELS = {
    "loss_shift": (lambda: Model(loss="shift"), 2, 16),
    "loss_external": (lambda: Model(loss="external"), 2, 16),
    "loss_weighted": (lambda: Model(loss="weighted"), 2, 5),
    "loss_each": (lambda: Model(loss="each"), 2, 16),
    "loss_pair": (lambda: Model(loss="pair"), 2, 16),
    "heads_40_8": (lambda: Model(heads=40, kv=8, channels=2), 1, 32),
    "heads_28_7": (lambda: Model(heads=28, kv=7, channels=2), 2, 16),
    "heads_7_7": (lambda: Model(heads=7, kv=7), 2, 16),
    "heads_6_3": (lambda: Model(heads=6, kv=3), 2, 16),
    "heads_12_12": (lambda: Model(heads=12, kv=12, channels=2), 2, 16),
    "rope_inputs": (lambda: Model(rope="inputs"), 2, 16),
    "rope_constants": (lambda: Model(rope="constants", seq=16), 2, 16),
    "rope_arange": (lambda: Model(rope="arange"), 2, 16),
    "positions_3": (lambda: Model(rope="three", channels=6), 2, 16),
    "positions_3_packed": (lambda: Model(rope="three", channels=6), 2, 16),
    "lora": (lambda: Model(lora=True), 2, 16),
}

if __name__ == "__main__":
    write(OUT, MODELS, "tests/data/cases.py", extra)
