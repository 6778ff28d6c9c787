#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Part K of N reads at most 1/N of the bytes, and one file or tensor more, besides what opening reads: counted by the
shim. Prints TAP.

shares.py SHIM BINARY
"""
import os
import sys
import tempfile

import run

SLACK = 4096  # headers of safetensors


def write_model(path, name, sizes):
    """A safetensors file with tensors of so many bytes."""
    entries, at = [], 0
    for i, size in enumerate(sizes):
        entries.append(f'"{name}.{i:02}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{at},{at + size}]}}')
        at += size
    header = ("{" + ",".join(entries) + "}").encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as out:
        out.write(len(header).to_bytes(8, "little") + header + bytes(at))


def make(folder):
    """Writes a model of three files: (bytes of the largest file, of the largest tensor, of all)."""
    sizes = [[300_000 + 7_000 * i for i in range(8)], [1_500_000], [40_000] * 20]
    for i, some in enumerate(sizes):
        write_model(os.path.join(folder, f"model-{i + 1:05}-of-{len(sizes):05}.safetensors"), f"layer{i}", some)
    return max(map(sum, sizes)), max(map(max, sizes)), sum(map(sum, sizes))


def main():
    shim, binary = map(os.path.abspath, sys.argv[1:3])
    number = failed = 0
    with tempfile.TemporaryDirectory(prefix="fsdp-shares-") as folder:
        largest_file, largest, whole = make(folder)
        opening = run.Run(shim, [binary, "hash", "--names", folder]).counts["read_bytes"]
        for words, one in ((["hash"], largest_file), (["hash", "--logical"], largest),
                          (["audit", "--data"], largest_file)):
            for parts in (1, 2, 3, 7):
                read = [run.Run(shim, [binary] + words + ["-j1", f"--part={k}/{parts}", folder]).counts["read_bytes"]
                        for k in range(1, parts + 1)]
                most = opening + whole / parts + one + SLACK
                number += 1
                good = max(read) <= most and sum(read) >= whole
                failed += not good
                print(f"{'ok' if good else 'not ok'} {number} - {' '.join(words)} in {parts} parts")
                if not good:
                    print(f"#   read {read}, opening {opening}, all {whole}, at most {most:.0f} each")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
