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

from ._command import Error, Path, error_class, launch, text


def _end(process: "subprocess.Popen[bytes]", owner: int) -> None:
    if os.getpid() == owner:
        process.kill()
        process.communicate()


class Server:
    """Reads elements. The process starts with the first request, and again after close()."""

    def __init__(self, words: Sequence[Path], path: str) -> None:
        self._words, self._path = words, path
        self._lock = threading.Lock()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._owner = 0
        self._finalizer: Any = None

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._owner != os.getpid():
            # Ctrl-C is for the caller; this process ends when its input does.
            self._process = launch(["show", "--serve", "-qq", "--glob=**", *self._words], [self._path],
                                   stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
            self._owner = os.getpid()
            self._finalizer = weakref.finalize(self, _end, self._process, self._owner)
        return self._process

    def read(self, name: str, start: int, stop: int) -> bytearray:
        """The bytes of elements from start up to stop, in C order, little endian."""
        if self._owner not in (0, os.getpid()):
            self._lock = threading.Lock()  # another thread may have had it at the fork
        with self._lock:
            try:
                return self._read(name, start, stop)
            except Error:
                raise
            except BaseException:  # an answer that is half read
                self.close()
                raise

    def _read(self, name: str, start: int, stop: int, again: bool = True) -> bytearray:
        process, data = self._started(), bytearray()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps({"name": name, "start": start, "stop": stop}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # its output is at an end too
        while True:
            line = process.stdout.readline()
            if not line:
                killed = process.wait() < 0
                self.close()
                if killed and again:
                    return self._read(name, start, stop, False)
                text(["show", *self._words], [self._path, name])  # why it could not start
                raise Error("the command ended", {"path": self._path})
            size = int(line)
            frame = process.stdout.read(abs(size))
            if size < 0:
                raise _error(frame.decode("utf-8", "replace").split("\0"))
            if size == 0:
                return data
            data += frame

    def close(self) -> None:
        """Ends the process, if there is one."""
        if self._finalizer is not None:
            self._finalizer()
        self._process = None


def _error(fields: List[str]) -> Error:
    code, rule, path, hint, message = fields[:5]
    return error_class(code)(message, {"code": code, "rule": rule or None, "path": path or None, "hint": hint or None})
