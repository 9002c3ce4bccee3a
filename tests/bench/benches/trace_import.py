# SPDX-License-Identifier: Apache-2.0
"""Reading traces: Kineto-shaped JSON of two sizes, written by the same program that reads it; CPU time and memory."""

import json
import os
import pathlib
import subprocess
import tempfile

from harness import environment

SUMMARY = "reading Kineto JSON of 0.3 and 1.1 GB: CPU time and memory"
REPEATS = 3
SIZES = [(1_000_000, 1.0, 150), (3_300_000, 3.5, None)]  # events, CPU seconds and MB at most


def run(bench):
    rows, peaks = [], []
    for events, seconds_limit, memory_limit in SIZES:
        with tempfile.TemporaryDirectory() as folder, bench.yardstick() as yardstick:
            path = pathlib.Path(folder) / "trace.json"
            free = os.statvfs(folder)
            if free.f_bavail * free.f_frsize < events * 400:
                bench.leave_out(f"{events} events: no room in {folder}")
                continue
            subprocess.run([str(bench.program("trace_import")), "generate", str(events), str(path)], check=True, env=environment())

            def measure():
                done = subprocess.run([str(bench.program("trace_import")), "read", str(path)], check=True, capture_output=True, text=True, env=environment())
                answer = json.loads(done.stdout)
                return answer["cpu_seconds"], answer

            seconds, ratio, answer = bench.against_yardstick(measure, REPEATS, yardstick)
        name = f"{events // 100_000 / 10:g}M"
        memory = answer["peak_bytes"] / 1e6
        peaks.append(memory)
        bench.figure(f"{name}/seconds", seconds, "s", compared=ratio, tolerance=1.5, limit=seconds_limit)
        bench.figure(f"{name}/memory", memory, "MB", tolerance=1.2, limit=memory_limit)
        rows.append([f"{events}", f"{answer['bytes'] / 1e6:.0f}", f"{answer['events']}", f"{seconds:.2f}", f"{answer['bytes'] / 1e6 / seconds:.0f}", f"{memory:.0f}"])
    if len(peaks) == 2:
        growth = peaks[1] / peaks[0]
        bench.figure("memory-growth", growth, "times, for 3.3 times the events", tolerance=1.1, limit=3.4)
    if rows:
        bench.table(f"Reading Kineto JSON, CPU time, median of {bench.repeats or REPEATS}", ["events in the file", "MB", "kept", "s", "MB/s", "peak MB"], rows)
