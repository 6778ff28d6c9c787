# SPDX-License-Identifier: Apache-2.0
"""Pseudo terminals: what a program sends to one, and whether there are any. By itself, says why there are none (status 1)."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import serving  # noqa: E402


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
    sent = b""

    def read():
        nonlocal sent
        os.close(theirs)
        try:
            while more := os.read(ours, 65536):
                sent += more
        except OSError:
            pass  # the other end is closed
        os.close(ours)

    if os.path.exists(serving.server_of(words[0])):
        with open(os.devnull, "rb") as null:
            status, _ = serving.serve(words[0], words, [null.fileno(), theirs, theirs], folder, 600, {}, environment, read)
    else:
        child = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
        read()
        status = child.wait()
    return sent.decode("utf-8", "backslashreplace").replace("\r\n", "\n"), status


if __name__ == "__main__":
    if WHY := missing():
        print(WHY)
        sys.exit(1)
