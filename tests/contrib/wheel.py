#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wheel has the command and the package in it, is the same each time, and works alone.

wheel.py ROOT BINARY: the command of this build stands for the static one.
"""

import glob
import os
import subprocess
import sys
import tempfile

SKIP = 77
CODE = """
import os, sys
import fsdp_inspect
assert fsdp_inspect.binary() == os.path.join(sys.argv[1], "bin", "fsdp-inspect"), fsdp_inspect.binary()
ck = fsdp_inspect.open(sys.argv[2])
assert (ck.step, len(ck["model.embed.weight"][0:8])) == (1234, 8)
"""


def make(root, binary, out):
    os.mkdir(out)
    subprocess.run([sys.executable, os.path.join(root, "scripts", "wheel.py"), binary, out], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    return glob.glob(os.path.join(out, "*.whl"))[0]


def main():
    root, binary = sys.argv[1:]
    if sys.version_info < (3, 11):
        print("this python has no tomllib")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        wheels = [make(root, binary, os.path.join(folder, name)) for name in ("one", "two")]
        with open(wheels[0], "rb") as one, open(wheels[1], "rb") as two:
            assert one.read() == two.read(), "two wheels differ"
        site = os.path.join(folder, "site")
        python = next((p for p in (sys.executable, "/usr/bin/python3")
                       if subprocess.run([p, "-c", "import pip"], stderr=subprocess.DEVNULL, check=False).returncode == 0), None)
        if python is None:
            print("no python with pip")
            return SKIP
        subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index",
                        "--no-deps", "--no-compile", "--target", site, wheels[0]], check=True)
        demo = os.path.join(root, "testdata", "demo", "step-1234")
        return subprocess.run([sys.executable, "-B", "-c", CODE, site, demo], check=False,
                              env={**os.environ, "PYTHONPATH": site}).returncode


if __name__ == "__main__":
    sys.exit(main())
