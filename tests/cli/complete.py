#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""complete.py SCRIPT LINE...: what each line becomes after a tab in an interactive bash that has read
SCRIPT."""

import os
import pty
import re
import select
import shlex
import sys

START = r"""PS1=; PS2=; bind 'set enable-bracketed-paste off'; bind 'set bell-style none'
tell() { printf '<<%s>>\n' "$READLINE_LINE"; READLINE_LINE=; READLINE_POINT=0; }
bind -x '"\C-x": tell'; stty -echo; """


def read_until(terminal, pattern):
    said = b""
    while not (found := re.search(pattern, said, re.S)):
        if not select.select([terminal], [], [], 60)[0]:
            sys.exit(f"bash says nothing more: {said!r}")
        said += os.read(terminal, 65536)
    return found


def main():
    script, *lines = sys.argv[1:]
    child, terminal = pty.fork()
    if child == 0:
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    os.write(terminal, (START + f"source {shlex.quote(script)}; echo ready-$((40 + 2))\n").encode())
    read_until(terminal, rb"ready-42")
    for line in lines:
        os.write(terminal, line.encode() + b"\t\x18")
        print(read_until(terminal, rb"<<(.*?)>>").group(1).decode("utf-8", "replace"), flush=True)
    os.close(terminal)


if __name__ == "__main__":
    main()
