#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pickles taken out of torch.save files: alone, as shards, as rank files, and beside a sound file.

Every one ends in order, tells the tensors of the file that it was taken from, and no tensor of it has a place in any
file. Without --all only some are tried."""
import hashlib
import io
import json
import os
import pickletools
import shutil
import tempfile
import zipfile

from oraclelib import Tap, arguments, in_parallel, run

SAMPLE = 24
GROUP = 16
END = b"PK\x05\x06"


def zips_of(data):
    """Begin and end of the zips that lie one behind the other in a file: a DCP data file has one an item."""
    begin = 0
    while (end := data.find(END, begin)) >= 0 and data[begin:begin + 4] == b"PK\x03\x04":
        yield begin, end + 22
        begin = end + 22


def pickles_of(path):
    """(name, pickle, begin and end of its zip) of each member that is a pickle."""
    with open(path, "rb") as f:
        if f.read(4) != b"PK\x03\x04":
            return
        f.seek(0)
        data = f.read()
    for begin, end in zips_of(data):
        try:
            with zipfile.ZipFile(io.BytesIO(data[begin:end])) as z:
                for info in z.infolist():
                    if info.filename.endswith(".pkl") and info.file_size < 1 << 22:
                        yield info.filename, z.read(info), (begin, end)
        except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, KeyError, zipfile.zlib.error):
            continue


def digest(data, name):
    """Of two pickles that differ in names and numbers only one is tried, unless they were made to deceive."""
    if not name.startswith(("hostile", "attack")):
        try:
            data = repr([(op.name, arg if op.name in ("GLOBAL", "INST") else None)
                         for op, arg, _ in pickletools.genops(data)]).encode()
        except (ValueError, IndexError, KeyError, OverflowError):
            pass
    return hashlib.sha256(data).hexdigest()


def collect(args):
    """Each kind of pickle once."""
    found = {}
    for root in args.roots:
        for folder, below, files in os.walk(root):
            below[:] = sorted(d for d in below if d not in ("expected", "traces"))
            for name in sorted(files):
                path = os.path.join(folder, name)
                if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > 1 << 26:
                    continue
                for member, data, place in pickles_of(path):
                    shown = os.path.relpath(path, root)
                    found.setdefault(digest(data, shown), (shown, member, data, path, place))
    return [found[key] for key in sorted(found)]


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def ask(args, problems, *words):
    """The document of an orderly end, if there is one."""
    done = run(args, *words, timeout=120, cpu=60)
    if done.crash:
        problems.append(done.crash)
        return None
    try:
        doc = done.json() if done.out else None
    except ValueError as e:
        problems.append(f"{done.words}: stdout is no JSON: {e}")
        return None
    if doc is None and done.status in (0, 1):
        problems.append(f"{done.words}: exit status {done.status} and no document")
    if doc is not None and any(e.get("code") == "internal" for e in doc.get("errors") or []):
        problems.append(f"{done.words}: {doc['errors']}")
    return doc


def rows_of(args, problems, kind, *words):
    """The rows, and the family by which they were read."""
    doc = ask(args, problems, "ls", *words, "--json", "--no-plan") or {}
    inputs = doc.get("inputs") or [{}]
    return (doc.get("data") or {}).get(kind) or [], inputs[0].get("format")


def kinds(args, problems, path):
    rows, family = rows_of(args, problems, "tensors", path)
    return sorted((r["name"], r["dtype"], tuple(r["shape"])) for r in rows), family


def look(args, problems, path, bare):
    """Every view; whether a file among `bare` is said to hold bytes."""
    for words in (("info", "--json"), ("tree", "--json"), ("fqns", "--json"), ("flat", "--json")):
        ask(args, problems, *words, "--no-plan", path)
    for row in rows_of(args, problems, "pieces", "-l", path)[0]:
        if (bare is None or row.get("file") in bare) and row.get("offset") is not None and row.get("length"):
            problems.append(f"{path}: {row['name']} is said to lie at {row['offset']} of {row.get('file')}")
    ask(args, problems, "show", "--values=4", "--json", "--no-plan", "--glob=**", path)


def alone(args, item):
    """The pickle has what the whole file has, if that is a plain torch.save file."""
    _, member, data, path, (begin, end) = item
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "data.pkl", data)
        bare = os.path.join(folder, "data.pkl")
        look(args, problems, bare, None)
        if member.endswith("/data.pkl") and member.count("/") == 1:
            with open(path, "rb") as f:
                f.seek(begin)
                write(folder, "whole.pt", f.read(end - begin))
            whole, family = kinds(args, problems, os.path.join(folder, "whole.pt"))
            here = kinds(args, problems, bare)[0]
            # What a framework keeps in a file of its own is known by more than the pickle.
            if family == "torch-zip" and whole != here:
                problems.append(f"tensors differ: {whole[:6]} {here[:6]}")
    return problems


def names_of_set(style, count):
    if style == "shards":
        return [f"pytorch_model-{i + 1:05}-of-{count:05}.bin" for i in range(count)]
    return [f"model_rank{i}.pt" for i in range(count)]


def as_set(args, style, items, good):
    """Pickles as the files of a set, the first of them a sound file if there is one."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        names = names_of_set(style, len(items))
        for name, item in zip(names, items):
            write(folder, name, item[2])
        if good is not None:
            shutil.copy(good, os.path.join(folder, names[0]))
        elif style == "shards":
            keys = {f"weight{i}": name for i, name in enumerate(names)}
            with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w", encoding="utf-8") as f:
                json.dump({"metadata": {"total_size": 1}, "weight_map": keys}, f)
        look(args, problems, folder, set(names[1 if good else 0:]))
    return problems


def main():
    args = arguments(__doc__, all="")
    tap = Tap()
    items = collect(args)
    if not args.all:
        items = items[::max(1, len(items) // SAMPLE)][:SAMPLE]
    if not items:
        tap.done()
    good = next((os.path.join(root, "torch-zip", "views", "model.pt") for root in args.roots
                 if os.path.exists(os.path.join(root, "torch-zip", "views", "model.pt"))), None)
    for item, problems in zip(items, in_parallel(lambda item: alone(args, item), items)):
        if problems or not args.all:
            tap.none(f"{item[0]} {item[1]}", problems)
    groups = [items[i:i + GROUP] for i in range(0, len(items), GROUP)]
    sets = [(style, group, sound) for group in groups for style in ("shards", "ranks")
            for sound in (None, good) if len(group) > 1]
    for number, ((style, group, sound), problems) in enumerate(
            zip(sets, in_parallel(lambda s: as_set(args, *s), sets))):
        tap.none(f"{style} {number}: {len(group)} files{' and a sound one' if sound else ''}", problems)
    tap.ok(True, f"{len(items)} pickles")
    tap.done()


main()
