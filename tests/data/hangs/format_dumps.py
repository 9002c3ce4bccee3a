#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps as NCCL's recorder writes them (format 2.10), of the ten ways to hang, and what torch's own analyser says of each.

  format_dumps.py OUT               writes OUT/SCENARIO/rank_N, pickled
  format_dumps.py --torch SPSCOPE   compares `SPSCOPE hang` with torch.distributed.flight_recorder; exits with 77 where
                                    torch's Python is not installed

There is no GPU where tests run, so these are written, not recorded: keys, order and values as the recorder's source and
its Gloo dumps (gloo/, recorded) have them."""

import json
import os
import pickle
import subprocess
import sys
import tempfile

RANKS = 4
SECOND = 10**9


class Rank:
    def __init__(self, rank):
        self.rank, self.entries, self.clock = rank, [], 1_790_000_000 * SECOND + rank * 1000
        self.seq, self.p2p = {"0": 0, "1": 0}, {"0": 0, "1": 0}

    def call(self, op, line, sizes=([8], [8]), dtype="Float", group="0", state="completed", wait=0):
        p2p = op.startswith(("send", "recv"))
        self.clock += SECOND // 1000 + wait
        (self.p2p if p2p else self.seq)[group] += 1
        done, begun = state == "completed", state != "scheduled"
        self.entries.append({
            "frames": [{"name": "all_reduce", "filename": "/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py", "line": 2810},
                       {"name": "train_step", "filename": "/srv/train/train.py", "line": line}],
            "record_id": len(self.entries), "pg_id": int(group), "process_group": (group, "default_pg" if group == "0" else "loss"),
            "collective_seq_id": self.seq[group], "p2p_seq_id": self.p2p[group], "op_id": len(self.entries) + 1,
            "profiling_name": "nccl:" + op, "time_created_ns": self.clock,
            "input_sizes": [sizes[0]], "input_dtypes": [dtype], "output_sizes": [sizes[1]], "output_dtypes": [dtype],
            "state": state, "time_discovered_started_ns": self.clock + 500 if begun else None,
            "time_discovered_completed_ns": self.clock + 900 if done else None, "retired": done, "timeout_ms": 600000, "is_p2p": p2p})

    def dump(self):
        config = {n: {"name": n, "desc": d, "ranks": "[0, 1, 2, 3]"} for n, d in (("0", "default_pg"), ("1", "loss"))}
        done = lambda g: max([e["collective_seq_id"] for e in self.entries if e["process_group"][0] == g and e["state"] == "completed" and not e["is_p2p"]], default=-1)
        status = {g: {"last_enqueued_collective": self.seq[g], "last_started_collective": self.seq[g], "last_completed_collective": done(g)} for g in ("0", "1")}
        return {"version": "2.10", "comm_lib_version": "2.27.5", "pg_config": config, "pg_status": status, "entries": self.entries}


def scenario(name):
    """{rank: dump} after three collectives that went well and the fault."""
    ranks = [Rank(r) for r in range(RANKS)]
    for r in ranks:
        r.call("all_reduce", 11)
        r.call("broadcast", 12)
        r.call("all_reduce", 13, group="1")
    for r in ranks:
        n, open_ = r.rank, {"state": "started"}
        if name == "missing_rank" and n != 2:
            r.call("all_reduce", 20, **open_)
        elif name == "wrong_order":
            for op, line in (("broadcast", 22), ("all_reduce", 21)) if n == 1 else (("all_reduce", 21), ("broadcast", 22)):
                r.call(op, line, state="started" if len(r.entries) == 3 else "scheduled")
        elif name == "wrong_size":
            r.call("all_reduce", 23, ([9], [9]) if n == 3 else ([8], [8]), **open_)
        elif name == "wrong_dtype":
            r.call("all_reduce", 24, dtype="Double" if n == 2 else "Float", **open_)
        elif name == "wrong_group":
            r.call("all_reduce", 25, group="1" if n == 1 else "0", **open_)
        elif name == "dead_rank":
            r.call("all_reduce", 26, **open_)
        elif name == "slow_rank":
            for _ in range(4):
                r.call("all_reduce", 27, wait=400_000_000 if n == 2 else 0)
            if n != 2:
                r.clock += 1_600_000_000
        elif name == "uneven_all_to_all":
            r.call("all_to_all", 28, ([9], [8]) if n == 1 else ([8], [8]), **open_)
        elif name == "double_collective":
            if n == 0:
                r.call("all_reduce", 29)
            r.call("all_reduce", 29, state="started" if n == 0 else "completed")
            r.call("broadcast", 30, ([3], [3]), state="scheduled" if n == 0 else "started")
        elif name == "send_without_recv":
            if n == 0:
                r.call("send 0->1", 31, **open_)
            r.call("all_reduce", 32, state="scheduled" if n == 0 else "started") if n > 1 else None
    return {r.rank: r.dump() for r in ranks if not (name == "dead_rank" and r.rank == 3)}


SCENARIOS = ("missing_rank", "wrong_order", "wrong_size", "wrong_dtype", "wrong_group", "dead_rank", "slow_rank",
             "uneven_all_to_all", "double_collective", "send_without_recv")


def write(out):
    for name in SCENARIOS:
        os.makedirs(os.path.join(out, name), exist_ok=True)
        for rank, dump in scenario(name).items():
            with open(os.path.join(out, name, f"rank_{rank}"), "wb") as file:
                pickle.dump(dump, file, protocol=2)


def torch_says(folder):
    """(kind, ranks) of the first collective that torch's analyser finds wrong; kind None where it gives no answer."""
    from torch.distributed.flight_recorder.components.builder import build_db
    from torch.distributed.flight_recorder.components.config_manager import JobConfig
    from torch.distributed.flight_recorder.components.loader import read_dir
    args = JobConfig().parse_args([folder, "--allow-incomplete-ranks"])
    details, version = read_dir(args)
    try:
        db = build_db(details, args, version)
    except Exception as e:  # its assertions, KeyErrors: no answer
        return None, repr(e)
    for c in db.collectives:
        if c.missing_ranks:
            return "missing", sorted(c.missing_ranks)
        if not c.pass_check and "all_to_all" in c.collective_name:
            return "splits", [c.collective_seq_id]  # torch names the rank that it happened to begin with: no answer who
        if not c.pass_check and c.mismatch_collectives:
            return "mismatch", sorted(c.mismatch_collectives)
    return None, "nothing wrong"


def compare(program):
    try:
        import torch.distributed.flight_recorder.components.builder  # noqa: F401
    except ImportError:
        print("torch's Python, with its flight recorder's analyser, is not installed")
        return 77
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        for name in SCENARIOS:
            kind, who = torch_says(os.path.join(folder, name))
            out = subprocess.run([program, "hang", os.path.join(folder, name), "--json", "-"], capture_output=True, text=True)
            ours = json.loads(out.stdout)["verdict"]
            # torch names what differs from the lowest rank: where that one is the odd one, all others.
            others = sorted(set(range(RANKS)) - set(ours["culprits"]))
            agrees = (kind is None or (kind == "missing" and set(ours["culprits"]) <= set(who)) or (kind == "mismatch" and who in (ours["culprits"], others))
                      or (kind == "splits" and (ours["code"], [ours["seq"]]) == ("collective-mismatch", who)))
            print(f"{name}: torch: {kind} {who}; here: {ours['code']} {ours['culprits']} ({ours['certainty']}) {'agrees' if agrees else 'DIFFERS'}")
            wrong += not agrees
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "--torch":
        sys.exit(compare(sys.argv[2]))
    write(sys.argv[1])
