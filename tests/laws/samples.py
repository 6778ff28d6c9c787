#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command of a pinned run can be read: its lines are short, long ones that make files are functions of
tests/pinned/samples instead, and each of these is used."""

import re

import law

MOST_LINE = 160  # characters
MOST_MAKING = 200  # characters of the lines of a command that make files
MAKES = re.compile(r"(?<!\$\()printf (?!'[^']*%s)|\bcp |\bsed -i|\bdd |\bmkdir | >[\w$./\"{}]+\.\w+")
COMMAND = re.compile(r"^\$ .*(?:\n> .*)*", re.M)
SAMPLE = re.compile(r"@sample\ndef (\w+)\(")


def check(root):
    broken, made, used = [], {}, set()
    for path in law.tracked(root):
        if not path.startswith("tests/pinned/"):
            continue
        text = law.text(root, path)
        if path.startswith("tests/pinned/samples/"):
            made.update((name, path) for name in SAMPLE.findall(text))
        elif path.endswith(".txt"):
            used.update(re.findall(r"^@ (\S+)", text, re.M))
            for found in COMMAND.finditer(text):
                where = f"{path}:{text.count(chr(10), 0, found.start()) + 1}"
                lines = [line[2:] for line in found.group().split("\n")]
                longest = max(map(len, lines))
                making = sum(len(line) for line in lines if MAKES.search(line))
                if longest > MOST_LINE:
                    broken.append(f"{where}: a line of {longest} characters; break it")
                elif making > MOST_MAKING:
                    broken.append(f"{where}: {making} characters make files; write a function of samples/")
    return broken + [f"{made[name]}: no case has the sample {name}" for name in sorted(set(made) - used)]


if __name__ == "__main__":
    law.main(check)
