#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JSON Lines say what JSON says: each pinned run of one document is run again with --jsonl, and the lines,
joined, are that document: the same fields by the same names, the same values. Only `type` of an element is
the kind of line there, so another field of the element says it too. Prints TAP.

json_lines.py BINARY
"""

import concurrent.futures
import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pinned"))
import run  # noqa: E402

ONE = re.compile(r"fsdp-inspect \S[^|;&>]*\s--json\b[^|;&>]*$")


def pinned():
    """(name, case) of those that print one document."""
    return [(run.name_of(*pair), pair[1]) for pair in run.cases() if ONE.match(pair[1].command)]


def without_type(element):
    left = {name: value for name, value in element.items() if name != "type"}
    return left if element.get("type", None) in (None, *left.values()) else element


def joined(lines):
    """`data`, findings and errors of lines."""
    end = lines[-1].get("data") or {}
    elements = {}
    for line in lines:
        if line["type"] == "item":
            of = line["of"]
            elements.setdefault(of, []).append({n: v for n, v in line.items() if n not in ("type", "of")})
    parts = {of + "s": [{n: v for n, v in line.items() if n != "type"} for line in lines if line["type"] == of]
             for of in ("finding", "error")}
    return {**end, **elements}, parts


def faults(binary, case):
    document = json.loads(case.stdout)
    command = re.sub(r"--json\b", "--jsonl", case.command, count=1)
    out = run.run(binary, dataclasses.replace(case, command=command)).stdout
    lines = [json.loads(line) for line in out.splitlines()]
    if lines[0]["type"] != "header" or lines[-1]["type"] != "end":
        return [f"lines from {lines[0]['type']} to {lines[-1]['type']}"]
    data, parts = joined(lines)
    expected = document["data"] or {}
    # Of an array without elements there are no lines.
    wrong = [f"{name} is in the document alone" for name in expected if name not in data and expected[name] != []]
    wrong += [f"{name} is in the lines alone" for name in data if name not in expected]
    for name in filter(expected.get, data):
        same = expected[name]
        if any(line.get("of") == name for line in lines):
            same = [without_type(element) for element in same]
        if data[name] != same:
            wrong.append(f"{name} differ")
    return wrong + [f"{name} differ" for name in parts if parts[name] != document[name]]


def main():
    binary, runs, failed = sys.argv[1], pinned(), 0
    print(f"1..{len(runs)}")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda named: faults(binary, named[1]), runs)
    for index, (wrong, (case, _)) in enumerate(zip(found, runs), 1):
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {index} - {case}")
        for fault in wrong:
            print(f"#  {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
