#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A recorded conversation of an editor with `spscope debug --dap`, held against what the program says now.

  replay.py SPSCOPE CONVERSATION            sends what was sent, compares every message that comes back
  replay.py SPSCOPE CONVERSATION --record   sends what was sent, writes down what came back
  replay.py ... --schema                    exits with 77 where the published schema is not installed

A line is {"to": MESSAGE} or {"from": MESSAGE}, in the order of the conversation. In messages "<model>" stands for the sample's path,
"<any>" for what differs from machine to machine: paths of Python files. Numbers in texts are equal within 1e-6 of their size (the step
is computed in float64; kernels of other processors round otherwise in the last digits)."""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from client import Client, Failure

MODEL = str(pathlib.Path(__file__).resolve().parents[2] / "resources/samples/llama_gqa.pt2")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def concrete(value):
    if isinstance(value, dict):
        return {k: concrete(v) for k, v in value.items()}
    if isinstance(value, list):
        return [concrete(v) for v in value]
    return MODEL if value == "<model>" else value


def recorded(value, key=""):
    """What is kept of a message: without what differs elsewhere."""
    if isinstance(value, dict):
        return {k: recorded(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [recorded(v) for v in value]
    if value == MODEL:
        return "<model>"
    if key in ("path", "presentationHint", "origin") and isinstance(value, str) and (key == "path" or "not found here" in value or value == "deemphasize"):
        return "<any>"
    return value


def close(a, b):
    return abs(a - b) <= max(1e-9, 1e-6 * max(abs(a), abs(b)))


def same_text(a, b):
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    return all(close(float(x), float(y)) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)))


def difference(wanted, got, path=""):
    """Where two messages differ first; "" where nowhere."""
    if wanted == "<any>":
        return ""
    if isinstance(wanted, dict) and isinstance(got, dict):
        # A file that lies here as it lay where it was exported has no hint that it does not.
        free = {k for k, v in wanted.items() if v == "<any>"}
        if keys := (set(wanted) - free) ^ (set(got) - free):
            if keys - {"presentationHint", "origin"}:
                return f"{path}: {sorted(keys)} on one side only"
        return next((d for k in wanted if k in got and (d := difference(wanted[k], got[k], f"{path}.{k}"))), "")
    if isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            return f"{path}: {len(wanted)} entries were recorded, {len(got)} came"
        return next((d for i, (w, g) in enumerate(zip(wanted, got)) if (d := difference(w, g, f"{path}[{i}]"))), "")
    if isinstance(wanted, str) and isinstance(got, str):
        return "" if same_text(wanted, got) else f"{path}: {wanted!r} was recorded, {got!r} came"
    return "" if type(wanted) is type(got) and wanted == got else f"{path}: {wanted!r} was recorded, {got!r} came"


def replay(program, lines):
    compared = 0
    with Client(program) as client:
        for number, line in enumerate(lines, 1):
            if "to" in line:
                client.send_message(concrete(line["to"]))
                continue
            got = client.receive()
            if got is None:
                raise Failure(f"line {number}: the program ended")
            if wrong := difference(concrete(line["from"]), got):
                raise Failure(f"line {number}, {got.get('command') or got.get('event')}: {wrong}")
            compared += 1
        if client.receive() is not None:
            raise Failure("more came than was recorded")
        if code := client.process.wait(60):
            raise Failure(f"exit code {code}")
    return compared


def record(program, lines):
    """An answer ends what belongs to a request, but for what follows it at once: until the next request is sent nothing else comes."""
    out = []
    with Client(program) as client:
        for line in lines:
            if "to" not in line:
                continue
            out.append(line)
            client.send_message(concrete(line["to"]))
            command, done = line["to"]["command"], False
            last = {"launch": "initialized", "configurationDone": "stopped", "continue": "stopped", "next": "stopped", "stepIn": "stopped", "stepOut": "stopped", "stepBack": "stopped", "goto": "stopped",
                    "reverseContinue": "stopped", "terminate": "terminated"}.get(command)
            while not done:
                message = client.receive()
                out.append({"from": recorded(message)})
                done = message.get("event") == last if last else message["type"] == "response"
                if message["type"] == "response" and not message["success"]:
                    done = True
    return out


def main():
    program, file = sys.argv[1], pathlib.Path(sys.argv[2])
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if "--record" in sys.argv:
        lines = record(program, lines)
        file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        print(f"{len(lines)} lines")
        return 0
    import schema

    definitions, why = schema.find()
    if "--schema" in sys.argv and definitions is None:
        print(why)
        return 77
    try:
        compared = replay(program, lines)
    except Failure as wrong:
        print(wrong)
        return 1
    print(f"{compared} messages are as they were recorded" + (", all as the schema has them" if definitions else f"; {why}"))
    return 0


sys.exit(main())
