# SPDX-License-Identifier: Apache-2.0
"""How much verify proves in a second of CPU time: tokens and nodes."""

SUMMARY = "verify: tokens and nodes a second of CPU time"
REPEATS = 3
MODELS = [("llama_gqa.pt2", 2, ["--seq", 512]), ("wide/llama_32layers_h64.pt2", 2, ["--seq", 128]), ("mixtral_batched_pos.pt2", 2, [])]


def run(bench):
    rows, repeats = [], bench.repeats or REPEATS
    with bench.yardstick() as yardstick:
        for file, ranks, flags in MODELS:
            path = bench.model(file)
            seen = path and bench.spscope("inspect", path, *flags)
            if not seen:
                continue
            shape = next(i["shape"] for i in seen["inputs"] if i["name"] == seen["sequence"]["input"])
            tokens = shape[0] * shape[1]

            def measure():
                answer = bench.spscope("verify", path, "--sp", ranks, "--threads", 1, *flags)
                return (answer["cpu_seconds"], answer) if answer else None

            measured = bench.against_yardstick(measure, repeats, yardstick)
            if not measured:
                continue
            seconds, ratio, answer = measured
            nodes = answer["plan"]["stages"][-1]["nodes"] * ranks  # of the sharded side; the unsharded one has about as many for one rank
            bench.figure(f"{file.removesuffix('.pt2')}/tokens", tokens / seconds, "tokens/s", better="higher", compared=1 / ratio, tolerance=1.5)
            bench.details.append({"model": file, "tokens": tokens, "nodes": nodes, "seconds": seconds, "yardsticks": ratio})
            rows.append([file, ranks, tokens, nodes, f"{seconds * 1e3:.0f}", f"{tokens / seconds:.0f}", f"{nodes / seconds:.0f}"])
    if rows:
        bench.table(f"Verify on virtual ranks, one thread: CPU time, median of {repeats}", ["model", "sp", "tokens", "nodes run", "cpu ms", "tokens/s", "nodes/s"], rows)
