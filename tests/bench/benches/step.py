# SPDX-License-Identifier: Apache-2.0
"""A training step of the unsharded graph on one thread, our executor and PyTorch eager in two processes that take turns.
Both see the same inputs, and their losses and gradient norms are compared, so that neither can win by computing less."""

import json
import pathlib
import random
import statistics
import struct
import sys
import tempfile

from harness import HERE, Server

SUMMARY = "a training step against PyTorch eager, alternating"
NEEDS_TORCH = True
PAIRS = 20
MODELS = [("wide/llama_2layers_h64.pt2", 128), ("wide/llama_32layers_h64.pt2", 128), ("llama_gqa.pt2", 512)]
TOLERANCE = 1e-4  # float32, summed in another order


def write_token_inputs(path, seed, sequence, vocabulary=64):
    """Random ids and labels of one row as safetensors; every model here knows at least 64 tokens."""
    draw = random.Random(seed)
    rows = {
        "input_ids": [draw.randrange(vocabulary) for _ in range(sequence)],
        "labels": [draw.randrange(vocabulary) for _ in range(sequence)],
        "position_ids": list(range(sequence)),
    }
    size = 8 * sequence
    header = {
        name: {"dtype": "I64", "shape": [1, sequence], "data_offsets": [index * size, (index + 1) * size]}
        for index, name in enumerate(rows)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(struct.pack(f"<{sequence}q", *row) for row in rows.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def run(bench):
    rows, pairs = [], bench.repeats or PAIRS
    for file, sequence in MODELS:
        model = bench.model(file)
        if not model:
            continue
        with tempfile.TemporaryDirectory() as folder:
            inputs = pathlib.Path(folder) / "inputs.safetensors"
            write_token_inputs(inputs, 0, sequence)
            with Server("spscope", [bench.program("step_server"), model, inputs, sequence]) as ours, \
                 Server("eager", [sys.executable, HERE / "programs/eager_server.py", model, inputs]) as eager:
                for _ in range(3):  # warm up
                    ours.step(), eager.step()
                measured = [(ours.step(), eager.step()) for _ in range(pairs)]
        for what, index in (("loss", 1), ("gradient norm", 2)):
            mine, other = measured[-1][0][index], measured[-1][1][index]
            if not abs(mine - other) <= TOLERANCE * abs(other):
                raise RuntimeError(f"{file}: the {what} differs: {mine} and {other}")
        ratio, cpu = (statistics.median(a[i] / b[i] for a, b in measured) for i in (0, 3))
        bench.figure(file.removesuffix(".pt2"), ratio, "of eager's time", compared=cpu, tolerance=1.2)
        bench.details.append({"model": file, "sequence": sequence, "pairs_ns": [[a[0], b[0]] for a, b in measured]})
        rows.append([file, sequence, *[f"{statistics.median(pair[i][0] for pair in measured) / 1e6:.2f}" for i in (0, 1)], f"{ratio:.3f}", f"{cpu:.3f}"])
    if rows:
        bench.table(f"Step at P = 1, one thread: forward and backward, median of {pairs} alternating pairs",
                    ["model", "S", "spscope ms", "eager ms", "ratio", "CPU ratio"], rows)
