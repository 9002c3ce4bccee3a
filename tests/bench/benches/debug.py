# SPDX-License-Identifier: Apache-2.0
"""What the debugger costs a step that stops nowhere, against the same virtual ranks by themselves."""

import statistics

from harness import program, ratio

SUMMARY = "what the debugger costs a step that stops nowhere"
PAIRS = 60
MODEL, RANKS, SEQUENCE = "llama_gqa.pt2", 2, 256
LIMIT = 1.05  # of the step by itself


def run(bench):
    pairs = max(2, bench.repeats or PAIRS)
    path = bench.model(MODEL)
    if not path:
        return
    (times,) = program(bench, "debug_cost", path, RANKS, SEQUENCE, pairs)
    plain, debugged = times["plain"]["cpu_ns"], times["debugged"]["cpu_ns"]
    medians, fast, middle, error = ratio(plain, debugged)
    bench.figure("step", middle, "of the step without", tolerance=1.03, limit=LIMIT)
    bench.details.append(times)
    bench.table(f"A step of {MODEL} at S = {SEQUENCE} on {RANKS} virtual ranks, with and without the debugger, {pairs} pairs: CPU time",
                ["nodes", "without ms", "with ms", "medians", "lower quartiles", "median pair"],
                [[times["nodes"], f"{statistics.median(plain) / 1e6:.2f}", f"{statistics.median(debugged) / 1e6:.2f}", f"{medians:.4f}", f"{fast:.4f}",
                  f"{middle:.4f} ± {error:.4f}"]])
