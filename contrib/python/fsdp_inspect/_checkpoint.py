# SPDX-License-Identifier: Apache-2.0
"""An open checkpoint: what it is, its tensors, modules and units, and whether it is good.

Knows which command answers which question, and asks each once, when it is first needed.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any, Iterator, List, Optional, Union

from ._answer import Answer, Audit
from ._command import Path, UnknownName, answer, fail, options, run, text
from ._record import Record, Records, preformatted
from ._values import Values, read_values


class Tensor(Record):
    """A tensor of a checkpoint, as `ls` and `show` tell of it."""

    name: str
    dtype: str
    shape: List[int]
    numel: int
    bytes: int
    role: Optional[str]
    module: Optional[str]
    unit: Optional[str]
    alias: Optional[str]

    def __init__(self, fields: Any, checkpoint: Checkpoint) -> None:
        super().__init__(fields)
        self._checkpoint = checkpoint

    def values(self, start: int = 0, stop: Optional[int] = None) -> Values:
        """The elements from start up to stop, in C order: an array of numpy where that is
        installed, else a memoryview. bfloat16 and float8 come as float32, which holds
        them exactly. Read piece by piece from the files of all ranks."""
        return read_values(self._checkpoint._words, self._checkpoint.path, self, start, stop)


class Tree:
    """The modules of a model: text as `tree` draws it, records in `modules`."""

    def __init__(self, checkpoint: Checkpoint, given: Any) -> None:
        self._checkpoint, self._options = checkpoint, options(given)

    @cached_property
    def text(self) -> str:
        return text(["tree", *self._checkpoint._words, *self._options], [self._checkpoint.path])

    @cached_property
    def _data(self) -> Any:
        return answer(["tree", *self._checkpoint._words, *self._options], [self._checkpoint.path])["data"]

    @property
    def modules(self) -> Records[Record]:
        """A record for each module: name, class_, depth, unit, parameters, bytes."""
        return Records(self._data["modules"], Record)

    @property
    def units(self) -> Records[Record]:
        """A record for each unit of FSDP: unit, strategy, parameters, bytes."""
        return Records(self._data["units"], Record)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return preformatted(self.text)


class Checkpoint:
    """An open checkpoint. What it is was read when it was opened; the rest is read when it
    is first asked for."""

    def __init__(self, path: Path, words: List[str]) -> None:
        self.path = os.fspath(path)
        self._words = words
        self.info = Answer(answer(["info", *words], [path]), lambda: text(["info", *words], [path]))

    @property
    def kind(self) -> str:
        """What it is, in words: "PyTorch distributed checkpoint (DCP)"."""
        return str(self.info.format.title)

    @property
    def fsdp(self) -> Optional[str]:
        """Which FSDP saved it, as far as that is known: "fsdp1", "fsdp2"."""
        kind = self.info.data.kind
        return kind.fsdp if kind else None

    @property
    def step(self) -> Optional[int]:
        """The training step that it tells of."""
        return self.info.data.step  # type: ignore[no-any-return]

    @property
    def world_size(self) -> Optional[int]:
        """The number of ranks that saved it."""
        return self.info.data.world_size  # type: ignore[no-any-return]

    @cached_property
    def tensors(self) -> Records[Tensor]:
        """All tensors, in natural order of their names."""
        rows = answer(["ls", *self._words], [self.path])["data"]["tensors"]
        return Records(rows, Tensor, checkpoint=self)

    @property
    def values(self) -> Records[Record]:
        """What is stored and is not a tensor: step, learning rates, settings."""
        return Records(self.info.document["data"].get("values") or [], Record)

    @cached_property
    def _tree(self) -> Tree:
        return Tree(self, {})

    @property
    def units(self) -> Records[Record]:
        """The units of FSDP, as a plan tells them."""
        return self._tree.units

    @property
    def modules(self) -> Records[Record]:
        """The modules, parents first."""
        return self._tree.modules

    def tree(self, **given: Any) -> Tree:
        """The tree of modules; options of the command are keywords: tree(sizes=True, depth=3)."""
        return Tree(self, given)

    def audit(self, **given: Any) -> Audit:
        """Whether it is complete, intact and safe: audit(data=True) reads every byte. Options
        of the command are keywords."""
        words = ["audit", *self._words, *options(given)]
        return Audit(answer(words, [self.path]), lambda: text(words, [self.path]))

    def run(self, command: str, *names: str, **given: Any) -> Answer:
        """The answer of any command about this checkpoint: run("flat"), run("show", "w")."""
        words = [command, *self._words, *options(given)]
        return Answer(answer(words, [self.path, *names]), lambda: text(words, [self.path, *names]))

    def __getitem__(self, name: str) -> Union[Tensor, Record]:
        """The tensor, or value, of a name, with its pieces; UnknownName, a KeyError with the
        nearest name, if there is none."""
        document = answer(["show", *self._words], [self.path, name])
        items = document["data"]["items"]
        if not items:
            raise fail(document, UnknownName)
        return Tensor(items[0], checkpoint=self) if items[0]["kind"] == "tensor" else Record(items[0])

    def __contains__(self, name: object) -> bool:
        return any(row.name == name for row in self.tensors)

    def __iter__(self) -> Iterator[str]:
        return (row.name for row in self.tensors)

    def __len__(self) -> int:
        """The number of tensors."""
        return int(self.info.counts.tensors)

    def __repr__(self) -> str:
        return f"<Checkpoint {self.path}: {self.kind}, {len(self)} tensors>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.info.text.rstrip("\n"))

    def _repr_html_(self) -> str:
        return preformatted(self.info.text)


def open(path: Path, *, plan: Optional[Path] = None, **given: Any) -> Checkpoint:  # noqa: A001
    """Opens a checkpoint: a file, a folder, one rank's file, an index. Reads headers only.
    `plan` is a sharding plan that does not lie beside it; other options that all commands
    have are keywords too: open("step-1000", raw=True, limit=["memory=8G"])."""
    return Checkpoint(path, options({"plan": plan, **given}))
