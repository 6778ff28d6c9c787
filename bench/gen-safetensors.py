#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a safetensors file of any number of tensors; the elements are a hole.

    bench/gen-safetensors.py OUT --tensors=N [--shards=M]

The same arguments give the same bytes: compact JSON, tensors in the order of their bytes,
the header padded with blanks to whole eights. With --shards OUT is a folder of so many
files and their index, as Hugging Face's libraries write it.
"""
import argparse
import os
import struct

BLOCK = ("attention.query", "attention.key", "attention.value", "attention.output", "norm_1",
         "feed.in", "feed.gate", "feed.out", "norm_2")
ROWS, COLUMNS = 512, 1024
SIZE = ROWS * COLUMNS * 2


def name_of(i):
    return f"model.layers.{i // len(BLOCK)}.{BLOCK[i % len(BLOCK)]}.weight"


def write_file(path, numbers):
    parts = ['{"__metadata__":{"format":"pt"}']
    for at, i in enumerate(numbers):
        parts.append(f',"{name_of(i)}":{{"dtype":"BF16","shape":[{ROWS},{COLUMNS}],'
                     f'"data_offsets":[{at * SIZE},{(at + 1) * SIZE}]}}')
    header = ("".join(parts) + "}").encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header)
        f.truncate(8 + len(header) + len(numbers) * SIZE)


def write_folder(folder, tensors, shards):
    os.makedirs(folder)
    lines = []
    for shard in range(shards):
        numbers = range(shard * tensors // shards, (shard + 1) * tensors // shards)
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        write_file(os.path.join(folder, file), numbers)
        lines += [f'    "{name_of(i)}": "{file}"' for i in numbers]
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="ascii") as f:
        f.write('{\n  "metadata": {\n    "total_size": %d\n  },\n  "weight_map": {\n' % (tensors * SIZE))
        f.write(",\n".join(lines) + "\n  }\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--tensors", type=int, required=True)
    parser.add_argument("--shards", type=int)
    args = parser.parse_args()
    if args.shards:
        write_folder(args.out, args.tensors, args.shards)
    else:
        write_file(args.out, range(args.tensors))


main()
