#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pinned runs: each folder tests/cli/COMMAND/CASE holds `cmd`, a shell line, and what it
must give: `stdout`, `stderr` (absent: empty) and `exit` (absent: 0). Prints TAP.

run-goldens.py [--update] [--list] BINARY [CASE…]
  CASE is COMMAND, COMMAND/CASE or a glob of these. --update writes down what the
  binary says now; read the diff before you commit it.
"""

import argparse
import concurrent.futures
import difflib
import fnmatch
import os
import sys

import sandbox

HERE = os.path.dirname(os.path.abspath(__file__))


def cases(wanted):
    for command in sorted(os.listdir(HERE)):
        folder = os.path.join(HERE, command)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            case = f"{command}/{name}"
            if not os.path.exists(os.path.join(folder, name, "cmd")):
                continue
            if not wanted or any(w == command or fnmatch.fnmatch(case, w) for w in wanted):
                yield case


def recorded(case, part):
    try:
        with open(os.path.join(HERE, case, part), "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return b"0\n" if part == "exit" else b""


def record(case, part, content):
    path = os.path.join(HERE, case, part)
    if content == (b"0\n" if part == "exit" else b""):
        if os.path.exists(path):
            os.remove(path)
    elif content != recorded(case, part):
        with open(path, "wb") as stream:
            stream.write(content)


def said(binary, case):
    out, err, status = sandbox.run(binary, recorded(case, "cmd").decode())
    return {"stdout": out, "stderr": err, "exit": b"%d\n" % status}


def difference(case, parts):
    """Lines that tell a reader what changed; none if nothing did."""
    for part, content in parts.items():
        expected = recorded(case, part)
        if content == expected:
            continue
        lines = [text.decode("utf-8", "backslashreplace").splitlines() for text in (expected, content)]
        shown = list(difflib.unified_diff(*lines, f"{case}/{part}", "now", lineterm="", n=1))
        yield from shown[:40] or [f"{case}/{part}: differs in its line ends"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("binary")
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()

    found = list(cases(options.case))
    if options.list:
        print("\n".join(found))
        return 0
    print(f"1..{len(found)}" if found else "1..0 # SKIP no case")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda case: said(options.binary, case), found)
        for number, (case, parts) in enumerate(zip(found, runs), 1):
            if options.update:
                for part, content in parts.items():
                    record(case, part, content)
            lines = list(difference(case, parts))
            failed += bool(lines)
            print(f"{'not ok' if lines else 'ok'} {number} - {case}")
            for line in lines:
                print("#  " + line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
