#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server searches leaks after each run that does not turn that off, whatever the process that started it turned off,
and undefined behaviour ends a run. Prints TAP.

leaks.py SERVER
"""

import os
import shutil
import subprocess
import sys
import tempfile

import serving

OFF = {"ASAN_OPTIONS": "detect_leaks=0"}
LEAKS = {"TEST_SERVER_LEAKS": "yes"}
OVERFLOWS = {"TEST_SERVER_OVERFLOWS": "yes"}


def status(command, **variables):
    with open(os.devnull, "r+b") as null:
        return serving.serve(command, [command, "version"], [null.fileno()] * 3, ".", 600, {}, {"LC_ALL": "C.UTF-8", **variables})[0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = os.path.join(folder, "test-server")  # a file of its own is a server of its own
        shutil.copy2(sys.argv[1], server)
        subprocess.run([server], env={**os.environ, **OFF}, check=True)
        command = os.path.join(folder, "fsdp-inspect")
        found = [
            ("a run without leaks ends with its status", status(command), 0),
            ("a leak is found", status(command, **LEAKS), 99),
            ("a leak is not searched if its run says so", status(command, **LEAKS, **OFF), 0),
            ("an overflow is found", status(command, **OVERFLOWS, **OFF), 99),
        ]
    print(f"1..{len(found)}")
    for number, (title, ended, expected) in enumerate(found, 1):
        print(f"{'ok' if ended == expected else 'not ok'} {number} - {title}\n#  status {ended}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
