#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a safetensors file of any number of tensors; the elements are a hole.

    bench/gen-safetensors.py OUT --tensors=N

The same arguments give the same bytes: compact JSON, tensors in the order of their bytes,
the header padded with blanks to whole eights.
"""
import argparse
import struct

BLOCK = ("attention.query", "attention.key", "attention.value", "attention.output", "norm_1",
         "feed.in", "feed.gate", "feed.out", "norm_2")
ROWS, COLUMNS = 512, 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--tensors", type=int, required=True)
    args = parser.parse_args()
    size = ROWS * COLUMNS * 2
    parts = ['{"__metadata__":{"format":"pt"}']
    for i in range(args.tensors):
        name = f"model.layers.{i // len(BLOCK)}.{BLOCK[i % len(BLOCK)]}.weight"
        parts.append(f',"{name}":{{"dtype":"BF16","shape":[{ROWS},{COLUMNS}],'
                     f'"data_offsets":[{i * size},{(i + 1) * size}]}}')
    header = ("".join(parts) + "}").encode()
    header += b" " * (-len(header) % 8)
    with open(args.out, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header)
        f.truncate(8 + len(header) + args.tensors * size)


main()
