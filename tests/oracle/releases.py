#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small saves by every release of PyTorch from 2.1 on, against what was there before they were saved.

The samples are testdata/releases. FSDP_PYTHONS may name further Pythons, with colons between: each writes such saves with
the PyTorch that it has, which are compared likewise."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

from oraclelib import Tap, arguments, envelope, run, same

SIZES = {"float32": 4, "int64": 8, "bfloat16": 2}


def places(shape, offsets, sizes, strides):
    """(place in the whole, place in the piece) of every element of a box."""
    out = [(0, 0)]
    for n, offset, size, stride in zip(shape, offsets, sizes, strides):
        out = [(at * n + offset + i, local + i * stride) for at, local in out for i in range(size)]
    return out


def dense(sizes):
    strides = [1] * len(sizes)
    for i in reversed(range(len(sizes) - 1)):
        strides[i] = strides[i + 1] * sizes[i + 1]
    return strides


def content(path, item):
    """The tensor put together of the named bytes; each element must be there."""
    width, shape, found = SIZES[item["dtype"]], item["shape"], {}
    for piece in item["pieces"]:
        sizes = shape if piece.get("sizes") is None else piece["sizes"]
        if 0 in sizes:
            continue
        with open(path if os.path.isfile(path) else os.path.join(path, piece["file"]), "rb") as stream:
            stream.seek(piece["offset"])
            data = stream.read(piece["length"])
        for at, local in places(shape, piece.get("offsets") or [0] * len(shape), sizes, piece.get("strides") or dense(sizes)):
            value = data[local * width:(local + 1) * width]
            if found.setdefault(at, value) != value:
                return "copies that differ"
    return hashlib.sha256(b"".join(found.get(i, b"") for i in range(item["bytes"] // width))).hexdigest()


def compare(args, path, truth):
    problems = []
    doc = envelope(run(args, "ls", "--json", path), problems)
    if doc is None:
        return problems
    same(problems, "names", sorted(t["name"] for t in doc["data"]["tensors"]), sorted(truth))
    same(problems, "findings", [f["message"] for f in doc.get("findings", ()) if f["severity"] != "note"], [])
    doc = envelope(run(args, "show", "--json", "--", path, *truth), problems)
    for item in doc["data"]["items"] if doc else ():
        dtype, shape, digest = truth[item["name"]]
        same(problems, item["name"], [item["dtype"], item["shape"], content(path, item)], [dtype, shape, digest])
    return problems


def check(args, tap, folder):
    with open(os.path.join(folder, "truth.json"), encoding="utf-8") as stream:
        truth = json.load(stream)
    for name, tensors in truth["saves"].items():
        tap.none(f"torch {truth['torch']}: {name}", compare(args, os.path.join(folder, name), tensors))


def main():
    args = arguments(__doc__)
    tap = Tap()
    for root in args.roots:
        releases = os.path.join(root, "releases")
        for name in sorted(os.listdir(releases)) if os.path.isdir(releases) else ():
            check(args, tap, os.path.join(releases, name))
    writer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "release_saves.py")
    for python in filter(None, os.environ.get("FSDP_PYTHONS", "").split(":")):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([python, writer, folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300,
                                  check=False)
            tap.none(f"{python} writes", [done.stderr.decode(errors="replace")[-400:]] if done.returncode else [])
            check(args, tap, folder)
    tap.done()


sys.exit(main())
