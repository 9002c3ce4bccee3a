# SPDX-License-Identifier: Apache-2.0
"""What others have measured of the memory of long contexts, beside what the planner says of the same model: docs/planning.md,
"Held against public measurements". Nothing is run; large exported graphs are compiled (zoo/big)."""

SUMMARY = "the planner beside public measurements: longest contexts and bytes a token, on devices that need not be there"
FULL = "layer-inputs"  # what ALST keeps
CLASSES = ("parameters", "gradients", "optimizer", "activations", "temporaries", "communication", "workspace")
LENGTHS = [2**n for n in range(15, 23)]  # where verdicts are counted


def plan(bench, file, device, gpus, *flags, **settings):
    """The rows of a plan; None, and said, where the model is missing or the command fails."""
    path = bench.model(f"big/{file}.pt2")
    if not path:
        return None
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    answer = bench.spscope("plan", path, "--on", device, "--gpus", gpus, *words, *flags)
    return answer["rows"] if answer else None


def longest(bench, file, device, gpus, *flags, **settings):
    rows = plan(bench, file, device, gpus, *flags, **settings)
    return (rows[0]["max_seq"], rows[0]["possible_seq"]) if rows else None


# Layers; bytes of embedding and head in 16 bits.
SIZES = {"llama3_3b": (28, 128256 * 3072 * 2), "llama3_8b": (32, 2 * 128256 * 4096 * 2), "llama2_13b": (40, 2 * 32000 * 5120 * 2)}


def alone(bench, file, device, ranks, *flags, save, lengths=(16384, 32768)):
    """ZeRO-3 without sequence ranks, a row of its own on each: modelled from the program of one rank, whose files have one row. A
    share of parameters, gradients and states is kept; gathered are two layers, embedding and head. Surely, perhaps. `lengths`: near
    the answer, so that the peak stands where it stands there."""
    points = []
    for seq in lengths:
        rows = plan(bench, file, device, 1, *flags, seq=seq, sp=1, zero=0, save=save, want="table")
        if not rows:
            return None
        points.append(rows[0])
    layers, outside = SIZES[file]
    found = []
    for end, gathered_layers, group in ((0, 2, 0.688e9), (1, 1, 0.544e9)):  # the bad end, the good one
        needs = []
        for row in points:
            kept = sum(row["classes"][c] for c in ("parameters", "gradients", "optimizer"))
            layer = (row["classes"]["parameters"] - outside) / layers
            gathered = gathered_layers * layer + (outside if end == 0 else 0)
            beyond = row["peak_bytes"] - row["compiled_peak_bytes"] if end == 0 else 0  # what the allocator cannot use
            needs.append(row["compiled_peak_bytes"] + beyond - kept + kept / ranks + gathered + group)
        slope = (needs[1] - needs[0]) / (lengths[1] - lengths[0])
        found.append(int((points[0]["room"][end] - needs[0]) / slope + lengths[0]))
    return tuple(found)


def k(tokens):
    return f"{tokens / 1e6:.2f}M" if tokens >= 1e6 else f"{tokens / 1e3:.0f}k"


def slope(bench):
    """ALST's recipes of Llama 8B on one GPU with nothing else: 71.91 GB at 32,000 tokens (H100-80), 137.36 at 65,000 (H200-141)."""
    peaks = []
    for seq in (32000, 64000):
        rows = plan(bench, "llama3_8b", "H200-141", 1, "--whole-loss", seq=seq, sp=1, save="sac", want="table", zero=0)
        if not rows:
            return
        peaks.append(rows[0]["compiled_peak_bytes"])
    ours = (peaks[1] - peaks[0]) / 32000
    low, high = (137.36 - 71.91) * 1e9 / 33000, (137.36 - 71.91) * 2**30 / 33000
    off = max(low / ours, ours / high, 1.0) - 1
    bench.figure("8b/bytes-a-token", ours, "bytes", compared=1 + off, tolerance=1.02)
    bench.figure("8b/bytes-a-token/off", off, "beyond the interval", compared=1 + off, tolerance=1.02, limit=0.1)
    bench.table("Llama 8B, one GPU: MB that a token takes more", ["", "MB"],
                [["ALST's recipes", f"{low / 1e6:.2f} to {high / 1e6:.2f}"], ["planner", f"{ours / 1e6:.2f}"]])


# ALST (arXiv 2506.13996, section 5.4, table 1): Llama 8B on 8 H100-80, one node. All rows: ZeRO-3, full checkpointing, the optimizer's
# states on the host, expandable segments. What, longest, seconds of a step there, sequence ranks, tiled loss, tiled MLPs, checkpoints on the host.
ALST = [
    ("baseline", 32e3, 17, 1, False, False, False),
    ("+ tiled loss", 160e3, 123, 1, True, False, False),
    ("+ Ulysses", 1.1e6, 564, 8, True, False, False),
    ("+ tiled MLPs", 1.2e6, 703, 8, True, True, False),
    ("offload instead", 2.4e6, 2610, 8, True, False, True),
    ("all of it", 3.7e6, 6455, 8, True, True, True),
]


def rung(rows, loss, mlp, offload):
    want = {"tile_loss": loss, "tile_mlp": mlp, "offload": offload, "offload_optimizer": True}
    return next(row for row in rows if all(row["config"][key] == value for key, value in want.items()))


def ladder(bench):
    """ALST's ablation, row by row: the order, how far off, and what a rank needs at the published length."""
    found = {}
    for sp in (1, 8):
        mesh = {"sp": sp, "dp": 8 // sp, "zero": 3, "save": FULL, "offload": "optimizer,all"}
        found[sp] = plan(bench, "llama3_8b", "H100-80", 8, "--tile-mlp", "--expandable-segments", **mesh)
        for what, published, seconds, _, loss, mlp, offload in [row for row in ALST if row[3] == sp]:
            at_length = plan(bench, "llama3_8b", "H100-80", 8, "--tile-mlp", "--expandable-segments", want="table", seq=int(published) // 1024 * 1024, **mesh)
            if not found[sp] or not at_length:
                return
            found[what] = rung(found[sp], loss, mlp, offload), rung(at_length, loss, mlp, offload)
    lengths, needs, last, rising, near, beyond = [], [], 0, True, 0, 0
    for what, published, seconds, *_ in ALST:
        row, there = found[what]
        surely, perhaps = row["max_seq"], max(row["max_seq"], row["possible_seq"])
        rising, last = rising and surely > last, surely
        off = min(max(published, surely), perhaps) / published - 1
        near += abs(off) <= 0.15
        beyond += surely > 1.15 * published
        bench.figure(f"ladder/{what.removeprefix('+ ')}", surely, "tokens", better="higher", tolerance=1.05)
        lengths.append([what, k(published), k(surely), k(perhaps) if perhaps > surely else "-", f"{off:+.0%}", f"{seconds:.0f} s",
                        "{:.0f} to {:.0f} s".format(*there["seconds_interval"])])
        classes = {name: size / 2**30 for name, size in there["classes"].items()}
        needs.append([what, *(f"{size / 2**30:.1f}" for size in (*there["interval"], there["peak_bytes"], there["compiled_peak_bytes"])),
                      *(f"{classes[name]:.1f}" for name in CLASSES), f"{there['host_interval'][0] / 2**30:.0f}", there["verdict"]])
    bench.figure("ladder/rising", 1.0 if rising else 0.0, "1: the published order", better="higher", limit=1.0)
    bench.figure("ladder/near", near, "of 6 rows within 15 % of the published length", better="higher", tolerance=1.0, limit=6.0)
    bench.figure("ladder/beyond", beyond, "rows that surely go 15 % further than anybody went", compared=1 + beyond, tolerance=1.0, limit=0.0)
    bench.table(f"Llama 8B on 8 H100-80 (ALST), --save {FULL}: longest context, and a step at the published one",
                ["step", "published", "surely", "perhaps", "off by", "a step there", "planned"], lengths)
    bench.table("The same: GiB of a rank at the published length; classes are those of the program without what is modelled",
                ["step", "needs", "to", "peak", "compiled", *CLASSES, "host, a node", "verdict"], needs)


def ratio(bench):
    """AutoSP's table 1, a model of 1B: with its memory policy 128k tokens where the same sharding with PyTorch's has 77k, by hand 81k."""
    rows = []
    for device, gpus in (("A100-40", 4), ("A100-80", 8)):
        pair = [longest(bench, "llama3_1b", device, gpus, "--whole-loss", sp=gpus, dp=1, zero=1, save=save) for save in ("min-cut", "sac")]
        if None in pair:
            return
        found = pair[1][0] / pair[0][0]
        off = max(1.58 / found, found / 1.66, 1.0) - 1
        bench.figure(f"1b/{device}/sac-to-min-cut", found, "times the tokens", compared=1 + off, tolerance=1.05)
        rows.append([f"{gpus} x {device}", k(pair[0][0]), k(pair[1][0]), f"{found:.2f}", "1.58 to 1.66", f"{off:.0%}"])
    bench.table("A model of 1B: tokens with sac against min-cut (AutoSP, table 1; its devices are not stated)",
                ["planned on", "min-cut", "sac", "ratio", "published", "beyond it by"], rows)


def paper(bench):
    """AutoSP on 8 A100-80: how many times longer than ZeRO-3, Ulysses by hand and ring attention. Whether their ZeRO-3 makes
    activations again is not said; it is planned so here."""
    published = {"llama3_3b": ("5.0", "2.14", "2.14"), "llama3_8b": ("5.6", "3.0", "3.0"), "llama2_13b": ("2.5", "1.88", "1.6")}
    rows = []
    for file, (zero3, ulysses, ring) in published.items():
        ours = longest(bench, file, "A100-80", 8, "--whole-loss", sp=8, dp=1, zero=1, save="sac")
        hand = longest(bench, file, "A100-80", 8, "--whole-loss", sp=8, dp=1, zero=1, save="min-cut")
        zero = alone(bench, file, "A100-80", 8, "--whole-loss", save="sac")
        others = plan(bench, file, "A100-80", 8, "--whole-loss", "--rivals", zero=1, offload="none")
        if None in (ours, hand, zero, others):
            continue
        rings = next((row["max_seq"], row["possible_seq"]) for row in others if row["config"].get("rival") == "ring")

        def times(other):
            return f"{ours[0] / other[0]:.2f}" if other[0] else "-"

        bench.figure(f"paper/{file}/longer-than-by-hand", ours[0] / max(hand[0], 1), "times", better="higher", limit=1.0, tolerance=1.05)
        if zero[0]:
            bench.figure(f"paper/{file}/longer-than-zero-3", ours[0] / zero[0], "times", better="higher", limit=1.0, tolerance=1.05)
        rows.append([file, k(ours[0]), k(hand[0]), k(zero[0]), zero3, times(zero), ulysses, times(hand), ring, f"{k(rings[0])} to {k(max(rings))}", times(rings)])
    if rows:
        bench.table("8 A100-80: AutoSP's longest context, and how many times that of others",
                    ["model", "autosp", "by hand", "zero 3", "paper: zero 3", "planned", "paper: Ulysses", "planned", "paper: ring", "planned ring", "planned"], rows)


def uncertain(bench):
    """How often there is no verdict: all policies of 8B on 8 H100-80 at doubling lengths."""
    rows = plan(bench, "llama3_8b", "H100-80", 8, sp=8, zero="1,3")
    if not rows:
        return
    verdicts = [("fits" if n <= row["max_seq"] else "uncertain" if n <= row["possible_seq"] else "does not fit")
                for row in rows if row["verdict"] != "illegal" for n in LENGTHS]
    share = verdicts.count("uncertain") / len(verdicts)
    bench.figure("uncertain", share, "of all verdicts", compared=1 + share, tolerance=1.05, limit=0.1)
    bench.table("Llama 8B on 8 H100-80, %d configurations at 32k to 4M tokens" % (len(verdicts) // len(LENGTHS)), ["fits", "uncertain", "does not fit"],
                [[verdicts.count(v) for v in ("fits", "uncertain", "does not fit")]])


def run(bench):
    for part in (slope, ladder, ratio, paper, uncertain):
        part(bench)
