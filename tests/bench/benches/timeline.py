# SPDX-License-Identifier: Apache-2.0
"""A frame of the timeline painted on the CPU: a million events on 16 streams with overlap and memory tracks, all in sight."""

import json
import statistics
import subprocess

from harness import environment

SUMMARY = "a frame of the timeline with a million events, painted on the CPU"
EVENTS, FRAMES = 1_000_000, 40
CPU_LIMIT_MS = {(1600, 1000, 1): 10.0}   # of a whole frame, nothing kept from the last
WALL_LIMIT_MS = {(3840, 2160, 1): 25.0}


def run(bench):
    program = bench.program("timeline_frame")
    if not program.exists():
        bench.leave_out("Qt or Dear ImGui is not installed")
        return
    frames = bench.repeats or FRAMES
    done = subprocess.run([str(program), str(EVENTS), str(frames)], capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        raise RuntimeError(f"timeline_frame ended with {done.returncode}: {done.stderr[-1000:]}")
    rows = []
    for line in done.stdout.splitlines():
        seen = json.loads(line)
        if "index_ns" in seen:
            bench.figure("index", seen["index_ns"] / 1e6, "ms", tolerance=1.5)
            continue
        size = (seen["width"], seen["height"], seen["scale"])
        cpu, wall = statistics.median(seen["cpu_ns"]) / 1e6, statistics.median(seen["wall_ns"]) / 1e6
        name = f"{size[0]}x{size[1]}@{size[2]:g}/{seen['view']}"
        full = seen["view"] != "still"
        bench.figure(f"{name}/cpu", cpu, "ms", tolerance=1.5, limit=CPU_LIMIT_MS.get(size) if full else None)
        # The best of many: a neighbour on the machine can only add to the time on the clock.
        bench.figure(f"{name}/wall", min(seen["wall_ns"]) / 1e6, "ms", tolerance=1.5, limit=WALL_LIMIT_MS.get(size) if full else None)
        rows.append([name, seen["events"], seen["quads"], f"{cpu:.2f}", f"{wall:.2f}", f"{min(seen['wall_ns']) / 1e6:.2f}"])
    bench.table(f"A frame of the timeline, CPU raster, {frames} frames (ms)", ["size and view", "events", "quads", "cpu, median", "wall, median", "wall, best"], rows)
