#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every limit is read: a row of lib/base/limits.def that nothing asks for bounds nothing, and a
row that no test sets has an edge that nothing watched."""

import re

import law

TABLE = "lib/base/limits.def"
ROW = re.compile(r'^FSDP_LIMIT\((\w+), "([\w-]+)"', re.M)


def check(root):
    broken, sources, tests = [], [], []
    for path in law.tracked(root):
        if path.startswith(("lib/", "cli/")) and path.endswith((".c", ".h")) and path != "lib/base/arena.h":
            sources.append(law.text(root, path))
        elif path.startswith("tests/") and not path.startswith(("tests/corpus/", "tests/laws/")):
            tests.append(law.text(root, path))
    code, tried = "\n".join(sources), "\n".join(tests)
    words = set(re.findall(r"\w+", code))
    for name, text in ROW.findall(law.text(root, TABLE)):
        asked = f"FSDP_LIMIT_{name}" in words or f'input_limit(&common->limits, "{text}")' in code
        if not asked:
            broken.append(f"{TABLE}: nothing reads {text}")
        if text not in tried:
            broken.append(f"{TABLE}: no test sets {text}")
    return broken


if __name__ == "__main__":
    law.main(check)
