#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""csv, tsv, jsonl and name say what json says, row by row."""
import csv
import io
import os
import tempfile

from oraclelib import Tap, arguments, envelope, first_case, run, strict_json

SAMPLES = ["torch-zip/odd-keys", "torch-zip/views", "torch-zip/odd-shapes", "torch-zip/all-dtypes",
           "dcp/fsdp2-w4-small", "dcp/odd-names", "dcp/scalars"]
COLUMNS = ("name", "dtype", "shape", "numel", "bytes", "role", "pieces")
LONG = ("name", "dtype", "rank", "file", "offset", "length")
ESCAPES = {"\\": "\\", "n": "\n", "t": "\t", "r": "\r"}


def plain(value):
    """A JSON value as tables write it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "x".join(str(v) for v in value)
    return str(value)


def shown(text):
    """As people see a hostile name: control characters spelled out."""
    return "".join(f"\\x{ord(c):02x}" if ord(c) < 32 or 127 <= ord(c) < 160 else c for c in text)


def unescape(text):
    out, chars = [], iter(text)
    for c in chars:
        out.append(ESCAPES[next(chars)] if c == "\\" else c)
    return "".join(out)


def read_csv(data):
    rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    return [dict(zip(rows[0], r, strict=True)) for r in rows[1:]], rows[0]


def read_tsv(data):
    lines = data.decode("utf-8").split("\n")
    assert lines[-1] == "", "no line feed at the end"
    head = lines[0].split("\t")
    return [dict(zip(head, map(unescape, r.split("\t")), strict=True)) for r in lines[1:-1]], head


def check_table(args, fmt, read, expected, columns, words):
    problems = []
    r = run(args, "-o", fmt, "--columns=" + ",".join(columns), *words)
    if r.crash or r.status != 0:
        return [r.crash or f"{r.words}: exit status {r.status}: {r.tail}"]
    try:
        rows, head = read(r.out)
    except (ValueError, AssertionError, KeyError, StopIteration, csv.Error) as e:
        return [f"{r.words}: does not parse: {e!r}"]
    head = [h.lower() for h in head]
    if head != list(columns):
        return [f"{r.words}: header {head}, expected {list(columns)}"]
    rows = [dict(zip(head, row.values())) for row in rows]
    if len(rows) != len(expected):
        return [f"{r.words}: {len(rows)} rows, JSON has {len(expected)}"]
    for i, (row, want) in enumerate(zip(rows, expected)):
        for column in columns:
            if row[column] != plain(want.get(column)):
                if column == "shape" and not want["shape"]:
                    continue  # how a scalar is written is the table's own choice
                if fmt == "csv" and row[column] == shown(plain(want.get(column))):
                    continue  # csv has quotes and no escapes; control characters are spelled out
                problems.append(f"{r.words}: row {i}: {column}: {row[column]!r}, JSON has {want.get(column)!r}")
    return problems


def check_jsonl(args, doc, array, words):
    r = run(args, "--jsonl", *words)
    if r.crash or r.status != 0:
        return [r.crash or f"{r.words}: exit status {r.status}: {r.tail}"]
    try:
        records = [strict_json(line) for line in r.out.splitlines()]
    except ValueError as e:
        return [f"{r.words}: {e}"]
    problems = []
    kinds = [x.get("type") for x in records]
    if kinds[:1] != ["header"] or kinds[-1:] != ["end"] or kinds.count("end") != 1:
        return [f"{r.words}: records {kinds[:2]} … {kinds[-2:]}"]
    items = [{k: v for k, v in x.items() if k not in ("type", "of")} for x in records if x["type"] == "item"]
    if items != doc["data"][array]:
        problems.append(f"{r.words}: items differ from data.{array}")
    if any(x.get("of") != array for x in records if x["type"] == "item"):
        problems.append(f"{r.words}: an item is not of {array!r}")
    header, end = records[0], records[-1]
    for key in ("schema", "schema_version", "tool", "inputs"):
        if header.get(key) != doc[key]:
            problems.append(f"{r.words}: header.{key} is {header.get(key)!r}, JSON has {doc[key]!r}")
    rest = {k: v for k, v in doc["data"].items() if k != array}
    found = [{k: v for k, v in x.items() if k != "type"} for x in records if x["type"] == "finding"]
    for what, got, want in (("items", end.get("items"), len(items)), ("status", end.get("status"), 0),
                            ("ok", end.get("ok"), True), ("data", end.get("data"), rest),
                            ("findings", end.get("findings"), len(doc["findings"])),
                            ("errors", end.get("errors"), len(doc["errors"]))):
        if got != want:
            problems.append(f"{r.words}: end.{what} is {str(got)[:100]}, expected {str(want)[:100]}")
    if found != doc["findings"]:
        problems.append(f"{r.words}: findings differ from JSON")
    return problems


def check_names(args, doc, words):
    names = [t["name"] for t in doc["data"]["tensors"]]
    problems = []
    r = run(args, "-o", "name", "-0", *words)
    if r.crash or r.status != 0:
        return [r.crash or f"{r.words}: exit status {r.status}: {r.tail}"]
    if r.out != b"".join(n.encode() + b"\0" for n in names):
        problems.append(f"{r.words}: {r.out[:100]!r}")
    r = run(args, "-o", "name", *words)
    lines = r.out.decode().split("\n")[:-1]
    if len(lines) != len(names):
        problems.append(f"{r.words}: {len(lines)} lines for {len(names)} names")
    for line, name in zip(lines, names):
        if name.isprintable() and line != name:
            problems.append(f"{r.words}: {line!r} for {name!r}")
    return problems


def check_files(args, doc, words, folder):
    """-o FORMAT=FILE, several at once, are the same bytes as stdout."""
    problems = []
    paths = {f: os.path.join(folder, "out." + f) for f in ("json", "csv", "tsv", "jsonl")}
    r = run(args, *[w for f, p in paths.items() for w in ("-o", f"{f}={p}")], *words)
    if r.crash or r.status != 0:
        return [r.crash or f"{r.words}: exit status {r.status}: {r.tail}"]
    for fmt, path in paths.items():
        alone = run(args, "-o", fmt, *words)
        try:
            with open(path, "rb") as f:
                if f.read() != alone.out:
                    problems.append(f"-o {fmt}=FILE differs from -o {fmt}")
        except OSError as e:
            problems.append(f"-o {fmt}=FILE: {e.strerror}")
    left = sorted(set(os.listdir(folder)) - {os.path.basename(p) for p in paths.values()})
    if left:
        problems.append(f"left behind: {left}")
    return problems


def main():
    args = arguments(__doc__)
    tap = Tap()
    for name in SAMPLES:
        case = first_case(args, [name])
        if case is None:
            continue
        path = case.checkpoint(case.load("truth.json"))
        problems = []
        short = envelope(run(args, "ls", "--json", path), problems)
        long = envelope(run(args, "ls", "-l", "--json", path), problems)
        tap.none(f"{name}: json", problems)
        if short is None or long is None:
            continue
        for fmt, read in (("csv", read_csv), ("tsv", read_tsv)):
            tap.none(f"{name}: {fmt}", check_table(args, fmt, read, short["data"]["tensors"], COLUMNS, ("ls", path)))
            tap.none(f"{name}: {fmt} -l",
                     check_table(args, fmt, read, long["data"]["pieces"], LONG, ("ls", "-l", path)))
        tap.none(f"{name}: jsonl", check_jsonl(args, short, "tensors", ("ls", path)))
        tap.none(f"{name}: jsonl -l", check_jsonl(args, long, "pieces", ("ls", "-l", path)))
        tap.none(f"{name}: name", check_names(args, short, ("ls", path)))
        with tempfile.TemporaryDirectory() as folder:
            tap.none(f"{name}: files", check_files(args, short, ("ls", path), folder))
    tap.done()


main()
