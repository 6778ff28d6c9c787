#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tested.py [TREE]: what the tests of a tree hold, one thing a line, sorted. The lines of two trees are compared with
diff or comm: what only the older one has lost its test, or left with the feature that it was of.

  rule FI1001 SUITE     a rule, and the suite that finds it in a sample
  near-miss FI1001      a rule with a sample that trips it and one that almost does
  truth PATH            a sample whose tensors or events a library of its own wrote down
  sample PATH           a sample that a test names
  corpus NAME           a decoder whose inputs are replayed, if there are any
  line PAGE: $ COMMAND  a command that a page shows and a test runs
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "laws"))

import law
from rules import MOST

SUITE = re.compile(r"tests/(unit|oracle|faults|cli|pinned)/(?!rules[./]|help[./])")
TRIED = "tests/cli/rule_examples.py"
SAMPLE = re.compile(r"testdata/((?:[\w-]+/)+[\w-]+)")


def of_test(path, text):
    suite = SUITE.match(path)[1]
    # Before they stood in one file for each command, each pinned run had a folder.
    if re.match(r"tests/cli/\w+/[^/]+/\w+$", path):
        suite = "pinned"
    for case in text.split("\n# ") if path.startswith("tests/pinned/") else [text]:
        named = set(re.findall(r"\bFI\d{4}\b", case))
        if suite != "pinned" or len(named) <= MOST:
            yield from (f"rule {one} {suite}" for one in named)
    yield from (f"sample {one}" for one in SAMPLE.findall(text))
    if path == TRIED:
        yield from (f"near-miss {one}" for one in re.findall(r'\("(FI\d{4})", "\w+", ', text))


def of_page(path, text):
    inside = False
    for line in text.split("\n"):
        if line.startswith("```"):
            inside = line == "```" and not inside
        elif inside and line.startswith("$ "):
            yield f"line {path}: {line}"


def tested(root):
    for path in law.tracked(root):
        if SUITE.match(path):
            yield from of_test(path, law.text(root, path))
        elif path == "README.md" or re.match(r"doc/.*\.md$", path):
            yield from of_page(path, law.text(root, path))
        elif re.match(r"testdata/.*truth\.json$", path):
            yield f"truth {path}"
        elif re.match(r"tests/corpus/[^/]+/", path):
            yield f"corpus {path.split('/')[2]}"


if __name__ == "__main__":
    print("\n".join(sorted(set(tested(sys.argv[1] if len(sys.argv) > 1 else ROOT)))))
