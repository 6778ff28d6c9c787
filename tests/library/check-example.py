#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of libfsdpinspect(3) prints what the samples are known to hold.

check-example.py PROGRAM TESTDATA
"""

import json
import os
import subprocess
import sys


def run(program, path):
    return subprocess.run([program, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def main():
    program, testdata = sys.argv[1:]
    folder = os.path.join(testdata, "torch-zip", "all-dtypes")
    with open(os.path.join(folder, "expected", "truth.json"), encoding="utf-8") as stream:
        truth = json.load(stream)
    due = {f"{tensor['clean_fqn']} {tensor['dtype'].replace('torch.', '')} {'x'.join(map(str, tensor['shape']))}"
           for tensor in truth["tensors"]}
    good = run(program, os.path.join(folder, "model.pt"))
    assert good.returncode == 0, good
    assert set(good.stdout.splitlines()) == due, set(good.stdout.splitlines()) ^ due
    bad = run(program, os.path.join(testdata, "nosuch"))
    assert (bad.returncode, bad.stdout, bad.stderr) == (1, "", "no such file\n"), bad
    return 0


if __name__ == "__main__":
    sys.exit(main())
