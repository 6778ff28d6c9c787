#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slips of suggestions.txt: each is refused, and the line that begins with `next:` tells what to type. A command
that is named there is one of this version, and a line that can be typed as it stands is taken. Prints TAP.

suggestions.py BINARY
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import sandbox

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "suggestions.txt")
# What such a line is about: not there, or a tensor that has no such form.
NOT_THERE = ["/data/model.pt", "model-weights"]
FOLDER = """cp -r testdata/dcp/fsdp2-w4-small/checkpoint step-1000
cp testdata/traces/malformed/base.json trace.json
cp testdata/traces/exec_order/changes_rank0.jsonl order.jsonl
cp "$(ls testdata/torch-zip/*/checkpoint/*.pt testdata/torch-zip/*/*.pt testdata/torch-zip/*.pt 2>/dev/null | head -n 1)" model.pt
mkdir empty
echo 'Remember the milk.' > notes.txt
"""


class Desk:
    """The folder in which all is typed; a new one after a line that left something there."""

    def __init__(self, binary):
        self.binary = binary
        self.folder = self.furnished = None

    def run(self, line):
        if self.folder is None or self.content() != self.furnished:
            self.folder = tempfile.TemporaryDirectory(prefix="fsdp-inspect-")
            sandbox.furnish(self.folder.name, self.binary, {})
            sandbox.run_in(self.folder.name, self.binary, FOLDER)
            self.furnished = self.content()
        return sandbox.run_in(self.folder.name, self.binary, line)

    def content(self):
        return sorted((path, sorted(files)) for path, _, files in os.walk(self.folder.name))


def slips():
    with open(TABLE, encoding="utf-8") as stream:
        for line in stream:
            if line.strip() and not line.startswith("#"):
                typed, _, answer = line.rstrip("\n").partition(" | ")
                yield typed, answer


def typed_next(hint):
    """The line of a hint, or None: it has words such as DIR in it, or is not a line of this command."""
    line = re.match(r"(?:fix|hint): (?:did you mean: |.*(?:then|checkpoint): )?(fsdp-inspect .*?)(?: \([a-z].*\))?$", hint)
    return line[1] if line and not re.search(r"\b[A-Z]{3,}\b|\.\.\.|\bhelp lists\b|^.*\blists\b", line[1]) else None


def commands(binary):
    said = subprocess.run([binary, "commands", "--json"], stdout=subprocess.PIPE, check=True).stdout
    return {one["name"] for one in json.loads(said)["data"]["commands"]}


def faults(desk, known, typed, answer):
    out, err, status = desk.run(typed)
    err = err.decode()
    if out:
        yield f"it writes {out[:80]!r}"
    if status not in (1, 2):
        yield f"status {status}"
    hints = [line.strip() for line in err.splitlines() if line.strip().startswith(("fix: ", "hint: "))]
    if not any(answer in hint for hint in hints):
        yield f"no hint says {answer!r}: {err!r}"
    for line in filter(None, map(typed_next, hints)):
        _, said, status = desk.run(line)
        if status == 2 and not any(word in line for word in NOT_THERE):
            yield f"{line!r} is refused: {said.decode()!r}"
    for command in re.findall(r"fsdp-inspect ([a-z]+)", " ".join(hints)):
        if command not in known:
            yield f"there is no command {command}"


def main():
    binary = sys.argv[1]
    known, table, failed = commands(binary), list(slips()), 0
    desk = Desk(os.path.abspath(binary))
    print(f"1..{len(table)}")
    for index, (typed, answer) in enumerate(table, 1):
        found = list(faults(desk, known, typed, answer))
        failed += bool(found)
        print(f"{'not ok' if found else 'ok'} {index} - {typed}")
        for fault in found:
            print(f"#  {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
