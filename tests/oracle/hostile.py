#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile files end in an orderly answer.

Every file and folder of hostile/, through ls and the audit that its row names, and through info, tree, flat, fqns, audit, show, order and
replay (without --all each of them takes some of each folder), as text and as JSON: exit status 0 to 3, no sanitizer report, CPU and memory that follow the input,
clean text, one valid JSON object that says the same as the status, nothing written but what -o names.
The sound ones among them raise no alarm. Those that are wrong in what reading looks at do, and
what they would run is named; and each has the verdict of its class.
"""
import os
import sys
import tempfile
import unicodedata

from oraclelib import Bounds, Tap, arguments, copy_tree, in_parallel, run, skip_all, strict_json, thinned

COMMANDS = ("info", "tree", "flat", "fqns", "audit", "order", "replay", "show")  # besides ls
EVERY = 7
READ = ("dcp", "index", "legacy", "pickle", "plan", "safetensors", "tensor", "zip")  # folders of formats that the command reads
# Wrong in what only a look at all items, all bytes or the whole plan shows.
LATER = ("dcp/store-overlap", "dcp/store-path-self", "dcp/store-swapped", "plan/flat-mask", "plan/span-", "tensor/sparse-index",
         "zip/crc-")
BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def dirty(data):
    """Why this text must not reach a terminal, or None."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        return f"invalid UTF-8 at byte {e.start}"
    for i, c in enumerate(text):
        if c in BIDI or (unicodedata.category(c) == "Cc" and c not in "\n\t"):
            return f"U+{ord(c):04X} at character {i}"
    return None


def inventory(folder):
    return sorted((os.path.join(d, n), os.lstat(os.path.join(d, n)).st_size)
                  for d, below, files in os.walk(folder) for n in below + files)


def listed(root):
    """(name in the manifest, path, class, names that must be told, command) of every row."""
    out = []
    with open(os.path.join(root, "MANIFEST.tsv"), encoding="utf-8") as f:
        for line in list(f)[1:]:
            fields = line.split("\t")
            out.append((fields[0], os.path.join(root, fields[0].rstrip("/")), fields[4], fields[5].split(),
                        fields[6].split() if len(fields) > 6 else []))
    return [row for row in out if os.path.lexists(row[1])]


def ask(args, cwd, given, problems, command, *words):
    """Text and JSON of one run, both looked at: (status, document or None, JSON as text)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        r = run(args, command, "-o", "text", "-o", f"json={path}", given, *words, cwd=cwd, timeout=300,
                cpu=args.bounds.cpu(given))
        try:
            with open(path, "rb") as f:
                text = f.read()
        except OSError:
            text = b""
        if inventory(folder) != [(path, len(text))]:
            problems.append(f"{r.words}: left behind: {inventory(folder)}")
    problems.extend([r.crash] if r.crash else args.bounds.problems(r, given))
    for stream, data in (("stdout", r.out), ("stderr", r.err), ("JSON", text)):
        why = dirty(data)
        if why:
            problems.append(f"{r.words}: {stream}: {why}")
    try:
        doc = strict_json(text)
        for key in ("findings", "errors"):
            if not isinstance(doc.get(key), list):
                problems.append(f"{command}: no array {key}")
        if doc.get("ok") != (r.status == 0):
            problems.append(f"{command}: ok is {doc.get('ok')}, status {r.status}")
        if doc.get("errors") and r.status == 0:
            problems.append(f"{command}: errors and status 0")
    except (ValueError, UnicodeDecodeError, AttributeError) as e:
        problems.append(f"{command}: {e}: {text[:80]!r} {r.tail}")
        doc = None
    return r.status, doc, text.decode("utf-8", "replace")


def judge_list(name, kind, told, status, doc, text):
    """What is wrong with the list of tensors of such an input."""
    read = name.split("/")[0] in READ
    alarms = [f["rule"] for f in doc["findings"] if f["severity"] != "note"]
    if kind == "accept" and read and (alarms or status != 0):
        return [f"ls: status {status} and {alarms} for a sound input"]
    if kind != "error" or not read or name.startswith(LATER):
        return []
    problems = [f"ls: {word} is not named" for word in told if word[0] != "!" and word not in text]
    if not doc["errors"] and not any(f["severity"] == "error" for f in doc["findings"]):
        problems.append("ls: nothing is said of what is wrong")
    return problems


def judge_audit(kind, status, doc):
    """What is wrong with the verdict on an input of that class."""
    if doc is None:
        return ["audit: no answer"]
    worst = {f["severity"] for f in doc["findings"]} | {"error" for _ in doc["errors"]}
    due = {
        "accept": status == 0 and not worst & {"warning", "error"},
        "finding": status in (0, 1) and worst,
        "warning-or-worse": worst & {"warning", "error"},
        "error": status in (1, 2) and "error" in worst,
        "error-or-limit": status in (1, 2) and "error" in worst,
        "not-a-checkpoint": status in (2, 3) and worst,
    }
    return [] if due.get(kind, True) else [f"audit: status {status} and {sorted(worst)} for class {kind}"]


def judge(args, job):
    (name, path, kind, told, words), commands = job
    problems = []
    with tempfile.TemporaryDirectory() as cwd:
        for command in commands:
            if command != "show":
                ask(args, cwd, path, problems, command)
        status, doc, text = ask(args, cwd, path, problems, "ls")
        first = "weight"
        if doc is not None:
            problems += judge_list(name, kind, told, status, doc, text)
            tensors = (doc.get("data") or {}).get("tensors") or []
            first = tensors[0]["name"] if tensors else first
        if words[:1] == ["audit"]:
            problems += judge_audit(kind, *ask(args, cwd, path, problems, *words)[:2])
        if "show" in commands and "\0" not in first:
            ask(args, cwd, path, problems, "show", "--", first)
        left = inventory(cwd)
        if left:
            problems.append(f"left behind: {left[:3]}")
    return name, problems


def asked(rows, every):
    """(row, the commands that it goes through besides ls)."""
    pairs = [(row, command) for row in rows for command in COMMANDS]
    chosen = set((row[0], command) for row, command in
                 thinned(pairs, lambda pair: (pair[0][0].split("/")[0], pair[1]), every))
    return [(row, [c for c in COMMANDS if (row[0], c) in chosen]) for row in rows]


def main():
    args = arguments(__doc__, leaks="--all" in sys.argv, all="")
    args.bounds = Bounds(args)
    source = next((p for p in (os.path.join(r, "hostile") for r in args.roots)
                   if os.path.exists(os.path.join(p, "MANIFEST.tsv"))), None)
    if source is None:
        skip_all("no hostile samples")
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "hostile")
        copy_tree(source, copy, symlinks=True)
        before = inventory(folder)
        rows = [row for row in listed(copy) if args.only is None or args.only in row[0]]
        done = in_parallel(lambda job: judge(args, job), asked(rows, 1 if args.all else EVERY))
        groups = {}
        for name, problems in done:
            groups.setdefault(name.split("/")[0], []).append((name, problems))
        for group in sorted(groups):
            bad = [f"{n}: {p}" for n, ps in groups[group] for p in ps]
            tap.none(f"{group}: {len(groups[group])} hostile inputs", bad)
        after = inventory(folder)
        tap.none("nothing is written beside an input", [str(x) for x in set(after) ^ set(before)])
    tap.done()


main()
