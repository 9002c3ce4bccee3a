# SPDX-License-Identifier: Apache-2.0
"""What `run --profile` costs: the same run with and without it, in turns, step by step; and one event by itself."""

import json
import pathlib
import statistics
import subprocess
import tempfile

from harness import environment

SUMMARY = "what recording costs a step, and an event"
PAIRS = 7
STEPS = 12
EVENTS = 1_000_000
MODEL, RANKS, SEQUENCE = "llama_gqa.pt2", 2, 1024
STEP_LIMIT, EVENT_LIMIT = 1.02, 300  # of the step without; ns


def run(bench):
    pairs = bench.repeats or PAIRS
    path = bench.model(MODEL)
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "bench.spt"
        command = ["run", path, "--sp", RANKS, "--threads", 1, "--seq", SEQUENCE, "--steps", STEPS]
        ratios, plain_ms, recorded_ms, events = [], [], [], 0
        for turn in range(pairs if path else 0):
            both = {}
            for recorded in ([False, True] if turn % 2 == 0 else [True, False]):  # neither is always first
                more = ["--profile", trace, "--profile-steps", f"0:{STEPS}"] if recorded else []
                answer = bench.spscope(*command, *more)
                if not answer:
                    return
                # The fastest step: a neighbour on the machine can only add.
                both[recorded] = min(answer["step_seconds"][1:]) * 1e3
                events = answer["profile"]["events"] if recorded else events
            ratios.append(both[True] / both[False])
            plain_ms.append(both[False])
            recorded_ms.append(both[True])
        if ratios:
            # Fastest against fastest over all turns, as of exchanges; the median of the pairs is shown beside it.
            best, middle = min(recorded_ms) / min(plain_ms), statistics.median(ratios)
            bench.figure("step", best, "of the step without", tolerance=1.02, limit=STEP_LIMIT)
            bench.details.append({"plain_ms": plain_ms, "recorded_ms": recorded_ms, "events": events})
            bench.table(f"A step of {MODEL} at S = {SEQUENCE} on {RANKS} Gloo ranks with and without --profile, {pairs} pairs of runs, fastest of {STEPS - 1} steps",
                        ["events a rank and step", "without ms", "with ms", "fastest", "median pair"],
                        [[events // RANKS // STEPS, f"{min(plain_ms):.2f}", f"{min(recorded_ms):.2f}", f"{best:.4f}", f"{middle:.4f}"]])

        done = subprocess.run([str(bench.program("record_cost")), str(pathlib.Path(folder) / "spool"), "7", str(EVENTS)],
                              capture_output=True, text=True, env=environment())
        if done.returncode != 0:
            raise RuntimeError(f"record_cost ended with {done.returncode}: {done.stderr[-500:]}")
    each = [row["ns"] / row["events"] for row in map(json.loads, done.stdout.splitlines())]
    bench.figure("event", statistics.median(each), "ns", tolerance=2.0, limit=EVENT_LIMIT)
    bench.table("One event, time stamps and writing included", ["events", "median ns", "worst ns"],
                [[EVENTS, f"{statistics.median(each):.1f}", f"{max(each):.1f}"]])
