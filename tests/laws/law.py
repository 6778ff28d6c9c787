# SPDX-License-Identifier: Apache-2.0
"""What the laws share: where the tree is, which files are its own, how a verdict is said.

A law is a function from a tree to a list of lines, one for each place that breaks it. No
lines, no breach. selftest.py shows each law a tree that breaks it.
"""

import os
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SKIP = 77


def tracked(root):
    """Paths of the project's files under `root`: git's word for it, else (a release
    tarball, a made-up tree) every file that is not in a hidden or a build folder."""
    listing = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ) if os.path.exists(os.path.join(root, ".git")) else None
    if listing and listing.returncode == 0:
        names = listing.stdout.decode("utf-8", "surrogateescape").split("\0")
        return sorted(n for n in names if n and os.path.isfile(os.path.join(root, n)))
    found = []
    for folder, folders, names in os.walk(root):
        if folder == root:
            folders[:] = [f for f in folders if f != ".git" and not f.startswith("build")]
        folders[:] = [f for f in folders if f != "__pycache__"]
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return sorted(found)


def text(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape") as stream:
        return stream.read()


def verdict(lines):
    for line in lines:
        print(line)
    return 1 if lines else 0


def main(*checks):
    root = sys.argv[1] if len(sys.argv) > 1 else ROOT
    sys.exit(verdict([line for check in checks for line in check(root)]))
