#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own partitioner keeps of an exported training graph: the figures in tests/numeric/policies_test.cpp.

    min_cut.py FILE.pt2 ...        needs a full torch; Inductor's decompositions, default settings

Bytes of the storages that the forward hands to the backward, each once, those of inputs and parameters not counted.
"""
import sys
import warnings

import torch
from functorch.compile import aot_module
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table

warnings.filterwarnings("ignore")


def kept(path):
    program = torch.export.load(path)
    found = {}

    def storages(nodes):
        values = [n.meta.get("val") for n in nodes]
        return {v.untyped_storage()._cdata: v.untyped_storage().nbytes() for v in values if isinstance(v, torch.Tensor)}

    def partition(joint, inputs, *, num_fwd_outputs, static_lifetime_input_nodes=None, **options):
        forward, backward = min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
        (output,) = [n for n in forward.graph.nodes if n.op == "output"]
        there = storages(n for n in forward.graph.nodes if n.op == "placeholder")
        saved = storages(output.args[0][num_fwd_outputs:])
        found["bytes"] = sum(size for key, size in saved.items() if key not in there)
        return forward, backward

    step = aot_module(program.module(), fw_compiler=lambda g, _: g, bw_compiler=lambda g, _: g, partition_fn=partition,
                      decompositions=select_decomp_table())
    args, kwargs = program.example_inputs
    step(*args, **(kwargs or {}))
    return found["bytes"]


for file in sys.argv[1:]:
    print(file, kept(file))
