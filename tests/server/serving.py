# SPDX-License-Identifier: Apache-2.0
"""Asks the server of sanitized runs for a run, without a process that stands for it."""

import os
import resource
import selectors
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


def server_of(command):
    return os.path.join(os.path.dirname(command), "test-server")


def connected(command):
    """To the server of a command that is served; its client starts the server."""
    server = os.stat(server_of(command))
    name = f"\0fsdp-inspect-test-{server.st_dev}-{server.st_ino}-{server.st_mtime_ns // 10**9}.{server.st_mtime_ns % 10**9:09}"
    for _ in range(20):
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(name)
            return connection
        except ConnectionRefusedError:
            connection.close()
            subprocess.run([command, "version"], stdout=subprocess.DEVNULL, check=True)
    raise OSError("no server")


def serve(command, argv, streams, cwd, timeout, limits, env, meanwhile=None):
    """Status and usage of a run, as wait() has them: what tests/server/client.c does, without a process."""
    text = "".join(word + "\0" for word in argv + [f"{name}={value}" for name, value in env.items()])
    text = text.encode("utf-8", "surrogateescape")
    ends = (limits.get(limit) or resource.getrlimit(limit) for limit in range(16))
    request = REQUEST.pack(len(argv), len(env), len(text), 3, UMASK, 0, 0, 1, 2, *[0] * 61,
                           *(end & (1 << 64) - 1 for both in ends for end in both))
    here = os.open(cwd, os.O_PATH | os.O_DIRECTORY)
    try:
        with connected(command) as connection:
            connection.settimeout(timeout)
            socket.send_fds(connection, [request], [here, *streams])
            connection.sendall(text)
            if meanwhile:
                meanwhile()
            try:
                answer = connection.recv(4, socket.MSG_WAITALL)
            except TimeoutError:  # the server ends what nobody waits for
                return None, NO_USAGE
    finally:
        os.close(here)
    return os.waitstatus_to_exitcode(int.from_bytes(answer, sys.byteorder)) if answer else 125, NO_USAGE


def run(command, argv, cwd, timeout, env):
    """(stdout, stderr, status) of a run whose output goes into pipes, and that has no input."""
    pipes = [os.pipe(), os.pipe()]
    texts = [[], []]

    def read():
        with selectors.DefaultSelector() as open_ends:
            for (reading, writing), text in zip(pipes, texts):
                os.close(writing)
                open_ends.register(reading, selectors.EVENT_READ, text)
            while open_ends.get_map():
                for key, _ in open_ends.select(timeout):
                    key.data.append(os.read(key.fd, 1 << 16))
                    if not key.data[-1]:
                        open_ends.unregister(key.fd)
                        os.close(key.fd)

    with open(os.devnull, "rb") as null:
        status, _ = serve(command, argv, [null.fileno(), pipes[0][1], pipes[1][1]], cwd, timeout, {}, env, read)
    return b"".join(texts[0]), b"".join(texts[1]), status


def completed(argv, cwd="."):
    """What subprocess.run() gives of a command whose output is captured and whose input is empty; of one that is served
    without a process."""
    if not os.path.exists(server_of(argv[0])):
        return subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    out, err, status = run(argv[0], argv, cwd, 600, dict(os.environ))
    return subprocess.CompletedProcess(argv, status, out, err)
