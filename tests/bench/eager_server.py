# SPDX-License-Identifier: Apache-2.0
"""PyTorch eager as a server for bench.py: loads MODEL, then for each line "step" runs forward and backward on INPUTS and
answers "<nanoseconds> <loss>". Its C++ counterpart with the same protocol is step_server.cpp.

  eager_server.py MODEL.pt2 INPUTS.json     INPUTS: {name: rows of integers}"""

import json
import sys
import time

import torch

torch.set_num_threads(1)
module = torch.export.load(sys.argv[1]).module()
with open(sys.argv[2]) as file:
    inputs = {name: torch.tensor(rows, dtype=torch.int64) for name, rows in json.load(file).items()}

print("ready", flush=True)
for line in sys.stdin:
    module.zero_grad(set_to_none=True)
    begin = time.perf_counter_ns()
    loss = module(**inputs)
    loss.backward()
    taken = time.perf_counter_ns() - begin
    print(taken, loss.item(), flush=True)
