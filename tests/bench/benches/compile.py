# SPDX-License-Identifier: Apache-2.0
"""How long compiling takes by layers, from opening the file to the scheduled step, and against the reference's figures."""

import json

from harness import HERE

SUMMARY = "compile time by layers, and against the stored figures of DeepSpeed's AutoSP"
REPEATS = 5
MODELS = [  # file, layers, sequence-parallel ranks, hidden size
    ("wide/llama_2layers_h64.pt2", 2, 2, 64),
    ("wide/llama_32layers_h64.pt2", 32, 2, 64),
    ("llama_gqa.pt2", 4, 2, 256),
    ("big/llama_l4_h512.pt2", 4, 2, 512),
    ("big/llama3_1b.pt2", 16, 8, 2048),
    ("big/llama3_3b.pt2", 28, 8, 3072),
    ("big/llama3_8b.pt2", 32, 8, 4096),
    ("big/llama2_13b.pt2", 40, 8, 5120),
]
PARTS = {"joint": ("build-joint", "sync-gradients"), "partition": ("choose-saved", "schedule")}


def part_of(stage, seen_joint):
    """Stages before build-joint are "passes"; what is later and not named, such as communication passes, is "after"."""
    for part, stages in PARTS.items():
        if stage in stages:
            return part
    return "after" if seen_joint else "passes"


def parts_of(plan):
    parts, seen_joint = {"passes": 0.0, "joint": 0.0, "partition": 0.0, "after": 0.0}, False
    for stage in plan["stages"]:
        seen_joint = seen_joint or stage["name"] == "build-joint"
        parts[part_of(stage["name"], seen_joint)] += stage["seconds"] * 1e3
    return parts


def run(bench):
    reference = json.loads((HERE / "reference.json").read_text())["milliseconds"]
    rows, beside = [], []
    with bench.yardstick() as yardstick:
        for file, layers, ranks, hidden in MODELS:
            path = bench.model(file)
            if not path:
                continue

            fastest = {}

            def measure():
                plan = bench.spscope("compile", path, "--sp", ranks, "--threads", 1)
                if plan and (not fastest or plan["seconds"] < fastest["seconds"]):
                    fastest.update(plan)
                return (plan["cpu_seconds"], plan) if plan else None

            measured = bench.against_yardstick(measure, REPEATS, yardstick)
            if not measured:
                continue
            seconds, ratio, plan = *measured[:2], fastest
            bench.figure(file.removesuffix(".pt2"), seconds * 1e3, "ms", compared=ratio, tolerance=1.5)
            bench.details.append({"model": file, "layers": layers, "sp": ranks, "nodes": plan["stages"][-1]["nodes"],
                                  "stages": {stage["name"]: stage["seconds"] for stage in plan["stages"]}})
            rows.append([file, layers, ranks, plan["stages"][-1]["nodes"], f"{seconds * 1e3:.0f}", f"{seconds * 1e3 / layers:.1f}",
                         f"{ratio:.2f}", f"{plan['seconds'] * 1e3:.0f}", f"{plan['process_seconds'] * 1e3:.0f}"])
            if hidden != 64 or str(layers) not in reference:
                continue
            theirs = reference[str(layers)]
            for part, ours in parts_of(plan).items():
                if part in theirs:
                    beside.append([f"{layers} layers, {part}", f"{ours:.1f}", theirs[part], f"{theirs[part] / ours:.0f} x"])
            beside.append([f"{layers} layers, from the file to the step", f"{seconds * 1e3:.0f}", sum(theirs.values()),
                           f"{sum(theirs.values()) / (seconds * 1e3):.0f} x"])
            bench.figure(f"reference/{layers}-layers", sum(theirs.values()) / (seconds * 1e3), "times as fast", better="higher",
                         compared=1 / ratio, tolerance=1.5, limit=1.0)
    if rows:
        bench.table(f"Compile: CPU time, median of {bench.repeats or REPEATS}, and in units of fixed work done in between; wall time: the best",
                    ["model", "layers", "sp", "nodes", "cpu ms", "ms/layer", "yardsticks", "wall ms", "process ms"], rows)
    if beside:
        bench.table("Compile against DeepSpeed's AutoSP (its stored figures are of a quiet machine; ms: ours are wall time of the fastest, whole: CPU time)", ["", "spscope", "reference", "faster"], beside)
