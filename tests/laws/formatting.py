#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""C files look as .clang-format says. Only version 14 is asked: others differ."""

import re
import shutil
import subprocess
import sys

import law


def formatter():
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            said = subprocess.run([name, "--version"], stdout=subprocess.PIPE, text=True, check=True)
            if re.search(r"version 14\.", said.stdout):
                return name
    return None


def check(root):
    files = [
        p for p in law.tracked(root)
        if p.startswith(("lib/", "cli/", "tests/", "bench/")) and p.endswith((".c", ".h"))
    ]
    if not files:
        return []
    said = subprocess.run(
        [formatter(), "--dry-run", "-Werror", "--style=file"] + files, cwd=root,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    ).stdout
    places = re.findall(r"^(\S+?:\d+):\d+: error: ", said, re.MULTILINE)
    return [f"{place}: not as .clang-format says" for place in dict.fromkeys(places)]


if __name__ == "__main__":
    if formatter() is None:
        print("no clang-format of version 14")
        sys.exit(law.SKIP)
    law.main(check)
