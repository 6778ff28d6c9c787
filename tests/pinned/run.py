#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pinned runs: tests/pinned/COMMAND.txt holds cases, one behind the other, each with a title, a shell line and what it
must give. Prints TAP.

run.py [--update] [--list] [--leaks] BINARY [CASE...]
  CASE is COMMAND or "COMMAND: TITLE", or a glob of these. --update writes down what the binary prints now, also for a
  case of which only the title and the command are written; read the diff before you commit it.
  --leaks searches leaks after each case. Without it one in 32 is searched, and the first of each command, because the search takes as long as the run.

A case, and what its lines begin with:

  # a folder without tensors ends with status 1       the title: one behaviour
  @ NAME [WORD...]                                    a function of samples/ that makes files before
  $ fsdp-inspect audit empty                          the command, with `> ` before its further lines
    bad. 1 finding                                    two spaces: standard output
  ! fsdp-inspect: note: nothing read                  standard error
  = 1                                                 the status, if it is not 0

Of the command line a case may pipe what `show --json` prints through `brief`, which has a line for each tensor.

Where a line has bytes that no text has, or no end, it begins with `\\ ` (output) or `!\\` (error) and is written as Python
writes bytes, with \\n where it ends.
"""

import argparse
import concurrent.futures
import dataclasses
import difflib
import fnmatch
import functools
import glob
import os
import shutil
import sys
import tempfile
import threading
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOM = 1 << 30  # bytes
ONE_AT_A_TIME = threading.Lock()
sys.path[:0] = [HERE, os.path.join(HERE, "..", "cli")]
import samples  # noqa: E402
import sandbox  # noqa: E402


@dataclasses.dataclass
class Case:
    title: str
    samples: tuple = ()
    command: str = ""
    stdout: bytes = b""
    stderr: bytes = b""
    status: int = 0


def parse(text):
    """The cases of a file. Fails at a line that is none of a case."""
    cases = []
    for number, line in enumerate(text.split("\n"), 1):
        mark, rest = line[:2], line[2:]
        if line == "":
            continue
        if mark == "# ":
            cases.append(Case(rest))
            continue
        case = cases[-1]
        if mark == "@ ":
            case.samples += (rest,)
        elif mark == "$ ":
            case.command = rest
        elif mark == "> ":
            case.command += "\n" + rest
        elif mark == "  ":
            case.stdout += rest.encode() + b"\n"
        elif mark == "! ":
            case.stderr += rest.encode() + b"\n"
        elif mark == "\\ ":
            case.stdout += unescaped(rest)
        elif mark == "!\\":
            case.stderr += unescaped(rest)
        elif mark == "= ":
            case.status = int(rest)
        else:
            raise ValueError(f"line {number}: {line!r}")
    return cases


def unescaped(text):
    return text.encode("ascii").decode("unicode_escape").encode("latin-1")


def is_plain(line):
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return False
    return text.endswith("\n") and text[:-1].replace("\t", "").isprintable()


def written(content, mark, mark_escaped):
    at = 0
    while at < len(content):
        end = content.find(b"\n", at) + 1 or len(content)
        line = content[at:end]
        if is_plain(line):
            yield mark + line.decode()
        else:
            yield mark_escaped + ascii(line)[2:-1].replace("\\'", "'").replace('\\"', '"') + "\n"
        at = end


def text_of(case):
    yield f"# {case.title}\n"
    yield from (f"@ {line}\n" for line in case.samples)
    first, *more = case.command.split("\n")
    yield f"$ {first}\n"
    yield from (f"> {line}\n" for line in more)
    yield from written(case.stdout, "  ", "\\ ")
    yield from written(case.stderr, "! ", "!\\")
    if case.status != 0:
        yield f"= {case.status}\n"


def files():
    """(command, path) of each file."""
    for path in sorted(glob.glob(os.path.join(HERE, "*.txt"))):
        yield os.path.basename(path)[:-len(".txt")], path


def read(path):
    with open(path, encoding="utf-8", newline="\n") as stream:
        return parse(stream.read())


def write(path, cases):
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        stream.write("\n".join("".join(text_of(case)) for case in cases))


def cases():
    """(command, case) of all files."""
    return [(command, case) for command, path in files() for case in read(path)]


def name_of(command, case):
    return f"{command}: {case.title}"


def is_wanted(wanted, command, case):
    return not wanted or any(one == command or fnmatch.fnmatch(name_of(command, case), one) for one in wanted)


@functools.cache
def in_memory():
    """A folder in which files take no work of a disk, if there is room."""
    memory = "/dev/shm"
    if os.path.ismount(memory) and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= ROOM:
        return memory
    return None


@functools.cache
def programs(binary):
    """A folder for PATH with the command and `brief`, until the end."""
    folder = tempfile.TemporaryDirectory(prefix="fsdp-inspect-")
    for name, target in (("fsdp-inspect", os.path.abspath(binary)), ("brief", os.path.join(HERE, "brief"))):
        os.symlink(target, os.path.join(folder.name, name))
    return folder


def run(binary, case, leaks=True):
    with ONE_AT_A_TIME:
        path = programs(binary).name
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-", dir=in_memory()) as folder:
        os.symlink(sandbox.TESTDATA, os.path.join(folder, "testdata"))
        samples.make(folder, case.samples)
        done = sandbox.run_in(folder, binary, case.command, leaks, path)
    return dataclasses.replace(case, **dict(zip(("stdout", "stderr", "status"), done)))


def difference(case, now):
    if case == now:
        return []
    return list(difflib.unified_diff(*("".join(text_of(one)).splitlines() for one in (case, now)), lineterm="", n=1))[2:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--leaks", action="store_true")
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()

    found = [pair for pair in cases() if is_wanted(options.case, *pair)]
    if options.list:
        print("\n".join(name_of(*pair) for pair in found))
        return 0
    print(f"1..{len(found)}" if found else "1..0 # SKIP no case")
    failed = 0
    first = dict(reversed(found))

    def searched(command, case):
        return options.leaks or case is first[command] or zlib.crc32(case.title.encode()) % 32 == 0

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = list(pool.map(lambda pair: run(options.binary, pair[1], searched(*pair)), found))
    for number, (pair, now) in enumerate(zip(found, runs), 1):
        lines = difference(pair[1], now)
        failed += bool(lines)
        print(f"{'not ok' if lines else 'ok'} {number} - {name_of(*pair)}".replace("#", ""))
        for line in lines[:40]:
            print("#  " + line)
    if options.update:
        changed = {name_of(*pair): now for pair, now in zip(found, runs)}
        for command, path in files():
            write(path, [changed.get(name_of(command, case), case) for case in read(path)])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
