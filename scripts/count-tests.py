#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count-tests.py [--ran=NAME]… LOG:STATUS…  : one line, N passed, N failed, N skipped
count-tests.py --failures LOG  : what failed, a line for each behavior and what was seen

LOG is what `meson test` wrote, without .json and .junit.xml, STATUS what that ended with.
Subtests are counted where a test names them (TAP), else the test itself. A test that
failed without a failing subtest (it crashed, or ended with a status) counts as one failure
more, and so does a run that failed without saying where: silence is never a pass. Before
that line stands what was skipped, and why. A NAME that no test had counts as a failure.
"""

import collections
import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}


SEEN = 30  # lines of a failure that are printed


def records(log):
    path = log + ".json"
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        return [json.loads(line) for line in stream]


def subtests(log):
    """Name of a TAP test -> results of its subtests."""
    path = log + ".junit.xml"
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


def short_name(test):
    return test["name"].rpartition("/")[2].strip()


def reasons(test):
    """Why a test, or some of its subtests, was skipped."""
    lines = [line for line in test.get("stdout", "").splitlines() if line.strip()]
    found = collections.Counter(line.partition("# SKIP")[2].strip() for line in lines if "# SKIP" in line)
    if not found and test["result"] in SKIPPED:
        found[lines[-1] if lines else "no reason given"] = 1
    return found


def print_skipped(test):
    for reason, number in reasons(test).items():
        print(f"skipped: {short_name(test)}: {reason}" + (f" ({number} times)" if number > 1 else ""))


def print_failures(log):
    """A line for each behavior that broke, and below it what the test printed about it."""
    for test in records(log):
        if test["result"] in PASSED | SKIPPED:
            continue
        lines, i, named = test.get("stdout", "").splitlines(), 0, False
        while i < len(lines):
            number_and_title = re.fullmatch(r"\s*not ok \d+(?: -)? (.*)", lines[i])
            i += 1
            if not number_and_title:
                continue
            named = True
            print(f"FAILED: {short_name(test)}: {number_and_title[1]}")
            end = i
            while end < len(lines) and lines[end].lstrip().startswith("#"):
                end += 1
            print_seen(lines[i:end])
            i = end
        if not named:
            print(f"FAILED: {short_name(test)}: {test['result'].lower()}, status {test.get('returncode')}")
            print_seen((lines + test.get("stderr", "").splitlines())[-SEEN:])


def print_seen(lines):
    for line in lines[:SEEN]:
        print(f"    {line}")
    if len(lines) > SEEN:
        print(f"    ({len(lines) - SEEN} more lines in the log)")


def count(log, status):
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    inner = subtests(log)
    for test in records(log):
        print_skipped(test)
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
    if sys.argv[1:2] == ["--failures"]:
        return print_failures(sys.argv[2])
    arguments, wanted, ran = sys.argv[1:], [], set()
    while arguments and arguments[0].startswith("--ran="):
        wanted.append(arguments.pop(0)[len("--ran="):])
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    for argument in arguments:
        log, _, status = argument.rpartition(":")
        ran.update(short_name(test) for test in records(log))
        for word, number in count(log, int(status)).items():
            totals[word] += number
    for name in wanted:
        if name.rpartition(":")[2] not in ran | {""}:
            print(f"FAILED: of what was to run no test is called {name}")
            totals["failed"] += 1
    print(", ".join(f"{totals[word]} {word}" for word in ("passed", "failed", "skipped")))
    # A run of nothing proves nothing.
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
