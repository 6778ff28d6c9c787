#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file under testdata/ belongs to a row of testdata/PROVENANCE.tsv, which gives its origin and the digest of
its files. The digest of a row is the SHA-256 of a line `PATH SHA-256` for each of its files, in order of their paths."""

import collections
import hashlib
import os

import law

ROOT = law.ROOT
FOLDER = "testdata/"
TABLE = FOLDER + "PROVENANCE.tsv"
BESIDE = (TABLE, FOLDER + "README.md")
HEAD = "case\twhat\twritten by\tlicence\tSHA-256\n"


def digests(root):
    """What is there: path under testdata/ -> SHA-256."""
    found = {}
    for path in law.tracked(root):
        if path.startswith(FOLDER) and path not in BESIDE:
            with open(os.path.join(root, path), "rb") as stream:
                found[path[len(FOLDER):]] = hashlib.sha256(stream.read()).hexdigest()
    return found


def read(root):
    """Case -> [what, written by, licence, digest]."""
    rows = (line.split("\t") for line in law.text(root, TABLE).removeprefix(HEAD).splitlines())
    return {case: (cells + [""] * 4)[:4] for case, *cells in rows}


def case_of(path, cases):
    """The longest case that this file is, or is in."""
    while path and path not in cases:
        path = os.path.dirname(path)
    return path


def sums(there, cases):
    """Case -> digest of its files; of files without a case under ""."""
    lines = collections.defaultdict(str)
    for path, digest in sorted(there.items()):
        lines[case_of(path, cases)] += f"{path} {digest}\n"
    return {case: hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest() for case, text in lines.items()}


def check(root):
    if not os.path.isdir(os.path.join(root, FOLDER)):
        return []
    there, cases = digests(root), read(root)
    real = sums(there, cases)
    broken = [f"{FOLDER}{path}: belongs to no case in {TABLE}" for path in sorted(there) if not case_of(path, cases)]
    for case, (*cells, digest) in sorted(cases.items()):
        if case not in real:
            broken.append(f"{TABLE}: case {case} has no file")
        elif digest != real[case]:
            broken.append(f"{TABLE}: the files of {case} are not those of its row; run scripts/gen-provenance")
        if not all(cell.strip() for cell in cells):
            broken.append(f"{TABLE}: case {case} lacks what it is, who wrote it, or its licence")
    return broken


def refresh(root):
    """Writes the digests anew, and the rows in order."""
    cases = read(root)
    real = sums(digests(root), cases)
    with open(os.path.join(root, TABLE), "w", encoding="utf-8") as stream:
        stream.write(HEAD)
        for case, (*cells, _) in sorted(cases.items()):
            stream.write("\t".join([case, *cells, real.get(case, "")]) + "\n")
    return law.verdict(check(root))


if __name__ == "__main__":
    law.main(check)
