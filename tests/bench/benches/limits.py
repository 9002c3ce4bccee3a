# SPDX-License-Identifier: Apache-2.0
"""The longest context that `spscope plan` gives for a memory limit, run: at that length a rank stays below the limit, at 1.05
times of it no more."""

import pathlib
import tempfile

SUMMARY = "the planner's longest context under a memory limit, run, and exceeded at 1.05 times of it"
CONFIGURATIONS = [  # file, sp, dp, zero, save, tiled loss, optimizer, limit in MiB
    ("wide/llama_gqa_h256.pt2", 1, 1, 0, "all", False, "adamw", 200),
    ("wide/llama_gqa_h256.pt2", 1, 1, 0, "sac", False, "adamw", 120),
    ("wide/llama_gqa_h256.pt2", 2, 1, 0, "sac", False, "adamw", 120),
    ("wide/llama_gqa_h256.pt2", 2, 1, 1, "min-cut", True, "adamw", 100),
    ("wide/llama_gqa_h256.pt2", 4, 1, 1, "all", False, "sgd", 80),
    ("wide/llama_gqa_h256.pt2", 4, 1, 1, "sac", True, "adamw", 70),
    ("wide/qwen2_h256.pt2", 1, 1, 0, "min-cut", False, "sgd", 100),
    ("wide/qwen2_h256.pt2", 2, 1, 1, "all", False, "adamw", 150),
    ("wide/qwen2_h256.pt2", 2, 1, 1, "sac", False, "sgd", 70),
    ("wide/qwen2_h256.pt2", 4, 1, 0, "budget=0.5", False, "adamw", 100),
    ("wide/gemma_h256.pt2", 1, 1, 0, "sac", True, "adamw", 100),
    ("wide/gemma_h256.pt2", 2, 1, 0, "budget=0.25", False, "adamw", 120),
    ("wide/gemma_h256.pt2", 4, 1, 1, "min-cut", False, "sgd", 70),
    ("wide/llama_2layers_h64.pt2", 1, 1, 0, "all", False, "adamw", 24),
    ("wide/llama_2layers_h64.pt2", 2, 1, 0, "sac", False, "adamw", 16),
    ("wide/llama_32layers_h64.pt2", 2, 1, 1, "sac", False, "adamw", 40),
]
STEP = 16  # lengths that are looked at are multiples of it

PROFILE = """name = "limit"
summary = "a rank may have so much"
device = "cpu"
[memory.capacity]
low = "{limit} MiB"
high = "{limit} MiB"
source = "the limit of this experiment"
"""
NOTHING = """[{figure}]
low = "{value}"
high = "{value}"
source = "of no effect here"
"""
REST = {
    "memory.outside": "0 B", "communication.per_group": "0 B", "compute.matmul": "100 GFLOP/s", "compute.memory": "10 GB/s",
    "links.node": "1 GB/s",
}


def run(bench):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for file, sp, dp, zero, save, tiled, optimizer, limit in CONFIGURATIONS:
            path = bench.model(file)
            if not path:
                continue
            profile = pathlib.Path(folder) / "limit.toml"
            profile.write_text(PROFILE.format(limit=limit) + "".join(NOTHING.format(figure=f, value=v) for f, v in REST.items()))
            common = ["--sp", sp, "--dp", dp, "--zero", zero, "--save", save, "--optimizer", optimizer, "--batch", dp]
            tiles = ["--tile-loss"] if tiled else []
            plan = bench.spscope("plan", path, "--on", profile, "--gpus", sp * dp, *common, *(tiles or ["--whole-loss"]),
                                 "--step", STEP, "--headroom", "0", "--threads", 1)
            if not plan:
                continue
            row = plan["rows"][0]
            longest = row["max_seq"]
            beyond = -(-int(longest * 1.05) // STEP) * STEP

            def peak(seq):
                answer = bench.spscope("run", path, *common, *tiles, "--seq", seq, "--steps", 1, "--threads", 1, "--seed-weights", 1)
                return max(answer["peak_bytes"]) if answer else None

            there, after = peak(longest), peak(beyond)
            if there is None or after is None:
                continue
            name = f"{file.removesuffix('.pt2').removeprefix('wide/')} sp {sp} dp {dp} zero {zero} {save}{' tiled' if tiled else ''} {optimizer}"
            # Shares of the limit: at most 1 at the longest length, above 1 at 1.05 times of it.
            bytes_ = limit * 2**20
            bench.figure(f"{name}/longest", there / bytes_, "of the limit", tolerance=1.02, limit=1.0)
            bench.figure(f"{name}/beyond", after / bytes_, "of the limit", better="higher", tolerance=1.02, limit=1.0 + 1e-9)
            rows.append([file.removeprefix("wide/"), sp, dp, zero, save, "tiled" if tiled else "whole", optimizer, limit, longest,
                         f"{row['peak_bytes'] / 2**20:.2f}", f"{there / 2**20:.2f}", beyond, f"{after / 2**20:.2f}",
                         "yes" if there <= bytes_ < after else "NO"])
            bench.details.append({"configuration": row["config"], "file": file, "limit_bytes": bytes_, "max_seq": longest, "beyond": beyond,
                                  "predicted": row["peak_bytes"], "measured": there, "measured_beyond": after})
    if rows:
        bench.table("The longest context under a limit, planned and run on Gloo ranks (MiB, the fullest rank of one step)",
                    ["model", "sp", "dp", "zero", "save", "loss", "optimizer", "limit", "longest", "predicted", "measured", "1.05 x", "measured there", "as said"], rows)
