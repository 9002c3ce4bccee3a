# SPDX-License-Identifier: Apache-2.0
"""What the debugger costs a step that stops nowhere, against the same virtual ranks by themselves, and against the same Gloo ranks;
how soon Gloo ranks stand once a stop is due."""

import statistics

from harness import program, ratio

SUMMARY = "what the debugger costs a step that stops nowhere"
PAIRS = 60
MODEL, RANKS, SEQUENCE = "llama_gqa.pt2", 2, 256
LIMIT = 1.05  # of the step by itself
STOP_LIMIT = 0.1  # seconds until all ranks stand; no op of the model takes as long
GLOO = [(2, 256), (4, 256)]  # ranks, sequence


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
    for ranks, sequence in GLOO:
        gloo(bench, path, ranks, sequence, pairs)


def gloo(bench, path, ranks, sequence, pairs):
    (times,) = program(bench, "debug_ranks", bench.program("spscope"), path, ranks, sequence, pairs)
    plain, debugged = times["plain"]["cpu_ns"], times["debugged"]["cpu_ns"]
    medians, fast, middle, error = ratio(plain, debugged)
    bench.figure(f"gloo_step_{ranks}", middle, "of the step without", tolerance=1.03, limit=LIMIT)
    stops = sorted(times["stop_ns"] + times["pause_ns"])  # 95 % of them: what is beyond is the machine's, as any program waits for a core
    bench.figure(f"gloo_stop_{ranks}", stops[int(0.95 * (len(stops) - 1))] / 1e9, "s until all ranks stand", tolerance=10, limit=STOP_LIMIT)
    bench.details.append(times)
    bench.table(f"A step of {MODEL} at S = {sequence} on {ranks} Gloo ranks, with and without the debugger, {pairs} pairs: CPU time of all processes",
                ["nodes", "without ms", "with ms", "medians", "lower quartiles", "median pair"],
                [[times["nodes"], f"{statistics.median(plain) / 1e6:.2f}", f"{statistics.median(debugged) / 1e6:.2f}", f"{medians:.4f}", f"{fast:.4f}",
                  f"{middle:.4f} ± {error:.4f}"]])
    bench.table(f"Stops on {ranks} Gloo ranks: ms from when one is due until all ranks stand, and until the debugger knows it",
                ["what", "how many", "median", "95 %", "largest", "known: median", "known: largest"],
                [[what, len(times[key]), *(f"{x / 1e6:.2f}" for x in (statistics.median(times[key]), sorted(times[key])[int(0.95 * (len(times[key]) - 1))], max(times[key]),
                                                                      statistics.median(times[told]), max(times[told])))]
                 for what, key, told in (("at a node", "stop_ns", "told_ns"), ("a pause", "pause_ns", "pause_told_ns"))])
