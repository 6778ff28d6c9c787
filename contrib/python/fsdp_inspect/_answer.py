# SPDX-License-Identifier: Apache-2.0
"""What a command answered: data, findings, status.

Knows the fields that every answer has, and those of an audit. Refuses to know how a
command is run.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Type, TypeVar

from ._command import Path, answer_and_text, options, printable
from ._fields import ANSWERS, FIELDS, OBJECTS
from ._record import Record, Records, folded, preformatted, wrap


class Finding(Record):
    """What was noticed, by which rule, where, and what to do about it."""

    rule: str
    slug: str
    severity: str
    message: str
    next: Optional[str]
    file: Optional[str]
    offset: Optional[int]
    tensor: Optional[str]
    rank: Optional[int]
    _known = OBJECTS["finding"]

    def __repr__(self) -> str:
        place = f"{self.file}: " if self.file else ""
        return printable(f"{self.severity} {self.rule} {self.slug}  {place}{self.message}")


A = TypeVar("A", bound="Answer")


class Answer:
    """An answer: `data` are its fields, which are attributes of the answer too; `findings`
    what was noticed; `errors` what could not be judged; `text` what the command prints;
    `status` 0 good, 1 bad, 3 in part,
    4 nothing here (`run("latest", …)` of an empty run)."""

    def __init__(self, document: Dict[str, Any], text: str) -> None:
        self.document = document
        self.status: int = document["status"]
        self.data = Record(document.get("data") or {})
        self.findings: Records[Finding] = Records(document.get("findings") or [], Finding)
        self.errors: Records[Record] = Records(document.get("errors") or [], Record)
        self.text = text  # what the command prints for people

    @classmethod
    def of(cls: Type[A], command: str, words: Sequence[Path], paths: Sequence[Path], given: Mapping[str, Any]) -> A:
        """The answer of a command."""
        return cls(*answer_and_text([command, *words, *options(given)], paths))

    def __bool__(self) -> bool:
        """True if the answer is good, which is status 0."""
        return self.status == 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        data = self.document.get("data") or {}
        if name not in data and name not in ANSWERS.get(self.document["schema"].rpartition(".")[2], FIELDS):
            raise AttributeError(f"the answer has no field {name!r}; it has {', '.join(data)}")
        return wrap(data.get(name))

    def __str__(self) -> str:
        return self.text.rstrip("\n")

    def __repr__(self) -> str:
        return folded(str(self))

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *(self.document.get("data") or {})})

    def __reduce__(self) -> Any:
        return type(self), (self.document, self.text)

    def _repr_html_(self) -> str:
        return preformatted(self.text)


class Audit(Answer):
    """Whether a checkpoint is good: `verdict` is good, bad, partial or unjudged."""

    verdict: str
    complete: bool


class Tree(Answer):
    """The modules of a model as `tree` draws them: records in `modules` and `units`."""

    modules: Records[Record]
    units: Records[Record]


def run(command: str, *paths: Path, **given: Any) -> Answer:
    """The answer of any command: run("ls", "step-1000", by="rank").data. Options are
    keywords; the statuses 0, 1, 3 and 4 are answers, 2 without one is an Error."""
    return Answer.of(command, [], paths, given)
