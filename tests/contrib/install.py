#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pip installs the Python package whole, typed, and without a network.

install.py FOLDER: works on a copy, since a build leaves files beside its source. Skipped
where no python has pip and what builds a wheel: pip would have to download that.
"""

import os
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
NAMES = ("fsdp_inspect", "fsdp_inspect_export")
# Until 70.1 setuptools had the command that builds a wheel from another package.
PROBE = """
import setuptools
import pip
version = tuple(int(part) for part in setuptools.__version__.split(".")[:2])
if version < (70, 1):
    import wheel
assert version >= (61, 0)
"""


def builder():
    """The python that can build the package; None if there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", PROBE], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return python
        except OSError:
            pass
    return None


def installed(source, target, name):
    """Status 0 if all files of the package are there, and it is the one that is imported."""
    there = {n for n in os.listdir(os.path.join(source, name)) if not n.startswith("__pycache__")}
    lacking = there - set(os.listdir(os.path.join(target, name)))
    if lacking:
        print(f"not installed: {sorted(lacking)}")
        return 1
    code = f"import {name} as e; assert e.__file__.startswith({target!r}), e.__file__; print(e.__version__)"
    return subprocess.run([sys.executable, "-B", "-c", code], env={**os.environ, "PYTHONPATH": target},
                          check=False).returncode


def main():
    source = sys.argv[1]
    python = builder()
    if python is None:
        print("no python with pip, setuptools of version 61 and wheel")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        copy, target = os.path.join(folder, "copy"), os.path.join(folder, "target")
        shutil.copytree(source, copy)
        ran = subprocess.run(
            [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index",
             "--no-build-isolation", "--no-deps", "--no-compile", "--target", target, copy],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if ran.returncode:
            print(ran.stdout)
            return 1
        return max(installed(source, target, name) for name in NAMES)


if __name__ == "__main__":
    sys.exit(main())
