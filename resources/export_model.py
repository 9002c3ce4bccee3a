#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a causal language model of transformers as a training graph that SPScope opens.

  pip install torch transformers
  python resources/export_model.py meta-llama/Llama-3.2-1B model.pt2 --sequence 8192
  python resources/export_model.py FOLDER model.pt2 --sequence 131072 --no-weights --dtype bfloat16

MODEL is a name or a folder that transformers' AutoModelForCausalLM takes. With --no-weights only its config is read, the
model is built on the meta device and the file holds the graph alone (a few MB for any size): enough for `inspect` and
`compile`; `run --seed-weights K` fills it with random weights.

Three things make the graph what SPScope wants; for a model of your own, do the same around `torch.export.export`:
  1. forward returns the scalar loss alone (class Loss), so the file is a training step and not an inference;
  2. attention without a mask tensor (maskless): transformers' SDPA carries a [batch, 1, S, S] mask, which is 17 GB at
     S = 131072. An attention registered under a new name has no mask function, so the graph says is_causal=True.
     Not for padded or packed batches, nor for sliding windows: leave it out there, SPScope keeps those masks as they
     are (right, but whole on every rank).
  3. never call run_decompositions() on the result: with its default table it takes attention apart.
Position ids are an input, so that nothing in the graph has to guess where a shard begins."""

import argparse

import torch
from torch.export import Dim


class Loss(torch.nn.Module):
    """The model as a function from token ids to its scalar loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels, position_ids):
        return self.model(input_ids=input_ids, labels=labels, position_ids=position_ids, use_cache=False).loss


def maskless(model):
    """Makes the model's attention causal by a flag instead of by a mask tensor."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    AttentionInterface.register("sdpa_causal", sdpa_attention_forward)
    model.config._attn_implementation = "sdpa_causal"
    return model


def export(model, batch, sequence, max_sequence=None):
    """The training graph of a causal language model: static in the batch; in the sequence too, unless max_sequence."""
    device = next(model.parameters()).device
    # Three tensors, not one used twice: for `labels=input_ids` export keeps a single input and drops the other.
    inputs = {
        "input_ids": torch.zeros(batch, sequence, dtype=torch.int64, device=device),
        "labels": torch.zeros(batch, sequence, dtype=torch.int64, device=device),
        "position_ids": torch.arange(sequence, device=device).expand(batch, sequence).clone(),
    }
    shapes = None
    if max_sequence:
        length = Dim("s", min=8, max=max_sequence)
        shapes = {name: {1: length} for name in inputs}
    return torch.export.export(Loss(maskless(model)).train(), (), inputs, dynamic_shapes=shapes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("output", metavar="OUT.pt2")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--max-sequence", type=int, help="export with a dynamic sequence length of at most this")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--no-weights", action="store_true")
    args = parser.parse_args()

    from transformers import AutoConfig, AutoModelForCausalLM

    dtype = getattr(torch, args.dtype)
    if args.no_weights:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(args.model), dtype=dtype)
    else:
        model = AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype)
    torch.export.save(export(model, args.batch, args.sequence, args.max_sequence), args.output)
    print(f"{args.output}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, S = {args.sequence}")


if __name__ == "__main__":
    main()
