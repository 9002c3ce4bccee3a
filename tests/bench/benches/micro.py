# SPDX-License-Identifier: Apache-2.0
"""The inner parts of compiling, each alone, by Google Benchmark (programs/micro.cpp), in turns with the yardstick."""

import json
import statistics
import subprocess

from harness import environment

SUMMARY = "import, planner, text form, liveness, minimum cut, each alone"
REPEATS = 3
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def run(bench):
    model = bench.model("wide/llama_32layers_h64.pt2") or bench.model("llama_gqa.pt2")
    times, ratios, repeats = {}, {}, bench.repeats or REPEATS
    with bench.yardstick() as yardstick:
        for _ in range(repeats):
            before = yardstick.step()[0]
            done = subprocess.run([str(bench.program("micro")), str(model), "--benchmark_format=json", "--benchmark_min_time=0.2"],
                                  capture_output=True, text=True, env=environment())
            if done.returncode != 0:
                raise RuntimeError(f"micro ended with {done.returncode}: {done.stderr[-1000:]}")
            unit = (before + yardstick.step()[0]) / 2
            for entry in json.loads(done.stdout)["benchmarks"]:
                nanoseconds = entry["cpu_time"] * UNITS[entry["time_unit"]]
                times.setdefault(entry["name"], []).append(nanoseconds)
                ratios.setdefault(entry["name"], []).append(nanoseconds / unit)
    rows = []
    for name in times:
        value, ratio = statistics.median(times[name]), statistics.median(ratios[name])
        bench.figure(name, value / 1e6, "ms", compared=ratio, tolerance=1.5)
        rows.append([name, f"{value / 1e6:.3f}", f"{ratio:.4f}"])
    bench.table(f"Inner parts on {model.name}, CPU time, median of {repeats} runs", ["part", "ms", "yardsticks"], rows)
