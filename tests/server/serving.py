# SPDX-License-Identifier: Apache-2.0
"""Asks the server of sanitized runs for a run, without a process that stands for it."""

import os
import resource
import socket
import struct
import subprocess
import sys
import types

UMASK = os.umask(0o022)
os.umask(UMASK)
NO_USAGE = types.SimpleNamespace(ru_utime=0, ru_stime=0, ru_maxrss=0)  # the server is no child
# As tests/server/request.h has it.
REQUEST = struct.Struct("=5I4xQ64i32Q")


def connected(argv):
    """To the server of a command that is served; its client starts the server."""
    server = os.stat(os.path.join(os.path.dirname(argv[0]), "test-server"))
    name = f"\0fsdp-inspect-test-{server.st_dev}-{server.st_ino}-{server.st_mtime_ns // 10**9}.{server.st_mtime_ns % 10**9:09}"
    for _ in range(20):
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(name)
            return connection
        except ConnectionRefusedError:
            connection.close()
            subprocess.run([argv[0], "version"], stdout=subprocess.DEVNULL, check=True)
    raise OSError("no server")


def serve(argv, streams, cwd, timeout, limits, env):
    """Status and usage of a run, as wait() has them: what tests/server/client.c does, without a process."""
    text = "".join(word + "\0" for word in argv + [f"{name}={value}" for name, value in env.items()])
    text = text.encode("utf-8", "surrogateescape")
    ends = (limits.get(limit) or resource.getrlimit(limit) for limit in range(16))
    request = REQUEST.pack(len(argv), len(env), len(text), 3, UMASK, 0, 0, 1, 2, *[0] * 61,
                           *(end & (1 << 64) - 1 for both in ends for end in both))
    here = os.open(cwd, os.O_PATH | os.O_DIRECTORY)
    try:
        with connected(argv) as connection:
            connection.settimeout(timeout)
            socket.send_fds(connection, [request], [here, *(stream.fileno() for stream in streams)])
            connection.sendall(text)
            try:
                answer = connection.recv(4, socket.MSG_WAITALL)
            except TimeoutError:  # the server ends what nobody waits for
                return None, NO_USAGE
    finally:
        os.close(here)
    return os.waitstatus_to_exitcode(int.from_bytes(answer, sys.byteorder)) if answer else 125, NO_USAGE
