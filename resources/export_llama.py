#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes resources/samples/llama_gqa.pt2 and its inputs: the model of `./run demo`.

A byte-level Llama (transformers) with grouped-query attention: 4 layers, hidden 128, 8 heads on 2 key/value heads,
vocabulary 256, random weights from a fixed seed, sequence length dynamic with 4096 as the exported one. Its inputs are
the first 4096 bytes of the LICENSE; the first 1500 and a few later labels are masked out, so the two halves of the
sequence hold different numbers of valid labels, which is where naive sequence parallelism goes wrong.

  pip install torch transformers safetensors
  python resources/export_llama.py [FOLDER]"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from export_model import export

SEQUENCE = 4096
ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "resources/samples"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=131072,
        tie_word_embeddings=False,
    )
    program = export(LlamaForCausalLM(config), batch=1, sequence=SEQUENCE, max_sequence=131072)
    torch.export.save(program, folder / "llama_gqa.pt2")

    text = (ROOT / "LICENSE").read_bytes()[:SEQUENCE]
    ids = torch.tensor([list(text)], dtype=torch.int64)
    labels = ids.clone()
    labels[:, :1500] = -100
    labels[:, 3000:3100] = -100
    positions = torch.arange(SEQUENCE).unsqueeze(0)
    save_file(
        {"input_ids": ids, "labels": labels, "position_ids": positions}, folder / "llama_gqa.inputs.safetensors"
    )


main()
