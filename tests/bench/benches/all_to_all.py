# SPDX-License-Identifier: Apache-2.0
"""Our all-to-all against c10d's own of the same size over Gloo, in the same processes and taking turns; and the bytes that
a compiled step sends against what attention needs."""

import json
import subprocess

from harness import environment

SUMMARY = "all-to-all against a bare one of the same size: time and bytes"
RANKS = 2
ROUNDS = 60
TOKENS = [1024, 4096, 16384, 65536]  # 16 heads of 64, float32, on two ranks: 2, 8, 32, 128 MiB for each
LIMIT = 1.10
COMPILED = [("llama_gqa.pt2", 2), ("llama_gqa.pt2", 4), ("big/llama3_8b.pt2", 8)]


def needed_bytes(seen, batch, sequence, ranks, element):
    """What one rank sends for its attention in forward and backward: q and the output with all heads, one copy of k and v,
    each from sequence to heads or back once in either direction; of each 1/P stays."""
    total = 0
    for attention in seen["attention"]:
        values = (2 * attention["heads"] + 2 * max(attention["kv_heads"], ranks)) * attention["head_dim"]
        total += 2 * values * batch * sequence // ranks * (ranks - 1) // ranks * element
    return total


def run(bench):
    rows, rounds = [], bench.repeats or ROUNDS
    done = subprocess.run([str(bench.program("all_to_all")), str(RANKS), str(rounds), *map(str, TOKENS)],
                          capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        raise RuntimeError(f"all_to_all ended with {done.returncode}: {done.stderr[-1000:]}")
    for line in done.stdout.splitlines():
        size = json.loads(line)
        name = f"{size['buffer_bytes'] >> 20}MiB"
        # The best of many rounds: a neighbour on the machine can only add to two processes that wait for each other.
        best = {key: min(size[f"{key}_ns"]) for key in ("bare", "exchange", "op")}
        exchange, whole = best["exchange"] / best["bare"], best["op"] / best["bare"]
        bench.figure(f"{name}/exchange", exchange, "of the bare time", tolerance=1.25, limit=LIMIT)
        bench.figure(f"{name}/with-packing", whole, "of the bare time", tolerance=1.25)
        bench.figure(f"{name}/bytes", size["our_bytes"] / size["bare_bytes"], "of the bare bytes", tolerance=1.0, limit=LIMIT)
        bench.details.append(size)
        rows.append([name, *[f"{best[key] / 1e6:.2f}" for key in best], f"{exchange:.3f}", f"{whole:.3f}",
                     f"{size['our_bytes'] / size['bare_bytes']:.3f}"])
    bench.table(f"All-to-all on {RANKS} Gloo ranks, best of {rounds} alternating rounds (ms; ratios to the bare one)",
                ["per rank", "bare", "exchange", "with packing", "exchange ratio", "with packing", "bytes"], rows)

    sent = []
    for file, ranks in COMPILED:
        path = bench.model(file)
        seen = path and bench.spscope("inspect", path)
        plan = seen and bench.spscope("compile", path, "--sp", ranks, "--threads", 1)
        if not plan:
            continue
        ours = sum(c["bytes"] for c in plan["collectives"] if "all_to_all" in c["kind"])
        shape = next(i["shape"] for i in seen["inputs"] if i["name"] == seen["sequence"]["input"])
        element = seen["parameter_bytes"] // seen["parameters"]
        need = needed_bytes(seen, shape[0], shape[1], ranks, element)
        bench.figure(f"step/{file.removesuffix('.pt2')}/sp{ranks}/bytes", ours / need, "of what attention needs", tolerance=1.0, limit=LIMIT)
        sent.append([file, ranks, f"{ours / 2**20:.2f}", f"{need / 2**20:.2f}", f"{ours / need:.3f}"])
    if sent:
        bench.table("All-to-all bytes sent by one rank in a compiled step (MiB)", ["model", "sp", "sent", "needed", "ratio"], sent)
