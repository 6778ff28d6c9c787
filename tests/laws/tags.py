#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One tag, one struct: no tag of a struct, union or enum is defined twice, not even in two
files that never meet."""

import re

import law

FOLDERS = ("lib/",)

DEFINED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")


def check(root):
    broken, first = [], {}
    for path in law.tracked(root):
        if not path.startswith(FOLDERS) or not path.endswith((".c", ".h")):
            continue
        for number, line in enumerate(law.text(root, path).split("\n"), 1):
            for tag in DEFINED.findall(line):
                if tag in first:
                    broken.append(f"{path}:{number}: {tag} is defined in {first[tag]} already")
                first.setdefault(tag, f"{path}:{number}")
    return broken


if __name__ == "__main__":
    law.main(check)
