#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./run bench`: how long compiling takes by layers, and a training step against PyTorch eager.

  bench.py --build build/release [--zoo FOLDER] [--json OUT.json] [--only compile|step] [--pairs N] [--repeats N]
           [--add FILE:LAYERS:SP]...

Compile: the program on graphs of 2 to 40 layers, best of five; `seconds` is the program's own figure (from opening the
file to the scheduled joint graph), process is the whole process. Step: forward and backward of the unsharded graph on
one thread, our executor and PyTorch eager (`torch.export.load(f).module()`) in two processes that take turns; median
of the pairs. Both see the same inputs, and their losses and gradient norms are compared, so that neither can win by
computing less.
The graphs are those of the zoo (--zoo, or SPSCOPE_ZOO, or ../shared/zoo); missing ones are named and left out."""

import argparse
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

COMPILED = [  # file, layers, sequence-parallel ranks
    ("wide/llama_2layers_h64.pt2", 2, 2),
    ("wide/llama_32layers_h64.pt2", 32, 2),
    ("big/llama_l4_h512.pt2", 4, 2),
    ("big/llama3_1b.pt2", 16, 8),
    ("big/llama3_3b.pt2", 28, 8),
    ("big/llama3_8b.pt2", 32, 8),
    ("big/llama2_13b.pt2", 40, 8),
]
STEPPED = ["wide/llama_2layers_h64.pt2", "wide/llama_32layers_h64.pt2"]
SEQUENCE = 128
TOLERANCE = 1e-4  # float32, summed in another order


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "0"}


def print_table(title, header, rows):
    print(f"\n{title}")
    rows = [header, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "  ".join(cells).rstrip())


def bench_compile(program, zoo, models, repeats):
    results = []
    for name, layers, ranks in models:
        if not (zoo / name).is_file():
            print(f"bench: no {zoo / name}, left out", file=sys.stderr)
            continue
        best = None
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            command = [program, "compile", str(zoo / name), "--sp", str(ranks), "--json", str(report)]
            for _ in range(repeats):
                begin = time.perf_counter()
                done = subprocess.run(command, capture_output=True, text=True, env=environment())
                process = time.perf_counter() - begin
                if done.returncode != 0:
                    print(f"bench: {name}: exit code {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
                    break
                plan = json.loads(report.read_text())
                row = {
                    "model": name,
                    "layers": layers,
                    "sp": ranks,
                    "nodes": plan["stages"][-1]["nodes"],
                    "seconds": plan["seconds"],
                    "process_seconds": process,
                    "stages": {stage["name"]: stage["seconds"] for stage in plan["stages"]},
                }
                if best is None or row["seconds"] < best["seconds"]:
                    best = row
        results.append(best or {"model": name, "failed": True})
    print_table(
        f"Compile, best of {repeats}",
        ["model", "layers", "sp", "nodes", "ms", "ms/layer", "process ms"],
        [
            [
                row["model"],
                f"{row['layers']}",
                f"{row['sp']}",
                f"{row['nodes']}",
                f"{row['seconds'] * 1e3:.0f}",
                f"{row['seconds'] * 1e3 / row['layers']:.1f}",
                f"{row['process_seconds'] * 1e3:.0f}",
            ]
            for row in results
            if "failed" not in row
        ],
    )
    return results


class StepServer:
    """A process that runs one training step for each line it is sent."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )
        if self.answer() != "ready":
            raise RuntimeError(f"{name} did not start")

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with exit code {self.process.wait()}")
        return line.strip()

    def step(self):
        """(nanoseconds, loss, gradient norm) of one step."""
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        nanoseconds, loss, norm = self.answer().split()
        return int(nanoseconds), float(loss), float(norm)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


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


def bench_step(server_program, zoo, pairs):
    results = []
    for name in STEPPED:
        model = zoo / name
        if not model.is_file():
            print(f"bench: no {model}, left out", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            inputs = pathlib.Path(folder) / "inputs.safetensors"
            write_token_inputs(inputs, 0, SEQUENCE)
            ours = StepServer("spscope", [server_program, str(model), str(inputs)])
            eager = StepServer("eager", [sys.executable, str(HERE / "eager_server.py"), str(model), str(inputs)])
            for _ in range(3):  # warm up
                ours.step(), eager.step()
            measured = [(ours.step(), eager.step()) for _ in range(pairs)]
            ours.close()
            eager.close()
        (_, *our_answer), (_, *eager_answer) = measured[-1]
        for what, mine, other in zip(("loss", "gradient norm"), our_answer, eager_answer):
            if not abs(mine - other) <= TOLERANCE * abs(other):
                raise RuntimeError(f"{name}: the {what} differs: {mine} and {other}")
        results.append(
            {
                "model": name,
                "sequence": SEQUENCE,
                "pairs": pairs,
                "ours_ns": statistics.median(pair[0][0] for pair in measured),
                "eager_ns": statistics.median(pair[1][0] for pair in measured),
                "ratio": statistics.median(pair[0][0] / pair[1][0] for pair in measured),
                "loss": our_answer[0],
                "gradient_norm": our_answer[1],
            }
        )
    print_table(
        f"Step at P = 1, S = {SEQUENCE}, one thread: forward and backward, median of {pairs} alternating pairs",
        ["model", "spscope ms", "eager ms", "ratio"],
        [
            [row["model"], f"{row['ours_ns'] / 1e6:.2f}", f"{row['eager_ns'] / 1e6:.2f}", f"{row['ratio']:.2f}"]
            for row in results
        ],
    )
    return results


def added_model(text):
    """One more graph to compile, from the command line."""
    file, layers, ranks = text.rsplit(":", 2)
    return str(pathlib.Path(file).resolve()), int(layers), int(ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--zoo", type=pathlib.Path, default=os.environ.get("SPSCOPE_ZOO", ROOT.parent / "shared/zoo"))
    parser.add_argument("--json", type=pathlib.Path, help="default: bench.json in the build folder")
    parser.add_argument("--only", choices=["compile", "step"])
    parser.add_argument("--add", metavar="FILE:LAYERS:SP", type=added_model, action="append", default=[])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    build = args.build.resolve()

    result = {"cores": os.cpu_count(), "compile": [], "step": []}
    if args.only != "step":
        result["compile"] = bench_compile(str(build / "app/spscope"), args.zoo, COMPILED + args.add, args.repeats)
    if args.only != "compile":
        result["step"] = bench_step(str(build / "tests/bench/step_server"), args.zoo, args.pairs)
    output = args.json or build / "bench.json"
    output.write_text(json.dumps(result, indent=2) + "\n")
    print(f"\nwritten: {output}")
    return 1 if any("failed" in row for row in result["compile"]) or not (result["compile"] or result["step"]) else 0


sys.exit(main())
