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
# These wait for `audit`, which looks at more than reading needs.
WAITING = {
    "FI1045": "the parts of a sparse or quantised tensor are set against each other",
    "FI4010": "the states of a tensor are judged",
}


def check(root):
    if TABLE not in law.tracked(root):
        return []
    code = "\n".join(law.text(root, path) for path in law.tracked(root)
                     if path.startswith(("lib/", "cli/")) and path.endswith((".c", ".h", ".def")) and path not in OTHERS)
    broken = []
    for name, rule in ROW.findall(law.text(root, TABLE)):
        raised = re.search(rf'\b(?:FSDP_RULE_)?{name}\b|"{rule}"', code) is not None
        if not raised and rule not in WAITING:
            broken.append(f"{TABLE}: nothing raises {rule}")
        elif raised and rule in WAITING:
            broken.append(f"{TABLE}: {rule} is raised, and waits no more")
    return broken


if __name__ == "__main__":
    law.main(check)
