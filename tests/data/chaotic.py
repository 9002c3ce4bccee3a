# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/chaotic.pt2: a model on which two right programs differ.

    python tests/data/chaotic.py            (torch 2.15 with Python; see cmake/torch-requirements-full.txt)

The mean over the sequence, through a logistic map that doubles what it differs by at each of its steps: float32 sums in another
order are another result in the end. What verify says of programs that differ is tested with it."""
import os

import torch
import torch.nn.functional as F

STEPS = 36


class Chaotic(torch.nn.Module):
    def __init__(self, vocab=40, dim=16):
        super().__init__()
        self.e = torch.nn.Embedding(vocab, dim)
        self.head = torch.nn.Linear(dim, vocab)

    def forward(self, input_ids, labels):
        x = self.e(input_ids)
        m = (x * x).mean(dim=1, keepdim=True) / 4
        for _ in range(STEPS):
            m = 4 * m * (1 - m)
        logits = self.head(x * m)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


torch.manual_seed(7)
model = Chaotic()
ids = torch.randint(0, 40, (2, 64))
program = torch.export.export(model, (), kwargs={"input_ids": ids, "labels": ids.clone()}, strict=False)
folder = os.path.dirname(os.path.abspath(__file__))
for node in program.graph.nodes:  # lines of this file, wherever it lies
    if "stack_trace" in node.meta:
        node.meta["stack_trace"] = node.meta["stack_trace"].replace(folder + os.sep, "")
torch.export.save(program, os.path.join(folder, "chaotic.pt2"))
