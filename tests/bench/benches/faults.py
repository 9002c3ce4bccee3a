# SPDX-License-Identifier: Apache-2.0
"""200 seeded faults on ten models at two and four ranks: is each named where it was planted, with its ranks and its pass?"""

import collections

from harness import program

SUMMARY = "200 seeded faults: named where they were planted"
MODELS = ["gpt2_pos", "llama_causal_gqa_pos", "llama_gqa_pos", "llama_packed_pos", "qwen2_pos", "gemma_pos", "phi3_pos", "nanogpt", "bert_pos", "opt"]
RANKS = [2, 4]
PER_CASE = 10
ENDINGS = ["exact", "listed", "missed", "equivalent", "too small", "refused"]


def run(bench):
    cases = [f"{model}:{ranks}" for model in MODELS for ranks in RANKS]
    *trials, summary = program(bench, "seeded_faults", bench.repeats or PER_CASE, 0, *cases)
    kinds = collections.defaultdict(collections.Counter)
    for trial in trials:
        kinds[trial["fault"].split("@")[0].split(",")[0]][trial["ending"]] += 1
    endings = summary["endings"]
    planted = sum(endings.get(e, 0) for e in ("exact", "listed", "missed"))
    bench.figure("missed", endings.get("missed", 0) / planted, "of those planted", limit=0)
    bench.figure("right programs with a difference", summary["cases"] - summary["right_without"], "programs", limit=0)
    bench.details.extend(t for t in trials if t["ending"] not in ("exact", "equivalent"))
    rows = [[kind, *(counts[e] or "" for e in ENDINGS)] for kind, counts in sorted(kinds.items())]
    rows.append(["all", *(endings.get(e, 0) for e in ENDINGS)])
    bench.table(f"{planted} seeded faults on {len(MODELS)} models at {', '.join(map(str, RANKS))} ranks, {summary['seconds']:.0f} s", ["kind", *ENDINGS], rows)
