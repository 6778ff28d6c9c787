# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all, one writer each.

Knows paths, temporary names and JSON. Refuses to know torch, and what a line means.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import warnings
from types import TracebackType
from typing import Any, Dict, List, Optional, Type, Union

Path = Union[str, "os.PathLike[str]"]

RANK = "{rank}"


def path_of_rank(path: Path, rank: int) -> Optional[str]:
    """The file that this rank writes; None if it writes none."""
    name = os.fspath(path)
    if RANK in name:
        return name.replace(RANK, str(rank))
    return name if rank == 0 else None


class Draft:
    """A file under a temporary name beside its own, until it is kept or dropped. Folders
    that are missing are made, as torch's own saving does.

    Nothing is buffered here: a process that is forked meanwhile has no bytes of ours to
    write a second time, and what a killed process leaves behind ends with its last line.
    """

    def __init__(self, path: str) -> None:
        folder, name = os.path.split(path)
        self.path = path
        if folder:
            os.makedirs(folder, exist_ok=True)
        self._draft = os.path.join(folder, f".{name}.{os.getpid()}-{secrets.token_hex(4)}.part")
        # Not tempfile: that would keep the file from all users but its owner.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        self._fd = os.open(self._draft, flags, 0o666)

    def write(self, text: str) -> None:
        rest = memoryview(text.encode("utf-8"))
        while rest:
            rest = rest[os.write(self._fd, rest):]

    def keep(self) -> None:
        try:
            os.fsync(self._fd)
            self._close()
            os.replace(self._draft, self.path)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        try:
            self._close()
        except OSError:
            pass  # what could not be written is thrown away
        try:
            os.unlink(self._draft)
        except FileNotFoundError:
            pass

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def write_text(path: str, text: str) -> None:
    draft = Draft(path)
    try:
        draft.write(text)
    except BaseException:
        draft.drop()
        raise
    draft.keep()


class Recording:
    """JSON Lines in the making. Lines are put by code that runs inside a user's
    training: a full disk must not end that, so put() never raises OSError; the first one
    is raised when the recording ends. Lines of several threads do not mix, and a forked
    process puts none.

    A recording that ends by an exception is kept: what it holds did happen.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines = 0
        self._draft: Optional[Draft] = Draft(path)
        self._error: Optional[OSError] = None
        self._process = os.getpid()
        # Reentrant: a finalizer may put a line while one is put.
        self._lock = threading.RLock()

    def put(self, **fields: Any) -> None:
        if self._process != os.getpid():
            return
        line = json.dumps(fields) + "\n"
        with self._lock:
            if self._draft is None or self._error is not None:
                return
            try:
                self._draft.write(line)
                self.lines += 1
            except OSError as error:
                self._error = error

    def __enter__(self) -> "Recording":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._process != os.getpid():
            return
        with self._lock:
            draft, self._draft = self._draft, None
        if draft is not None:
            self._end(draft)
        if self._error is not None:
            if value is None:
                raise self._error
            warnings.warn(f"{self.path}: not written: {self._error}", stacklevel=2)

    def _end(self, draft: Draft) -> None:
        if self._error is not None:
            draft.drop()
        elif not self.lines:
            draft.drop()
            warnings.warn(f"{self.path}: nothing happened, so nothing was written", stacklevel=3)
        else:
            try:
                draft.keep()
            except OSError as error:
                self._error = error


def plan_text(plan: Dict[str, Any]) -> str:
    """A plan as JSON: a line a key, and a line a thing in its long lists."""
    parts: List[str] = []
    for key, value in plan.items():
        text = json.dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join("  " + json.dumps(item) for item in value) + "\n ]"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
