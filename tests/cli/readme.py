#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md and the pages of doc/ cannot rot: in each fenced block without a language, every line that
begins with `$ ` is run by a shell as it stands, and what it prints (stdout, then stderr) must be the lines
that follow. A line that is only `...` stands for any number of lines. Where a page names llama-8b, that is
made first (real_size.py). A line with jq is skipped where there is none. Prints TAP.

readme.py [--update] BINARY [PAGE...]
  --update writes down what the binary says now; read the diff before you commit it.
"""

import glob
import os
import re
import shutil
import sys
import tempfile

import real_size
import sandbox

REAL = "llama-8b"


def commands(page):
    """(line number, command, [expected line…]) of each command that a block shows."""
    found, fence, inside = [], None, False
    for number, line in enumerate(page.split("\n"), 1):
        if line.startswith("```"):
            fence, inside = (line.strip() if fence is None else None), False
        elif fence == "```" and line.startswith("$ "):
            inside = True
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


def said_by(binary, line, real):
    links = {REAL: os.path.join(real, REAL), "contrib": os.path.join(sandbox.ROOT, "contrib")}
    out, err, _ = sandbox.run(binary, line, {name: path for name, path in links.items() if name in line})
    return trimmed((out + err).decode("utf-8", "backslashreplace").splitlines())


def updated(page, binary, real):
    """The page with what the binary says now behind each command."""
    lines = page.split("\n")
    for number, line, expected in reversed(commands(page)):
        after = number + len(expected)
        blank = lines[number + len(trimmed(expected)) : after]
        if "..." not in expected:
            lines[number:after] = said_by(binary, line, real) + blank
    return "\n".join(lines)


def pages():
    return [os.path.join(sandbox.ROOT, "README.md"), *sorted(glob.glob(os.path.join(sandbox.ROOT, "doc", "*.md")))]


def judge(binary, page, real, count):
    """Tests of one page, numbered from count + 1 on; how many failed."""
    failed, has_jq = 0, shutil.which("jq") is not None
    with open(page, encoding="utf-8") as stream:
        found = commands(stream.read())
    for index, (number, line, expected) in enumerate(found, count + 1):
        name = f"{os.path.relpath(page, sandbox.ROOT)} line {number}"
        if "jq " in line and not has_jq:
            print(f"ok {index} - {name} # SKIP there is no jq")
            continue
        said = said_by(binary, line, real)
        good = matches(trimmed(expected), said)
        failed += not good
        print(f"{'ok' if good else 'not ok'} {index} - {name}")
        if not good:
            print(f"#  {line}")
            for text in said:
                print(f"#  | {text}")
    return len(found), failed


def main():
    words = sys.argv[1:]
    update = words[:1] == ["--update"]
    binary, *chosen = words[1:] if update else words
    count = failed = 0
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as real:
        real_size.make(os.path.join(real, REAL, "step-1000"))
        for page in chosen or pages():
            if update:
                with open(page, encoding="utf-8") as stream:
                    text = updated(stream.read(), binary, real)
                with open(page, "w", encoding="utf-8") as stream:
                    stream.write(text)
            of_page = judge(binary, page, real, count)
            count, failed = count + of_page[0], failed + of_page[1]
    print(f"1..{count}" if count else "1..0 # SKIP no page")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
