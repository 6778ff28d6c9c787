#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What pinned runs read is made by functions of tests/pinned/samples: a shell line that makes files is short, and each
function is used."""

import re

import law

MOST = 400  # characters of a shell line that makes files
MAKES = re.compile(r"printf (?!'[^']*%s)|\bcp |\bsed -i|\bdd |\bmkdir | >[\w$./\"{}]+\.\w+")
SAMPLE = re.compile(r"@sample\ndef (\w+)\(")


def check(root):
    broken, made, used = [], {}, set()
    for path in law.tracked(root):
        if path.startswith("tests/pinned/samples/"):
            made.update((name, path) for name in SAMPLE.findall(law.text(root, path)))
        elif path.startswith("tests/pinned/") and path.endswith(".txt"):
            for number, line in enumerate(law.text(root, path).split("\n"), 1):
                used.update(line[2:].split()[:1] if line.startswith("@ ") else ())
                if line.startswith("$ ") and len(line) - 2 > MOST and MAKES.search(line):
                    broken.append(f"{path}:{number}: {len(line) - 2} characters make files; write a function of samples/")
    return broken + [f"{made[name]}: no case has the sample {name}" for name in sorted(set(made) - used)]


if __name__ == "__main__":
    law.main(check)
