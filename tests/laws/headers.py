#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header stands alone, twice, in C and in C++. They are few, at least half of each is comment,
and the first comment has an example of 8 to 20 lines, which tests/library/examples.py runs.

headers.py [ROOT [COMPILER…]]: a compiler whose name ends in ++ gets C++.
"""

import os
import re
import subprocess
import sys

import law

sys.path.insert(0, os.path.join(law.ROOT, "tests", "library"))
import examples  # noqa: E402

MOST = 14
LINES = range(8, 21)


def compile_alone(root, header, compiler):
    plus = compiler.rstrip("0123456789.-").endswith("++")
    command = compiler.split() + [
        "-x", "c++" if plus else "c", "-std=c++11" if plus else "-std=c11",
        "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
        "-I", os.path.join(root, "lib", "include"), "-",
    ]
    result = subprocess.run(
        command, input=f"#include <{header}>\n" * 2, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )
    if result.returncode == 0:
        return []
    words = result.stdout.strip().split("\n")
    first = next((w for w in words if "error:" in w), words[0])
    return [f"lib/include/{header} alone with {compiler}: {first}"]


def comment_lines(text):
    """Lines that hold nothing but comment."""
    spans = [match.span() for match in re.finditer(r"/\*.*?\*/", text, re.DOTALL)]
    blank = list(text)
    for start, end in spans:
        blank[start:end] = ["\n" if character == "\n" else "" for character in text[start:end]]
    left = "".join(blank).split("\n")
    return sum(bool(line.strip()) and not rest.strip() for line, rest in zip(text.split("\n"), left))


def teaches(root, path):
    """What a header lacks for a reader."""
    text, found = law.text(root, path), examples.example(os.path.join(root, path))
    comment, lines = comment_lines(text), text.count("\n")
    if 2 * comment < lines:
        yield f"{path}: {comment} of {lines} lines are comment, under half"
    if found is None:
        yield f"{path}: its first comment has no example"
    elif found[1].count("\n") not in LINES:
        yield f"{path}: its example has {found[1].count(chr(10))} lines, not 8 to 20"


def check(root, compilers=("cc", "c++")):
    headers = [path for path in law.tracked(root) if path.startswith("lib/include/") and path.endswith(".h")]
    broken = [f"lib/include: {len(headers)} public headers, {MOST} at most"] if len(headers) > MOST else []
    for path in headers:
        broken += teaches(root, path)
        for compiler in compilers:
            broken += compile_alone(root, path[len("lib/include/"):], compiler)
    return broken


if __name__ == "__main__":
    sys.exit(law.verdict(check(sys.argv[1] if len(sys.argv) > 1 else law.ROOT, sys.argv[2:] or ("cc", "c++"))))
