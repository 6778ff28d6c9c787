#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words that have no place in a finished file: promises to do it later, paths of one
machine; what is counted as one and named as many; and in the program and its manual persons where a file, a rank or a function is
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
    r"|(?:is|are|was|were|be|been|not) (?:said|told)(?! apart))\b")
PLAIN = ("lib/", "cli/", "man/", "doc/")

# "1 files", in what is shown and in what pinned runs print.
ONE = re.compile(
    r"(?<![\w.,/:=>+-])1 (?:(?:data|flat|more|other|rank) )?(?:bytes|calls|checkpoints|checks|collectives|copies|elements|entries|errors"
    r"|events|files|findings|folders|globals|groups|iterations|layers|lines|members|modules|names|notes|parameters"
    r"|pickles|pieces|ranks|records|recordings|rows|shards|stacks|states|steps|storages|tensors|units|values"
    r"|warnings)\b")
SHOWN = re.compile(r"(?:README\.md|doc/.*\.md|man/.*\.\d|tests/pinned/.*\.txt)$")

DATA = ("testdata/", "tests/corpus/", "LICENSE")


def check(root):
    broken = []
    for path in law.tracked(root):
        if path.startswith(DATA):
            continue
        text, shown, plain = law.text(root, path), SHOWN.match(path), path.startswith(PLAIN)
        asked = (LATER, MACHINE, BESIDE, *([ONE] if shown else []))
        if not any(pattern.search(text) for pattern in asked) and not (plain and PERSONS.search(text.lower())):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if LATER.search(line):
                broken.append(f"{path}:{number}: a promise instead of the thing")
            if MACHINE.search(line) or (BESIDE.search(line) and not path.startswith("tests/")):
                broken.append(f"{path}:{number}: a path of one machine")
            many = shown and ONE.search(line)
            if many:
                broken.append(f"{path}:{number}: one thing is not many: '{many.group()}'")
            odd = PERSONS.search(line.lower()) if plain else None
            if odd:
                broken.append(f"{path}:{number}: say what does it instead of '{odd.group()}'")
    return broken


if __name__ == "__main__":
    law.main(check)
