# SPDX-License-Identifier: Apache-2.0
"""One process that reads elements of a checkpoint for as long as it is asked.

Knows the protocol of `show --serve`: a request is a line of JSON, an answer is frames of
bytes. Safe in threads; a forked process starts its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import weakref
from typing import Any, List, Optional, Sequence

from ._command import Error, Path, answer, error_class, launch

CHUNK = 1 << 18
MOST = 64  # processes at once: the one that was not asked for longest ends


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


class Server:
    """Reads elements. The process starts with the first request, and again after close()."""

    def __init__(self, words: Sequence[Path], path: str, files: str) -> None:
        self._words, self._path, self._files = words, path, files
        self._forget()
        _servers.add(self)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._finalizer: Any = None

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            # Ctrl-C is for the caller; this process ends when its input does.
            self._process = launch(["show", "--serve", "-qq", "--glob=**", *self._words], [self._path],
                                   stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                                   bufsize=0)  # buffers have locks, which a fork may find taken
            self._finalizer = weakref.finalize(self, _end, self._process)
        _used(self)
        return self._process

    def read(self, name: str, start: int, stop: int) -> bytearray:
        """The bytes of elements from start up to stop, in C order, little endian."""
        with self._lock:
            try:
                return self._read(name, start, stop)
            except Error:
                raise
            except BaseException:  # an answer that is half read
                self._close()
                raise

    def _read(self, name: str, start: int, stop: int, again: bool = True) -> bytearray:
        process, data, ahead = self._started(), bytearray(), bytearray()
        assert process.stdin is not None and process.stdout is not None
        line = json.dumps({"name": name, "start": start, "stop": stop, "files": self._files}).encode() + b"\n"
        try:
            while line:
                line = line[process.stdin.write(line):]
        except BrokenPipeError:
            pass  # its output is at an end too
        size, begin, end = 1, 0, 0  # of the frame that is awaited, behind the line with its length
        while size != 0:
            chunk = process.stdout.read(CHUNK)
            if not chunk:
                return self._ended(process, name, start, stop, again)
            ahead += chunk
            while size != 0 and (end or b"\n" in ahead):
                if not end:
                    begin = ahead.index(b"\n") + 1
                    size = int(ahead[:begin])
                    end = begin + abs(size)
                if len(ahead) < end:
                    break
                if size < 0:
                    raise _error(ahead[begin:end].decode("utf-8", "replace").split("\0"))
                data += memoryview(ahead)[begin:end]
                del ahead[:end]
                end = 0
        return data

    def _ended(self, process: "subprocess.Popen[bytes]", name: str, start: int, stop: int, again: bool) -> bytearray:
        """Once more if it was killed; else why it could not start."""
        killed = process.wait() < 0
        self._close()
        if killed and again:
            return self._read(name, start, stop, False)
        answer(["show", *self._words], [self._path, name])
        raise Error("the command ended", {"path": self._path})

    def close(self) -> None:
        """Ends the process, if there is one."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._finalizer = None


_servers: "weakref.WeakSet[Server]" = weakref.WeakSet()
_running: "List[weakref.ref[Server]]" = []  # in the order of their last use
_guard = threading.Lock()


def _used(server: Server) -> None:
    """Ends idle processes when there are many."""
    with _guard:
        _running[:] = [ref for ref in _running if ref() not in (None, server)] + [weakref.ref(server)]
        others = [ref() for ref in _running[:-MOST]]
    for other in others:
        if other is not None and other._lock.acquire(blocking=False):
            try:
                other._close()
            finally:
                other._lock.release()


def _forget_all() -> None:
    """In a forked process, which starts its own: a lock may be another thread's."""
    global _guard
    _guard = threading.Lock()
    for server in list(_servers):
        if server._finalizer is not None and server._process is not None:
            server._finalizer.detach()
            server._process.returncode = 0  # not of this process
            for stream in filter(None, (server._process.stdin, server._process.stdout)):
                stream.close()
        server._forget()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _error(fields: List[str]) -> Error:
    code, rule, path, hint, message = fields[:5]
    return error_class(code, message)(message, {"code": code, "rule": rule or None, "path": path or None, "hint": hint or None})
