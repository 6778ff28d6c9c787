#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many commands on every sample write neither "1 tensors" nor a riddle of the law of messages. Pinned runs are read
for that by the law of words. Prints TAP.

counts.py BINARY [FOLDER...]
  FOLDER holds more samples.
"""

import os
import re
import subprocess
import sys
import tempfile

import sandbox

sys.path.insert(0, os.path.join(sandbox.ROOT, "tests", "laws"))
import messages
import words

COMMANDS = ("info -v", "tree --sizes", "audit -v --checks", "ls -l", "ls --by=file", "show -g **", "flat",
            "reshard --world=3", "stats", "latest --all", "pickle", "order", "replay")
RIDDLES = [re.compile(riddle) for riddle, _ in messages.RIDDLES]


def samples(roots):
    """Folders that hold files of a checkpoint or a run."""
    for root in roots:
        for folder, below, files in sorted(os.walk(root)):
            below.sort()
            if os.path.basename(folder) == "expected":
                below.clear()
            elif files and not below or os.path.basename(folder) == "checkpoint":
                below.clear()
                yield folder


def faults(binary, folder, empty):
    for line in COMMANDS:
        try:
            done = subprocess.run([binary, *line.split(), folder], cwd=empty, env=sandbox.environment(empty),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=sandbox.TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            yield f"{line}: no end"
            continue
        for said in done.stdout.decode("utf-8", "replace").split("\n"):
            if words.ONE.search(said) or (said.startswith("error: ") and any(r.search(said) for r in RIDDLES)):
                yield f"{line}: {said[:200]}"


def main():
    binary = os.path.abspath(sys.argv[1])
    found = list(samples([os.path.join(sandbox.ROOT, "testdata"), *sys.argv[2:]]))
    failed = 0
    print(f"1..{len(found)}")
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as empty:
        for index, folder in enumerate(found, 1):
            wrong = list(faults(binary, folder, empty))
            failed += bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {index} - {os.path.relpath(folder, sandbox.ROOT)}")
            for one in wrong:
                print(f"#  {one}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
