#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words that have no place in a finished file: promises to do it later, paths of one
machine; and in the program and its manual persons where a file, a rank or a function is
meant, and the passive voice that hides who reports what."""

import re

import law

# In pieces, so that this file keeps its own law.
LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
MACHINE = re.compile("/wo" + "rk/|/ro" + "ot/")
# Tests may look for more samples in a folder beside the clone; nothing else knows of it.
BESIDE = re.compile(r"\.\./sha" + "red")

# "told apart" is the plain English for it.
PERSONS = re.compile(
    r"\b((?:no|some|every|any)body|who(?:m|so)?ever"
    r"|(?:is|are|was|were|be|been|not) (?:said|told)(?! apart))\b", re.IGNORECASE)
PLAIN = ("lib/", "cli/", "man/", "doc/")

DATA = ("testdata/", "tests/corpus/", "LICENSE")


def check(root):
    broken = []
    for path in law.tracked(root):
        if path.startswith(DATA):
            continue
        for number, line in enumerate(law.text(root, path).split("\n"), 1):
            if LATER.search(line):
                broken.append(f"{path}:{number}: a promise instead of the thing")
            if MACHINE.search(line) or (BESIDE.search(line) and not path.startswith("tests/")):
                broken.append(f"{path}:{number}: a path of one machine")
            odd = PERSONS.search(line) if path.startswith(PLAIN) else None
            if odd:
                broken.append(f"{path}:{number}: say what does it instead of '{odd.group()}'")
    return broken


if __name__ == "__main__":
    law.main(check)
