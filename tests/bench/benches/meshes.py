# SPDX-License-Identifier: Apache-2.0
"""Fifty AdamW steps of ten models on real Gloo processes, in float64: the curve of one rank, on every grid and with ZeRO."""

SUMMARY = "ten models x 50 steps on 4 processes: the curve of one rank"
STEPS = 50
LIMIT = 1e-8
MODELS = ["llama_causal_gqa_pos", "llama_mha_pos", "gpt2_pos", "nanogpt", "opt", "qwen2_pos", "gemma_pos", "phi3_pos", "mistral_sw_pos", "mixtral_batched_pos"]
GRIDS = [(1, 4, 0), (1, 4, 1), (2, 2, 0), (2, 2, 1), (4, 1, 1)]


def run(bench):
    rows = []
    for number, name in enumerate(MODELS):
        path = bench.model(f"{name}.pt2")
        if not path:
            continue
        # All grids for one model of each kind would take hours: each model gets two of them, each grid four models.
        common = [path, "--dtype", "float64", "--batch", 4, "--steps", STEPS, "--clip", 1, "--threads", 1]
        alone = bench.spscope("run", *common, "--sp", 1, "--ranks", "virtual")
        if not alone:
            continue
        for dp, sp, zero in (GRIDS[number % len(GRIDS)], GRIDS[(number + 3) % len(GRIDS)]):
            mesh = bench.spscope("run", *common, "--dp", dp, "--sp", sp, "--zero", zero, "--ranks", "gloo")
            if not mesh:
                continue
            worst = max(abs(a - b) / abs(b) for a, b in zip(mesh["losses"], alone["losses"], strict=True))
            bench.figure(f"{name}/{dp}x{sp}/zero{zero}", worst, "", compared=1.0, limit=LIMIT)
            bench.details.append({"model": name, "dp": dp, "sp": sp, "zero": zero, "worst": worst, "first": alone["losses"][0], "last": alone["losses"][-1]})
            rows.append([name, f"{dp}x{sp}", zero, f"{alone['losses'][0]:.4f}", f"{alone['losses'][-1]:.4f}", f"{worst:.1e}"])
    if rows:
        bench.table(f"{STEPS} AdamW steps in float64 on 4 processes against one rank (at most {LIMIT:g} off)", ["model", "dp x sp", "zero", "first loss", "last loss", "worst"], rows)
