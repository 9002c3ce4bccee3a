#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the Flight Recorder dumps beside this file: ways to hang, as real runs of four ranks over Gloo (nine: its recorder
leaves sends and recvs out).

  make_dumps.py OUT [SCENARIO]    needs PyTorch's Python (2.12 or newer: earlier recorders know NCCL only)

Every rank issues its collectives without waiting for the faulty one, sleeps, and dumps itself as torch's watchdog would:
OUT/SCENARIO/rank_N (pickled) and OUT/SCENARIO.json/rank_N.json. What folder the interpreter lies in is replaced by one of
the same length, so that a dump names no machine and stays byte for byte what the recorder's pickler writes otherwise."""

import os
import socket
import sys
import time

import torch
import torch.distributed as dist

RANKS = 4
WORK = []  # kept: a work that is destroyed may wait


def step(x):
    """What every rank does rightly before the fault."""
    dist.all_reduce(x)
    dist.broadcast(x, 0)


def later(work):
    WORK.append(work)


def missing_rank(rank, group, x):
    if rank != 2:
        later(dist.all_reduce(x, async_op=True))


def wrong_order(rank, group, x):
    if rank == 1:
        later(dist.broadcast(x, 0, async_op=True))
        later(dist.all_reduce(x, async_op=True))
    else:
        later(dist.all_reduce(x, async_op=True))
        later(dist.broadcast(x, 0, async_op=True))


def wrong_size(rank, group, x):
    later(dist.all_reduce(torch.ones(9 if rank == 3 else 8), async_op=True))


def wrong_dtype(rank, group, x):
    later(dist.all_reduce(torch.ones(8, dtype=torch.float64 if rank == 2 else torch.float32), async_op=True))


def wrong_group(rank, group, x):
    later(dist.all_reduce(x, group=group if rank == 1 else None, async_op=True))


def dead_rank(rank, group, x):
    if rank == 3:
        os._exit(1)
    later(dist.all_reduce(x, async_op=True))


def slow_rank(rank, group, x):
    for _ in range(4):
        if rank == 2:
            time.sleep(0.4)
        dist.all_reduce(x)


def uneven_all_to_all(rank, group, x):
    sent = [2, 2, 2, 2] if rank != 1 else [2, 2, 3, 2]  # rank 2 expects 2 of rank 1
    later(dist.all_to_all_single(torch.empty(8), torch.ones(sum(sent)), [2, 2, 2, 2], sent, async_op=True))


def double_collective(rank, group, x):
    if rank == 0:
        later(dist.all_reduce(x, async_op=True))
        later(dist.all_reduce(x, async_op=True))
    else:
        later(dist.all_reduce(x, async_op=True))
    later(dist.broadcast(torch.ones(3), 0, async_op=True))


SCENARIOS = (missing_rank, wrong_order, wrong_size, wrong_dtype, wrong_group, dead_rank, slow_rank, uneven_all_to_all,
             double_collective)


def main(rank, scenario, out, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCH_FR_BUFFER_SIZE="2000")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    group = dist.new_group([0, 1, 2, 3], group_desc="loss")
    x = torch.ones(8)
    step(x)
    dist.all_reduce(x, group=group)
    scenario(rank, group, x)
    time.sleep(1.0)
    c10d = torch._C._distributed_c10d
    def swap(text):
        for here in {sys.prefix, sys.base_prefix}:
            text = text.replace(here.encode(), ("/opt/python" + "-" * len(here))[:len(here)].encode())
        return text

    for folder, name, dump in ((scenario.__name__, f"rank_{rank}", c10d._dump_fr_trace()),
                               (scenario.__name__ + ".json", f"rank_{rank}.json", c10d._dump_fr_trace_json())):
        os.makedirs(os.path.join(out, folder), exist_ok=True)
        with open(os.path.join(out, folder, name), "wb") as file:
            file.write(swap(dump if isinstance(dump, bytes) else dump.encode()))
    time.sleep(1.0)  # who leaves early makes the others' ops fail
    os._exit(0)


if __name__ == "__main__":
    out = sys.argv[1]
    for scenario in SCENARIOS:
        if len(sys.argv) > 2 and scenario.__name__ != sys.argv[2]:
            continue
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        children = []
        for rank in range(RANKS):
            pid = os.fork()
            if pid == 0:
                try:
                    main(rank, scenario, out, port)
                finally:
                    os._exit(2)
            children.append(pid)
        print(scenario.__name__, [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children], flush=True)
