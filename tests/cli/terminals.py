# SPDX-License-Identifier: Apache-2.0
"""Pseudo terminals: what a program sends to one, and whether there are any. By itself, says why there are none (status 1)."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios


def missing():
    """Why no test can have one, or None. A root without /dev/pts has none."""
    try:
        for end in os.openpty():
            os.close(end)
    except OSError:
        return "no pseudo terminals"
    return None


def shown(words, columns, folder, environment):
    """(text, status) of a program whose output is a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs,
                             stderr=theirs)
    os.close(theirs)
    sent = b""
    try:
        while more := os.read(ours, 65536):
            sent += more
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    return sent.decode("utf-8", "backslashreplace").replace("\r\n", "\n"), child.wait()


if __name__ == "__main__":
    if WHY := missing():
        print(WHY)
        sys.exit(1)
