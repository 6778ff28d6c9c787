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
from typing import IO, Any, List, Optional, Sequence, Tuple, Union

from ._command import Error, Path, answer, error_class, launch

Request = Tuple[str, int, int]  # a name, the first element, the end
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

    def read(self, requests: Sequence[Request]) -> List[Union[bytearray, Error]]:
        """Elements of each, in C order, little endian; an Error of one that could not be read.
        Together they are short: all are sent before the first answer is read."""
        with self._lock:
            try:
                return self._read(requests)
            except Error:
                raise
            except BaseException:  # an answer that is half read
                self._close()
                raise

    def _read(self, requests: Sequence[Request], again: bool = True) -> List[Union[bytearray, Error]]:
        process, ahead, answers = self._started(), bytearray(), []
        assert process.stdin is not None and process.stdout is not None
        lines = "".join(json.dumps({"name": name, "start": start, "stop": stop, "files": self._files}) + "\n"
                        for name, start, stop in requests).encode()
        try:
            while lines:
                lines = lines[process.stdin.write(lines):]
        except BrokenPipeError:
            pass  # its output is at an end too
        for _ in requests:
            answer = self._answer(process.stdout, ahead)
            if answer is None:
                return self._ended(process, requests, again)
            answers.append(answer)
        return answers

    @staticmethod
    def _answer(stream: IO[bytes], ahead: bytearray) -> Union[bytearray, Error, None]:
        """One answer, from what was read ahead of it and the stream; None if that ends."""
        data = bytearray()
        while True:
            begin = ahead.find(b"\n") + 1
            size = int(ahead[:begin]) if begin else 0
            if not begin or len(ahead) < begin + abs(size):
                chunk = stream.read(CHUNK)
                if not chunk:
                    return None
                ahead += chunk
                continue
            frame = ahead[begin:begin + abs(size)]
            del ahead[:begin + abs(size)]
            if size < 0:
                return _error(frame.decode("utf-8", "replace").split("\0"))
            if size == 0:
                return data
            data += frame

    def _ended(self, process: "subprocess.Popen[bytes]", requests: Sequence[Request],
               again: bool) -> List[Union[bytearray, Error]]:
        """Once more if it was killed; else why it could not start."""
        killed = process.wait() < 0
        self._close()
        if killed and again:
            return self._read(requests, False)
        answer(["show", *self._words], [self._path, requests[0][0]])
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
