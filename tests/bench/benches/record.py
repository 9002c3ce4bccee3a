# SPDX-License-Identifier: Apache-2.0
"""What `run --profile` costs: of one run, every second step is recorded, the others are not; and one event by itself."""

import pathlib
import statistics
import tempfile

from harness import program, ratio

SUMMARY = "what recording costs a step, and an event"
PAIRS = 300
EVENTS = 1_000_000
MODEL, RANKS, SEQUENCE = "llama_gqa.pt2", 2, 1024
STEP_LIMIT, EVENT_LIMIT = 1.02, 300  # of the step without; ns


def run(bench):
    pairs = max(2, bench.repeats or PAIRS)
    path = bench.model(MODEL)
    with tempfile.TemporaryDirectory() as folder:
        if path:
            steps, merged = program(bench, "record_step", path, RANKS, SEQUENCE, pairs, pathlib.Path(folder) / "bench.spt")
            if merged["dropped"]:
                raise RuntimeError(f"{merged['dropped']} records were dropped")
            rows, events = [], merged["events"] // RANKS // steps["steps_recorded"]
            for kind in ("cpu", "wall"):
                plain, recorded = steps["plain"][f"{kind}_ns"], steps["recorded"][f"{kind}_ns"]
                medians, fast, middle, error = ratio(plain, recorded)
                rows.append([kind, events, f"{statistics.median(plain) / 1e6:.2f}", f"{statistics.median(recorded) / 1e6:.2f}",
                             f"{medians:.4f}", f"{fast:.4f}", f"{middle:.4f} ± {error:.4f}"])
                if kind == "cpu":  # what the rank computes; its wall time holds the waits for the other one, too
                    bench.figure("step", middle, "of the step without", tolerance=1.02, limit=STEP_LIMIT)
            bench.details.append({**steps, **merged})
            bench.table(f"A step of {MODEL} at S = {SEQUENCE} on {RANKS} Gloo ranks, every second one recorded, {pairs} pairs: rank 0's process",
                        ["time", "events a step", "without ms", "with ms", "medians", "lower quartiles", "median pair"], rows)

        rounds = program(bench, "record_cost", pathlib.Path(folder) / "spool", 7, EVENTS)
    each = [row["ns"] / row["events"] for row in rounds]
    bench.figure("event", statistics.median(each), "ns", tolerance=2.0, limit=EVENT_LIMIT)
    bench.table("One event, time stamps and writing included", ["events", "median ns", "worst ns"],
                [[EVENTS, f"{statistics.median(each):.1f}", f"{max(each):.1f}"]])
