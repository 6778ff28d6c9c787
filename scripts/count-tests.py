#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count-tests.py FOLDER:STATUS… : one line, N passed, N failed, N skipped.

FOLDER is a build folder after `meson test`, STATUS what that ended with. Subtests are
counted where a test names them (TAP), else the test itself. A test that failed without
a failing subtest (it crashed, or ended with a status) counts as one failure more, and so
does a run that failed without saying where: silence is never a pass. Before that line
stands what was skipped, and why.
"""

import collections
import json
import os
import sys
import xml.etree.ElementTree as ElementTree

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}


def subtests(folder):
    """Name of a TAP test -> results of its subtests."""
    path = os.path.join(folder, "meson-logs", "testlog.junit.xml")
    found = {}
    if not os.path.exists(path):
        return found
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        project, dot, name = suite.get("name").partition(".")
        if not dot:
            continue
        results = found.setdefault(name, [])
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                results.append("failed")
            elif case.find("skipped") is not None:
                results.append("skipped")
            else:
                results.append("passed")
    return found


def reasons(test):
    """Why a test, or some of its subtests, was skipped."""
    lines = [line for line in test.get("stdout", "").splitlines() if line.strip()]
    found = collections.Counter(line.partition("# SKIP")[2].strip() for line in lines if "# SKIP" in line)
    if not found and test["result"] in SKIPPED:
        found[lines[-1] if lines else "no reason given"] = 1
    return found


def tell_skipped(test):
    name = test["name"].rpartition("/")[2].strip()
    for reason, number in reasons(test).items():
        print(f"skipped: {name}: {reason}" + (f" ({number} times)" if number > 1 else ""))


def count(folder, status):
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    path = os.path.join(folder, "meson-logs", "testlog.json")
    if os.path.exists(path):
        inner = subtests(folder)
        for line in open(path, encoding="utf-8", errors="surrogateescape"):
            test = json.loads(line)
            tell_skipped(test)
            results = inner.get(test["name"], [])
            for result in results:
                totals[result] += 1
            if test["result"] in PASSED | SKIPPED:
                if not results:
                    totals["passed" if test["result"] in PASSED else "skipped"] += 1
            elif "failed" not in results:
                totals["failed"] += 1
    if status != 0 and totals["failed"] == 0:
        totals["failed"] = 1
    return totals


def main():
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    for argument in sys.argv[1:]:
        folder, _, status = argument.rpartition(":")
        for word, number in count(folder, int(status)).items():
            totals[word] += number
    print(", ".join(f"{totals[word]} {word}" for word in ("passed", "failed", "skipped")))
    # A run of nothing proves nothing.
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
