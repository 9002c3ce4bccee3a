# SPDX-License-Identifier: Apache-2.0
"""How long a plan of many configurations takes: a model of 8B on eight devices, four numbers of sequence ranks, ZeRO 0 to 3, seven
memory policies, with and without tiled loss."""

SUMMARY = "plan: 224 configurations of a model of 8B, what each takes at one length and how long each can go (at most 20 s)"
REPEATS = 3
SPACE = ["--on", "H100-80", "--gpus", 8, "--sp", "1,2,4,8", "--dp", 1, "--zero", "0,1,2,3",
         "--save", "all,min-cut,sac,budget=0.25,budget=0.5,budget=0.75,budget=0.9"]
WANTS = {"table": ["--seq", 65536], "max-seq": []}


def run(bench):
    path = bench.model("big/llama3_8b.pt2")
    if not path:
        return
    rows, repeats = [], bench.repeats or REPEATS
    with bench.yardstick() as yardstick:
        for want, flags in WANTS.items():
            def measure():
                answer = bench.spscope("plan", path, *SPACE, "--want", want, *flags)
                return (answer["cpu_seconds"], answer) if answer else None

            measured = bench.against_yardstick(measure, repeats, yardstick)
            if not measured:
                continue
            cpu, ratio, answer = measured
            legal = sum(row["verdict"] != "illegal" for row in answer["rows"])
            bench.figure(f"8b/{want}/seconds", answer["seconds"], "s", compared=ratio, tolerance=1.25, limit=20)
            rows.append([want, answer["configurations"], legal, answer["compiles"], f"{answer['seconds']:.1f}", f"{cpu:.1f}", f"{1e3 * cpu / max(answer['compiles'], 1):.0f}"])
    if rows:
        bench.table(f"Llama 8B on 8 H100-80 (wall seconds: the last of {repeats})",
                    ["wanted", "configurations", "legal", "compiles", "seconds", "cpu seconds", "cpu ms a compile"], rows)
