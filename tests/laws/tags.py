#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One tag, one struct: no tag of a struct, union or enum is defined twice, not even in two
files that never meet."""

import re

import law

FOLDERS = ("lib/", "cli/")
# Defined twice now; each is to get a name that says more, here or there.
TWICE = {
    "cell", "check", "held", "item", "join", "key", "list", "listing", "open", "pattern", "place",
    "question", "row", "run", "shown", "slot", "token", "use", "walk",
}

DEFINED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")


def check(root):
    broken, first, again = [], {}, set()
    for path in law.tracked(root):
        if not path.startswith(FOLDERS) or not path.endswith((".c", ".h")):
            continue
        for number, line in enumerate(law.text(root, path).split("\n"), 1):
            for tag in DEFINED.findall(line):
                if tag in first and tag not in TWICE:
                    broken.append(f"{path}:{number}: {tag} is defined in {first[tag]} already")
                if tag in first:
                    again.add(tag)
                first.setdefault(tag, f"{path}:{number}")
    return broken + [f"{first[tag]}: {tag} is defined once, and listed in the law" for tag in TWICE & set(first) - again]


if __name__ == "__main__":
    law.main(check)
