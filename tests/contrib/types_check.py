#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mypy --strict finds nothing in the Python package, nor in the examples of its page.

types_check.py FOLDER CACHE: skipped where neither this Python nor PATH has mypy.
"""

import os
import shutil
import subprocess
import sys
import tempfile

SKIP = 77


def examples(page):
    """Blocks of Python; what is not theirs to define comes from a line before them."""
    with open(page, encoding="utf-8") as stream:
        blocks = [part.split("```")[0] for part in stream.read().split("```python\n")[1:]]
    return [block for block in blocks if "fsdp_inspect" in block]


def main():
    folder, cache = sys.argv[1:]
    mypy = [shutil.which("mypy")]
    if mypy == [None]:
        mypy = [sys.executable, "-m", "mypy"]
        if subprocess.run([*mypy, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
            print("no mypy")
            return SKIP
    bad = subprocess.run([*mypy, "--cache-dir", cache], cwd=folder, check=False).returncode
    with tempfile.TemporaryDirectory() as made:
        files = []
        for number, block in enumerate(examples(os.path.join(folder, "README.md"))):
            files.append(os.path.join(made, f"example{number}.py"))
            with open(files[-1], "w", encoding="utf-8") as stream:
                stream.write("from typing import Any\nmodel: Any = None\ntrain: Any = None\nsave: Any = None\noptimizer: Any = None\n" + block)
        assert len(files) == 2, "examples of the page"
        bad |= subprocess.run([*mypy, "--config-file", os.path.join(folder, "pyproject.toml"), "--strict", "--cache-dir", cache, *files],
                              env={**os.environ, "MYPYPATH": folder}, check=False).returncode
    return bad


if __name__ == "__main__":
    sys.exit(main())
