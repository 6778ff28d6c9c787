#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""C files look as .clang-format says. Only version 14 is asked: others differ. It leaves comments as they are: their
lines end at column 90 too, except tables and what another program printed.

formatting.py [ROOT [KEPT]]: in the file KEPT stands what was seen to be well formed, as a hash of the formatter, the
style and the bytes of a file: such a file is not formatted again, whatever its name and time."""

import concurrent.futures
import hashlib
import os
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


def content(path):
    with open(path, "rb") as stream:
        return stream.read()


def hashes(root, files):
    """Of each file, with all that decides how it should look."""
    said = subprocess.run([formatter(), "--version"], stdout=subprocess.PIPE, check=True).stdout
    style = os.path.join(root, ".clang-format")
    before = hashlib.sha256(said + (content(style) if os.path.exists(style) else b"") + b"\0")
    for path in files:
        found = before.copy()
        found.update(content(os.path.join(root, path)))
        yield found.hexdigest()


def said_of(root, files):
    done = subprocess.run(
        [formatter(), "--dry-run", "-Werror", "--style=file"] + files, cwd=root,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )
    if done.returncode != 0 and not done.stdout:
        raise ChildProcessError(f"{formatter()} ended with status {done.returncode}")
    return done.stdout


COLUMNS = 90
VERBATIM = re.compile(r"\s*\*(\t|   )|\S {3,}\S|\S\t|[^ ]{60}")


def wide_comments(root, files):
    for path in files:
        for number, line in enumerate(law.text(root, path).splitlines(), 1):
            if len(line) > 70 and line.lstrip().startswith(("* ", "/*")) and \
                    len(line.expandtabs(8)) > COLUMNS and not VERBATIM.search(line.lstrip("\t")):
                yield f"{path}:{number}: a comment that is wider than {COLUMNS} columns"


def check(root, kept=None):
    files = [
        p for p in law.tracked(root)
        if p.startswith(("lib/", "cli/", "tests/", "bench/")) and p.endswith((".c", ".h"))
    ]
    if not files:
        return []
    hash_of = dict(zip(files, hashes(root, files)))
    known = set(law.text("", kept).split()) if kept and os.path.exists(kept) else set()
    todo = [path for path in files if hash_of[path] not in known]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = "".join(pool.map(lambda at: said_of(root, todo[at:at + 16]), range(0, len(todo), 16)))
    places = dict.fromkeys(re.findall(r"^(\S+?:\d+):\d+: error: ", said, re.MULTILINE))
    if kept and todo and not said:
        with open(kept + ".new", "w", encoding="ascii") as stream:
            stream.writelines(found + "\n" for found in hash_of.values())
        os.replace(kept + ".new", kept)
    return [f"{place}: not as .clang-format says" for place in places] + list(wide_comments(root, files))


if __name__ == "__main__":
    if formatter() is None:
        print("no clang-format of version 14")
        sys.exit(law.SKIP)
    sys.exit(law.verdict(check(sys.argv[1] if len(sys.argv) > 1 else law.ROOT, *sys.argv[2:3])))
