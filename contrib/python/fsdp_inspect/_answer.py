# SPDX-License-Identifier: Apache-2.0
"""What a command answered: data, findings, status.

Knows the fields that every answer has, and those of an audit. Refuses to know how a
command is run.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sized

from ._record import Record, Records, preformatted, wrap


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

    def __repr__(self) -> str:
        place = f"{self.file}: " if self.file else ""
        return f"{self.severity} {self.rule} {self.slug}  {place}{self.message}"


def _counted(findings: Sized) -> str:
    return f"{len(findings)} finding{'' if len(findings) == 1 else 's'}"


class Answer:
    """An answer: `data` are its fields, which are attributes of the answer too; `findings`
    what was noticed; `errors` what could not be judged; `status` 0 good, 1 bad, 3 in part,
    4 nothing here (`run("latest", …)` of an empty run)."""

    def __init__(self, document: Dict[str, Any], text: Callable[[], str]) -> None:
        self.document = document
        self.status: int = document["status"]
        self.data = Record(document.get("data") or {})
        self.findings: Records[Finding] = Records(document.get("findings") or [], Finding)
        self.errors: Records[Record] = Records(document.get("errors") or [], Record)
        self._make_text = text
        self._text: Optional[str] = None

    @property
    def text(self) -> str:
        """What the command prints for people."""
        if self._text is None:
            self._text = self._make_text()
        return self._text

    def __bool__(self) -> bool:
        """True if the answer is good, which is status 0."""
        return self.status == 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        data = self.document.get("data") or {}
        if name not in data:
            raise AttributeError(f"the answer has no field {name!r}; it has {', '.join(data)}")
        return wrap(data[name])

    def __str__(self) -> str:
        return self.text.rstrip("\n")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: status {self.status}, {_counted(self.findings)}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text.rstrip("\n"))

    def _repr_html_(self) -> str:
        return preformatted(self.text)


class Audit(Answer):
    """Whether a checkpoint is good: `verdict` is good, bad, partial or unjudged."""

    verdict: str
    complete: bool

    def __repr__(self) -> str:
        return f"<Audit: {self.verdict}, {_counted(self.findings)}>"
