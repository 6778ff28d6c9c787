#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rank files as one checkpoint: every shard's place and box, and the bytes there put together.

Runs of flattened parameters (LOCAL state dicts with use_orig_params) have the shape of their flattened form here; of
them only places and order are compared."""
import hashlib
import itertools
import os

from oraclelib import Tap, arguments, envelope, run, told_cases

KINDS = {"fsdp1-sharded", "fsdp1-local", "fsdp2-ranks"}
SIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "uint8": 1, "bool": 1}


def spans(shape, offsets, sizes):
    """(global position, position in the piece, elements) of each row of a box, C order."""
    if not shape:
        yield 0, 0, 1
        return
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    local = 0
    for row in itertools.product(*(range(n) for n in sizes[:-1])):
        at = sum((o + r) * s for o, r, s in zip(offsets, row, strides)) + offsets[-1]
        yield at, local, sizes[-1]
        local += sizes[-1]


def assemble(folder, truth, rows):
    width = SIZES[truth["dtype"]]
    out = bytearray(truth["numel"] * width)
    for r in rows:
        sizes = r["sizes"] if r["sizes"] is not None else truth["shape"]
        offsets = r["offsets"] if r["offsets"] is not None else [0] * len(sizes)
        if 0 in sizes:
            continue
        with open(os.path.join(folder, r["file"]), "rb") as f:
            f.seek(r["offset"])
            data = f.read(r["length"])
        strides = r.get("strides")
        for at, local, n in spans(truth["shape"], offsets, sizes):
            if strides and sizes:
                index, rest = [], local
                for s in reversed(sizes):
                    index.append(rest % s)
                    rest //= s
                local = sum(i * s for i, s in zip(reversed(index), strides))
            out[at * width:(at + n) * width] = data[local * width:(local + n) * width]
    return hashlib.sha256(out).hexdigest()


def compare(problems, folder, truth, rows):
    name = truth["clean_fqn"]
    if not rows:
        problems.append(f"{name}: not listed")
        return
    run_of_flat = bool(truth.get("stored"))
    if not run_of_flat and (rows[0]["shape"] != truth["shape"] or rows[0]["dtype"] != truth["dtype"]):
        problems.append(f"{name}: {rows[0]['dtype']} {rows[0]['shape']}, expected {truth['dtype']} {truth['shape']}")
        return

    def place(file, offset, length):
        return file, offset if length else 0, length

    found = sorted(place(r["file"], r["offset"], r["length"]) for r in rows)
    expected = sorted(place(c["file"], c["file_offset"], c["file_length"]) for c in truth["chunks"])
    if found != expected:
        problems.append(f"{name}: places {found}, expected {expected}")
    if run_of_flat:
        return
    whole = [0] * len(truth["shape"])
    boxes = sorted((r["file"], tuple(r["offsets"] or whole), tuple(truth["shape"] if r["sizes"] is None else r["sizes"]))
                   for r in rows)
    if boxes != sorted((c["file"], tuple(c["offsets"]), tuple(c["sizes"])) for c in truth["chunks"]):
        problems.append(f"{name}: boxes {boxes}")
    elif truth.get("sha256") and assemble(folder, truth, rows) != truth["sha256"]:
        problems.append(f"{name}: the bytes put together have another digest")


def main():
    args = arguments(__doc__)
    tap = Tap()
    for case, truth in told_cases(args):
        if truth.get("kind") not in KINDS:
            continue
        folder = os.path.join(case.folder, "checkpoint")
        problems = []
        doc = envelope(run(args, "ls", "-l", "--json", folder), problems)
        if doc is not None:
            rows = {}
            for r in doc["data"]["pieces"]:
                rows.setdefault(r["name"], []).append(r)
            for t in truth["tensors"]:
                compare(problems, folder, t, rows.pop(t["clean_fqn"], None))
            problems += [f"{name}: not in the truth" for name in rows]
        info = envelope(run(args, "info", "--json", folder), problems)
        if info is not None and info["data"].get("world_size") != truth["world_size"]:
            problems.append(f"world size {info['data'].get('world_size')}, expected {truth['world_size']}")
        tap.none(case.name, problems)
    tap.done()


main()
