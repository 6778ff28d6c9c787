#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header stands alone, twice, in C and in C++.

headers.py [ROOT [COMPILER…]]: a compiler whose name ends in ++ gets C++.
"""

import os
import subprocess
import sys

import law


def compile_alone(root, header, compiler):
    plus = compiler.rstrip("0123456789.-").endswith("++")
    command = compiler.split() + [
        "-x", "c++" if plus else "c", "-std=c++11" if plus else "-std=c11",
        "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
        "-I", os.path.join(root, "lib", "include"), "-",
    ]
    result = subprocess.run(
        command, input=f"#include <{header}>\n" * 2, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )
    if result.returncode == 0:
        return []
    words = result.stdout.strip().split("\n")
    first = next((w for w in words if "error:" in w), words[0])
    return [f"lib/include/{header} alone with {compiler}: {first}"]


def check(root, compilers=("cc", "c++")):
    broken = []
    for path in law.tracked(root):
        if path.startswith("lib/include/") and path.endswith(".h"):
            for compiler in compilers:
                broken += compile_alone(root, path[len("lib/include/"):], compiler)
    return broken


if __name__ == "__main__":
    sys.exit(law.verdict(check(sys.argv[1] if len(sys.argv) > 1 else law.ROOT, sys.argv[2:] or ("cc", "c++"))))
