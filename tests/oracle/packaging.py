#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same bytes in another wrapping give the same answer.

A file under a meaningless name, inside archives, on standard input, in the middle of a
larger file; a folder inside archives. Only paths, and what a wrapping cannot know, differ.
"""
import io
import os
import shutil
import tarfile
import tempfile

from oraclelib import Tap, arguments, envelope, first_case, run

SINGLE = ["torch-zip/views", "torch-zip/nested-checkpoint", "torch-zip/odd-shapes",
          "torch-zip/state-dict", "torch-zip/protocol-4", "torch-zip/sparse"]
FOLDERS = ["dcp/fsdp2-w4-small", "dcp/fsdp2-w2", "dcp/scalars", "dcp/no-collectives"]
AHEAD = 4096


# A wrapping may change these.
PATHS = ("file", "member", "path")


def without_paths(value):
    if isinstance(value, dict):
        return {k: without_paths(v) for k, v in value.items() if k not in PATHS}
    if isinstance(value, list):
        return [without_paths(v) for v in value]
    return value


def difference(a, b, where="data"):
    if type(a) is not type(b):
        return f"{where}: {a!r} and {b!r}"
    if isinstance(a, dict):
        if list(a) != list(b):
            return f"{where}: keys {sorted(set(a) ^ set(b))}"
        return next((d for k in a if (d := difference(a[k], b[k], f"{where}.{k}"))), None)
    if isinstance(a, list):
        if len(a) != len(b):
            return f"{where}: {len(a)} and {len(b)} entries"
        return next((d for i, (x, y) in enumerate(zip(a, b)) if (d := difference(x, y, f"{where}[{i}]"))), None)
    return None if a == b else f"{where}: {a!r} and {b!r}"


def compare(tap, args, name, expected, *words, stdin=None, cwd=None):
    problems = []
    doc = envelope(run(args, "ls", "-l", "--json", *words, stdin=stdin, cwd=cwd), problems)
    if doc is not None:
        found = difference(without_paths(expected), without_paths(doc["data"]))
        if found:
            problems.append(found)
        rules = [f["rule"] for f in doc["findings"] if f["severity"] == "error"]
        if rules:
            problems.append(f"errors found: {rules}")
    tap.none(name, problems)


def archive(path, mode, members, **options):
    with tarfile.open(path, mode, **options) as tar:
        for name, source in members:
            tar.add(source, name)


def single(tap, args, name, folder):
    case = first_case(args, [name])
    if case is None:
        return
    source = os.path.abspath(case.checkpoint(case.load("truth.json")))
    problems = []
    doc = envelope(run(args, "ls", "-l", "--json", source), problems)
    if doc is None:
        tap.none(f"{name}: as it is", problems)
        return
    expected = doc["data"]

    plain = os.path.join(folder, "8c1f03")
    shutil.copyfile(source, plain)
    compare(tap, args, f"{name}: no extension", expected, plain)
    with open(source, "rb") as f:
        data = f.read()
    compare(tap, args, f"{name}: standard input", expected, "-", stdin=data)
    inside = os.path.join(folder, "inside.bin")
    with open(inside, "wb") as f:
        f.write(bytes(i * 37 % 251 for i in range(AHEAD)) + data + b"\xa5" * 1000)
    compare(tap, args, f"{name}: in the middle of a file", expected,
            f"--range={AHEAD}:{len(data)}", inside)
    for ending, mode in (("tar", "w"), ("tar.gz", "w:gz"), ("tar.xz", "w:xz")):
        path = os.path.join(folder, "a." + ending)
        archive(path, mode, [(os.path.basename(source), source)])
        compare(tap, args, f"{name}: inside .{ending}", expected, path)
        other = os.path.join(folder, "packed-" + ending.replace(".", "-"))
        os.rename(path, other)
        compare(tap, args, f"{name}: inside .{ending}, without its extension", expected, other)
    path = os.path.join(folder, "deep.tar.gz")
    archive(path, "w:gz", [("a/b/model.pt", source)])
    compare(tap, args, f"{name}: below folders in an archive", expected, path)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(source, "model.pt")
    compare(tap, args, f"{name}: archive on standard input", expected, "-", stdin=packed.getvalue())


def several(tap, args, name, folder):
    case = first_case(args, [name])
    if case is None:
        return
    source = os.path.abspath(case.checkpoint())
    problems = []
    doc = envelope(run(args, "ls", "-l", "--json", source), problems)
    if doc is None:
        tap.none(f"{name}: as it is", problems)
        return
    expected = doc["data"]
    moved = os.path.join(folder, "8c1f03")
    shutil.copytree(source, moved)
    compare(tap, args, f"{name}: another name", expected, moved)
    compare(tap, args, f"{name}: the working folder", expected, ".", cwd=moved)
    metadata = os.path.join(moved, ".metadata")
    if os.path.exists(metadata):
        compare(tap, args, f"{name}: its .metadata", expected, metadata)
    for ending, mode in (("tar", "w"), ("tar.gz", "w:gz"), ("tar.xz", "w:xz")):
        path = os.path.join(folder, "a." + ending)
        archive(path, mode, [("step-10", source)])
        compare(tap, args, f"{name}: inside .{ending}", expected, path)
    path = os.path.join(folder, "flat.tar.gz")
    archive(path, "w:gz", [(n, os.path.join(source, n)) for n in sorted(os.listdir(source), reverse=True)])
    compare(tap, args, f"{name}: files at the top, in another order", expected, path)


def main():
    args = arguments(__doc__)
    tap = Tap()
    for names, work in ((SINGLE, single), (FOLDERS, several)):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                work(tap, args, name, folder)
    tap.done()


main()
