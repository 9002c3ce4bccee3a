#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./run demo`: the whole chain on the Llama of resources/samples, on two Gloo ranks, told as a page of text.

  demo.py PROGRAM      PROGRAM is the built `spscope`

Everything shown is read from the program's own --json; each command is printed, so that it can be repeated by hand.
Exit code: 0 when the proof held, 1 when it did not, that of the command when one failed."""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "resources/samples"
MODEL = SAMPLES / "llama_gqa.pt2"
INPUTS = SAMPLES / "llama_gqa.inputs.safetensors"


class CommandFailed(Exception):
    """Holds the exit code that the demo passes on."""


def spscope(program, *arguments, may_say_no=False):
    """Runs one command and returns its JSON object; may_say_no: exit code 1 is an answer, not a failure."""
    shown = ["spscope", *arguments]
    print(f"\n$ {shlex.join(shown)}", flush=True)
    call = [program]
    for argument in arguments:
        relative = ROOT / argument
        call.append(str(relative) if argument.startswith("resources/") else argument)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        done = subprocess.run([*call, "--json", str(report)], capture_output=True, text=True)
        if done.returncode == 0 or (may_say_no and done.returncode == 1 and report.exists()):
            return json.loads(report.read_text())
    sys.stdout.flush()
    sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
    sys.stderr.write(f"demo: '{shlex.join(shown)}' ended with exit code {done.returncode}\n")
    raise CommandFailed(done.returncode if done.returncode > 0 else 4)


def mebibytes(count):
    return f"{count / 2**20:.1f} MiB"


def table(header, rows):
    """Aligned columns: the first to the left, the others to the right."""
    rows = [header, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "  ".join(cells).rstrip())


def show_stages(plan):
    rows = [
        [
            stage["name"],
            {True: "yes", False: "-", 0: "-"}.get(stage["changed"], str(stage["changed"])),
            f"{stage['nodes']}",
            f"{stage['seconds'] * 1e3:.1f} ms",
            mebibytes(stage["peak_bytes"]) if stage["peak_bytes"] else "-",
            mebibytes(stage["comm_bytes"]) if stage["comm_bytes"] else "-",
        ]
        for stage in plan["stages"]
    ]
    table(["stage", "changed", "nodes", "time", "predicted peak", "on the wire"], rows)
    print(
        f"  all-to-alls inserted: {plan['inserted_all_to_all']} of {plan['expected_all_to_all']} expected,"
        f" values gathered: {len(plan['gathers'])}; {plan['seconds'] * 1e3:.0f} ms in all"
    )


def show_proof(proof):
    worst = max(proof["parameters"], key=lambda row: row["rel"], default={"name": "-", "rel": 0.0})
    print(f"  loss, one rank      {proof['reference_loss']:.15g}")
    print(f"  loss, two ranks     {proof['loss']:.15g}   relative difference {proof['loss_rel']:.1e}")
    print(f"  gradients           {len(proof['parameters'])} parameters, worst {worst['rel']:.1e} ({worst['name']})")
    print(f"  verdict             {proof['verdict']}")
    if proof["verdict"] == "different" and proof.get("first_difference"):
        print(f"  first difference    {proof['first_difference']}")


def show_memory(runs):
    rows = []
    for name, run in runs:
        measured, predicted = max(run["peak_bytes"]), max(run["predicted_peak_bytes"])
        rows.append([name, mebibytes(predicted), mebibytes(measured), f"{predicted / measured - 1:+.1%}"])
    table(["peak memory of a step, per rank", "predicted", "measured", "off by"], rows)


def show_steps(run):
    rows = [
        [f"{step + 1}", f"{loss:.6f}", f"{seconds:.2f} s"]
        for step, (loss, seconds) in enumerate(zip(run["losses"], run["step_seconds"]))
    ]
    table(["step", "loss", "time"], rows)


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    start = time.monotonic()
    model = str(MODEL.relative_to(ROOT))
    inputs = ["--inputs", str(INPUTS.relative_to(ROOT))]

    print("A Llama with grouped-query attention (4 layers, 8 heads on 2 key/value heads), 4096 tokens, two Gloo ranks.")
    print("\n1. Compile: from the saved training graph to one rank's training step, pass by pass")
    show_stages(spscope(program, "compile", model, "--sp", "2"))

    print("\n2. Prove: loss and every parameter's gradient against the unsharded graph, in float64")
    verify = ["verify", model, "--sp", "2", "--ranks", "gloo", "--dtype", "float64", *inputs]
    proof = spscope(program, *verify, may_say_no=True)
    show_proof(proof)

    print("\n3. Memory: what sharding the sequence and sequence-aware checkpointing (SAC) save")
    step = ["run", model, *inputs, "--steps"]
    whole = spscope(program, *step, "1", "--sp", "1", "--save", "all")
    sharded = spscope(program, *step, "1", "--sp", "2", "--save", "all")
    trained = spscope(program, *step, "3", "--sp", "2", "--save", "sac", "--lr", "0.001")
    show_memory([("unsharded", whole), ("sharded on 2 ranks", sharded), ("sharded, SAC", trained)])

    print("\n4. Train: the three AdamW steps of that last run")
    show_steps(trained)

    held = proof["verdict"] == "equal"
    print(f"\nThe proof {'held' if held else 'did NOT hold'}. {time.monotonic() - start:.0f} s in all.")
    return 0 if held else 1


try:
    sys.exit(main())
except CommandFailed as failure:
    sys.exit(failure.args[0])
