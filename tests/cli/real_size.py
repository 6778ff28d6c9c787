# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of the size that people have, for the pages: an 8 B parameter transformer saved by
torch.distributed.checkpoint over 8 ranks as safetensors. Its files are headers and holes: 15 GiB to
read, and some KiB on the disk."""

import json
import os
import struct

RANKS = 8
LAYERS, WIDTH, HIDDEN, KEYS, WORDS = 32, 4096, 14336, 1024, 128256


def shapes():
    yield "model.embed_tokens.weight", (WORDS, WIDTH)
    for layer in range(LAYERS):
        here = f"model.layers.{layer}."
        yield here + "input_layernorm.weight", (WIDTH,)
        for name, rows in (("q", WIDTH), ("k", KEYS), ("v", KEYS), ("o", WIDTH)):
            yield f"{here}self_attn.{name}_proj.weight", (rows, WIDTH)
        yield here + "post_attention_layernorm.weight", (WIDTH,)
        yield here + "mlp.gate_proj.weight", (HIDDEN, WIDTH)
        yield here + "mlp.up_proj.weight", (HIDDEN, WIDTH)
        yield here + "mlp.down_proj.weight", (WIDTH, HIDDEN)
    yield "model.norm.weight", (WIDTH,)
    yield "lm_head.weight", (WORDS, WIDTH)


def header_of(rank):
    """The header of a rank's file, and how many bytes of tensors follow it."""
    tensors, offsets, at = {}, {}, 0
    for name, shape in shapes():
        rows = shape[0] // RANKS
        here = (rows, *shape[1:])
        size = 2
        for extent in here:
            size *= extent
        tensors[name] = {"dtype": "BF16", "shape": list(here), "data_offsets": [at, at + size]}
        offsets[name] = {"saved_offsets": [rank * rows] + [0] * (len(shape) - 1)}
        at += size
    about = {"DCP_SHARDING_INFO": json.dumps(offsets), "DCP_VERSION": "1.0", "format": "pt"}
    return json.dumps({"__metadata__": about, **tensors}).encode(), at


def make(folder):
    os.makedirs(folder)
    for rank in range(RANKS):
        header, size = header_of(rank)
        path = os.path.join(folder, f"shard-{rank + 1:05}-model-00001-of-00001.safetensors")
        with open(path, "wb") as stream:
            stream.write(struct.pack("<Q", len(header)) + header)
            stream.truncate(8 + len(header) + size)
