#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every sample says where it comes from: each file under testdata/ has a row with its
SHA-256 in testdata/README.md and belongs to a case with a row; and back."""

import hashlib
import os
import re

import law

ROOT = law.ROOT
TABLE = "testdata/README.md"
HEADING = "## Files\n"
HEAD = HEADING + "\n| file | SHA-256 |\n| --- | --- |\n"
CASE = re.compile(r"\| `([^`]+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \|")
FILE = re.compile(r"\| `([^`]+)` \| ([0-9a-f]{64}) \|")


def digests(root):
    """What is there: path under testdata/ -> SHA-256."""
    found = {}
    for path in law.tracked(root):
        if path.startswith("testdata/") and path != TABLE:
            with open(os.path.join(root, path), "rb") as stream:
                digest = hashlib.sha256(stream.read()).hexdigest()
            found[path[len("testdata/"):]] = digest
    return found


def read(root):
    """What the page says: cases (path -> cells) and files (path -> SHA-256)."""
    page = law.text(root, TABLE)
    prose, _, listing = page.partition(HEADING)
    cases = {m.group(1): m.groups()[1:] for m in map(CASE.fullmatch, prose.split("\n")) if m}
    files = {m.group(1): m.group(2) for m in map(FILE.fullmatch, listing.split("\n")) if m}
    return cases, files


def homeless(path, cases):
    return not any(path == case or path.startswith(case + "/") for case in cases)


def check(root):
    if not os.path.isdir(os.path.join(root, "testdata")):
        return []
    there, (cases, files) = digests(root), read(root)
    broken = []
    for path, digest in there.items():
        if homeless(path, cases):
            broken.append(f"testdata/{path}: belongs to no case in {TABLE}")
        if path not in files:
            broken.append(f"testdata/{path}: has no row in {TABLE}; run scripts/gen-provenance")
        elif files[path] != digest:
            broken.append(f"testdata/{path}: is not what its row in {TABLE} says")
    for path in sorted(files.keys() - there.keys()):
        broken.append(f"{TABLE}: has a row for {path}, which is not there")
    for case, cells in sorted(cases.items()):
        if not any(path == case or path.startswith(case + "/") for path in there):
            broken.append(f"{TABLE}: case {case} has no file")
        if not all(cell.strip() for cell in cells):
            broken.append(f"{TABLE}: case {case} does not say what, by whom and under which licence")
    return broken


def refresh(root):
    """Writes the table of files anew; the rest of the page stays."""
    prose = law.text(root, TABLE).partition(HEADING)[0]
    rows = "".join(f"| `{path}` | {digest} |\n" for path, digest in sorted(digests(root).items()))
    with open(os.path.join(root, TABLE), "w", encoding="utf-8") as stream:
        stream.write(prose + HEAD + rows)
    return law.verdict(check(root))


if __name__ == "__main__":
    law.main(check)
