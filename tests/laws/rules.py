#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule is raised: a row of lib/base/rules.def whose constant or id no code has says what is never
found."""

import re

import law

TABLE = "lib/base/rules.def"
# Names rules, and raises none.
OTHERS = ("lib/analysis/applies.c", TABLE)
ROW = re.compile(r'^FSDP_RULE\((\w+), "(FI\d+)"', re.M)


def check(root):
    if TABLE not in law.tracked(root):
        return []
    code = "\n".join(law.text(root, path) for path in law.tracked(root)
                     if path.startswith(("lib/", "cli/")) and path.endswith((".c", ".h", ".def")) and path not in OTHERS)
    broken = []
    for name, rule in ROW.findall(law.text(root, TABLE)):
        if re.search(rf'\b(?:FSDP_RULE_)?{name}\b|"{rule}"', code) is None:
            broken.append(f"{TABLE}: nothing raises {rule}")
    return broken


if __name__ == "__main__":
    law.main(check)
