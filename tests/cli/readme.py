#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tutorial of README.md cannot rot: in each fenced block without a language,
every line that begins with `$ fsdp-inspect` or `$ scripts/run` is run as it stands, and
what it prints (stdout, then stderr) must be the lines that follow. No other line is run. A line that is only `...` stands for any number of lines.
Prints TAP.

readme.py [--update] BINARY [PAGE]
  --update writes down what the binary says now; read the diff before you commit it.
"""

import os
import re
import sys

import sandbox

OURS = re.compile(r"\$ (fsdp-inspect|scripts/run)\b[^;&`]*$")

def commands(page):
    """(line number, command, [expected line…]) of each command that a block shows."""
    found, fence, inside = [], None, False
    for number, line in enumerate(page.split("\n"), 1):
        if line.startswith("```"):
            fence, inside = (line.strip() if fence is None else None), False
        elif fence == "```" and line.startswith("$ "):
            inside = OURS.match(line) is not None
            if inside:
                found.append((number, line[2:], []))
        elif inside:
            found[-1][2].append(line.rstrip())
    return found


def matches(expected, said):
    parts = [r"(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in expected]
    return re.fullmatch("".join(parts), "".join(line.rstrip() + "\n" for line in said)) is not None


def trimmed(lines):
    """Without the blank lines at the end that only set the next command apart."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def said_by(binary, line):
    out, err, _ = sandbox.run(binary, line)
    return trimmed((out + err).decode("utf-8", "backslashreplace").splitlines())


def updated(page, binary):
    """The page with what the binary says now behind each command."""
    lines = page.split("\n")
    for number, line, expected in reversed(commands(page)):
        after = number + len(expected)
        blank = lines[number + len(trimmed(expected)) : after]
        lines[number:after] = said_by(binary, line) + blank
    return "\n".join(lines)


def main():
    update = sys.argv[1:2] == ["--update"]
    if update:
        del sys.argv[1]
    page = sys.argv[2] if len(sys.argv) > 2 else os.path.join(sandbox.ROOT, "README.md")
    found = []
    if update:
        with open(page, encoding="utf-8") as stream:
            text = updated(stream.read(), sys.argv[1])
        with open(page, "w", encoding="utf-8") as stream:
            stream.write(text)
    if os.path.exists(page):
        with open(page, encoding="utf-8") as stream:
            found = commands(stream.read())
    print(f"1..{len(found)}" if found else "1..0 # SKIP no tutorial")
    failed = 0
    for index, (number, line, expected) in enumerate(found, 1):
        said = said_by(sys.argv[1], line)
        good = matches(trimmed(expected), said)
        failed += not good
        print(f"{'ok' if good else 'not ok'} {index} - README line {number}")
        if not good:
            print(f"#  {line}")
            for text in said:
                print(f"#  | {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
