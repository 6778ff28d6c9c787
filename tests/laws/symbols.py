#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The silent library: it never prints, ends the process, asks the environment, changes
what belongs to the process, or runs anything; and each of its names begins with fsdp_.

symbols.py ARCHIVE: a static archive of the library's own objects.
"""

import re
import subprocess
import sys

import law

FORBIDDEN = re.compile(
    r"printf|vprintf|fprintf|vfprintf|dprintf|vdprintf|puts|fputs|putchar|putc|fputc|fwrite|perror"
    r"|stdout|stderr|err|errx|warn|warnx|syslog"
    r"|exit|_exit|_Exit|quick_exit|atexit|abort|raise|kill|longjmp"
    r"|getenv|secure_getenv|setenv|putenv|unsetenv|environ"
    r"|setlocale|uselocale|signal|sigaction|sigprocmask|chdir|fchdir|umask|srand|srandom"
    r"|system|popen|fork|vfork|clone|posix_spawnp?|(f?exec[vl][a-z]*)|dlopen|dlmopen"
    r"|socket|connect"
)
# It stays in the library: what runs within fsdp_arena_try is left (base/arena.h).
ALLOWED = {("base_arena.c.o", "longjmp")}
# What the sanitizers add to our objects.
TOOLS = re.compile(r"__odr_asan.*|__asan_.*|__ubsan_.*|__sanitizer_.*|_sub_.*")


def nm(archive, *options):
    """(object, name) of each symbol."""
    out = subprocess.run(
        ["nm", "-A", "-P", *options, archive], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    for line in out.splitlines():
        place, _, rest = line.partition(": ")
        yield place.rsplit("[", 1)[-1].rstrip("]"), rest.split()[0].split("@")[0]


def plain(name):
    """The function behind a fortified or a 64-bit name."""
    found = re.fullmatch(r"__(.*)_chk", name)
    return found.group(1) if found else re.sub(r"64$", "", name)


def check(archive):
    broken = []
    for place, name in nm(archive, "-u"):
        if FORBIDDEN.fullmatch(plain(name)) and not any(
            place.endswith(file) and plain(name) == allowed for file, allowed in ALLOWED
        ):
            broken.append(f"{place}: the library may not use {name}")
    for place, name in nm(archive, "-g", "--defined-only"):
        if not name.startswith("fsdp_") and not TOOLS.fullmatch(name):
            broken.append(f"{place}: {name} does not begin with fsdp_")
    return broken


if __name__ == "__main__":
    sys.exit(law.verdict(check(sys.argv[1])))
