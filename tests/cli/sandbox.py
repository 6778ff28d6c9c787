# SPDX-License-Identifier: Apache-2.0
"""Runs the command the way every test sees it: in an empty folder of its own where the
samples are testdata/, with an environment that nobody's shell has touched."""

import os
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import serving  # noqa: E402

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TESTDATA = os.path.join(ROOT, "testdata")
KEPT = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "LD_LIBRARY_PATH")
TIMEOUT = 600
# What a shell would only split into words.
PLAIN = re.compile(r"""fsdp-inspect(?: (?:[-\w./=,:@%+^]+|'[^'\n]*'|"[^"$`\\\n]*"))*""")


def environment(folder, programs=None):
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {
        **kept,
        "PATH": f"{programs or folder + '/.bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
    }


def furnish(folder, binary, links):
    """testdata/, and the command under both names that a reader of our pages types."""
    binary = os.path.abspath(binary)
    for name, target in {**links, "testdata": TESTDATA}.items():
        os.symlink(target, os.path.join(folder, name))
    os.mkdir(os.path.join(folder, ".bin"))
    os.symlink(binary, os.path.join(folder, ".bin", "fsdp-inspect"))
    os.mkdir(os.path.join(folder, "scripts"))
    os.symlink(binary, os.path.join(folder, "scripts", "run"))


def run_in(folder, binary, line, leaks=True, programs=None):
    """(stdout, stderr, status) of a shell line in a folder that is furnished, or has testdata/ and gets the command from
    the folder `programs`. A signal is a status below zero."""
    env = environment(folder, programs) | ({} if leaks else {"ASAN_OPTIONS": "detect_leaks=0"})
    if PLAIN.fullmatch(line) and os.path.exists(serving.server_of(binary)):
        return serving.run(binary, shlex.split(line), folder, TIMEOUT, env)
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=folder, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=TIMEOUT, check=False,
        )
    except subprocess.TimeoutExpired as late:
        return late.stdout or b"", b"(no end after %d seconds)\n" % TIMEOUT, -1
    return done.stdout, done.stderr, done.returncode


def run(binary, line, links=None):
    """The same in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as folder:
        furnish(folder, binary, links or {})
        return run_in(folder, binary, line)
