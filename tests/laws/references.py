#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file that a comment or CONTRIBUTING.md names is there: x.c, x.h and x.def, with as much of the path
as is given. NAME in capitals stands for any; what follows `Origin:` lies elsewhere."""

import re

import law

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
FILE = re.compile(r"(?<![\w./<*…-])((?:[\w-]+/)*[\w-]+\.(?:c|h|def))\b")
PAGE = "CONTRIBUTING.md"
# Have their place in the tables of the house, and wait for the command that sums bytes up.
WAITING = {"crc.c", "sha256.c"}


def texts(path, source):
    """(where it begins, text) of what is written for people."""
    if path == PAGE:
        yield 0, source
        return
    for found in COMMENT.finditer(source):
        yield found.start(), found.group().partition("Origin:")[0]


def check(root):
    broken, files = [], law.tracked(root)
    ends = {path[i:] for path in files for i in range(len(path)) if i == 0 or path[i - 1] == "/"}
    for path in files:
        if path != PAGE and not (path.startswith(("lib/", "cli/", "tests/", "bench/"))
                                 and path.endswith((".c", ".h", ".def"))):
            continue
        source = law.text(root, path)
        for begin, text in texts(path, source):
            for found in FILE.finditer(text):
                name = found.group(1)
                if name not in ends | WAITING and not re.search(r"[A-Z]{4}", name):
                    line = source.count("\n", 0, begin + found.start()) + 1
                    broken.append(f"{path}:{line}: there is no {name}")
    return broken


if __name__ == "__main__":
    law.main(check)
