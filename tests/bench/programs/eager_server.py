# SPDX-License-Identifier: Apache-2.0
"""PyTorch eager as a server for the bench "step": loads MODEL, then for each line "step" runs forward and backward on INPUTS and
answers "<nanoseconds> <loss> <norm of all gradients> <nanoseconds of CPU time>". Its C++ counterpart with the same protocol is step_server.cpp.

  eager_server.py MODEL.pt2 INPUTS.safetensors     integers only (I64)"""

import json
import struct
import sys
import time

import torch


def read_integers(path):
    """The I64 tensors of a safetensors file, without the package of that name."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    inputs = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "I64", name
        inputs[name] = torch.frombuffer(data, dtype=torch.int64, offset=begin, count=(end - begin) // 8)
        inputs[name] = inputs[name].clone().reshape(entry["shape"])
    return inputs


torch.set_num_threads(1)
module = torch.export.load(sys.argv[1]).module()
inputs = read_integers(sys.argv[2])

print("ready", flush=True)
for line in sys.stdin:
    module.zero_grad(set_to_none=True)
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    loss = module(**inputs)
    loss.backward()
    taken, cpu = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    squares = sum(p.grad.double().square().sum().item() for p in module.parameters() if p.grad is not None)
    print(taken, loss.item(), squares**0.5, cpu, flush=True)
