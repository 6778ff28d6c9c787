#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pip installs the Python package whole, typed, and without a network.

install.py FOLDER: works on a copy, since a build leaves files beside its source. Skipped
where python has no pip or no setuptools: a build of its own would have to download them.
"""

import os
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
NAME = "fsdp_inspect_export"


def main():
    source = sys.argv[1]
    probe = "import sys, setuptools, pip; sys.exit(int(setuptools.__version__.split('.')[0]) < 61)"
    if subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL, check=False).returncode:
        print("no pip, or no setuptools of version 61")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        copy, target = os.path.join(folder, "copy"), os.path.join(folder, "target")
        shutil.copytree(source, copy)
        ran = subprocess.run(
            [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index",
             "--no-build-isolation", "--no-deps", "--no-compile", "--target", target, copy],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if ran.returncode:
            print(ran.stdout)
            return 1
        there = {n for n in os.listdir(os.path.join(source, NAME)) if not n.startswith("__pycache__")}
        installed = set(os.listdir(os.path.join(target, NAME)))
        if not there <= installed:
            print(f"not installed: {sorted(there - installed)}")
            return 1
        code = f"import {NAME} as e; assert e.__file__.startswith({target!r}), e.__file__; print(e.__version__)"
        return subprocess.run([sys.executable, "-B", "-c", code], env={**os.environ, "PYTHONPATH": target},
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
