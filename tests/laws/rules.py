#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule is raised and tried: a row of lib/base/rules.def whose constant or id no code has says what is never
found, and one that no test names may stop being found unseen. Of recordings the tests name what is told instead."""

import re

import law

TABLE = "lib/base/rules.def"
# Names rules, and raises none.
OTHERS = ("lib/audit/audit.c", TABLE)
ROW = re.compile(r'^FSDP_RULE\((\w+), "(FI\d+)", "([\w-]+)", \w+, "(\w+)"', re.M)
# Tests that look for findings; lists of all rules look for none.
TESTS = re.compile(r"tests/(unit|oracle|faults|cli|pinned)/(?!rules\.|help\.)")
MOST = 30  # rules that a pinned run may name and look for them


def check(root):
    if TABLE not in law.tracked(root):
        return []
    code = "\n".join(law.text(root, path) for path in law.tracked(root)
                     if path.startswith(("lib/", "cli/")) and path.endswith((".c", ".h", ".def")) and path not in OTHERS)
    cases = [case for path in law.tracked(root) if TESTS.match(path)
             for case in (law.text(root, path).split("\n# ") if path.startswith("tests/pinned/") else [law.text(root, path)])
             if not path.startswith("tests/pinned/") or len(set(re.findall(r"FI\d{4}", case))) <= MOST]
    tests = "\n".join(cases)
    # Sets of words: a search of megabytes for each of 150 rules takes most of a minute.
    named, raised = set(re.findall(r"[\w-]+", tests)), set(re.findall(r'\w+|"FI\d+"', code))
    broken = []
    for name, rule, slug, category in ROW.findall(law.text(root, TABLE)):
        if category != "recording" and not named & {rule, f"FSDP_RULE_{name}", slug} and \
                re.search(rf'\b({rule}|{slug})\b', tests) is None:
            broken.append(f"{TABLE}: no test names {rule} {slug}")
        if not raised & {name, f"FSDP_RULE_{name}", f'"{rule}"'}:
            broken.append(f"{TABLE}: nothing raises {rule}")
    return broken


if __name__ == "__main__":
    law.main(check)
