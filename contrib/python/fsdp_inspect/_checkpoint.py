# SPDX-License-Identifier: Apache-2.0
"""An open checkpoint: a mapping of names to tensors.

Knows which command answers which question. `info` runs when it is opened, `show` with the
first question about names; both answers are kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Dict, Iterator, List, Optional, Union, ValuesView

from ._answer import Answer
from ._command import Error, NotACheckpoint, Path, UnknownName, answer, fail, options
from ._commands import Commands
from ._record import LINE_WIDTH, Record, Records, brief, cut, preformatted
from ._server import Server
from ._tensor import Tensor


class Found(Record):
    """A checkpoint below a directory: path, step, bytes, format; `errors` and `problem` if it is bad."""

    path: str
    step: Optional[int]
    bytes: Optional[int]
    format: Optional[str]
    errors: Optional[int]
    problem: Optional[str]

    def open(self) -> Checkpoint:
        """Opens it."""
        return Checkpoint(self.path)


class Values(Mapping):  # type: ignore[type-arg]
    """What is stored and is not a tensor, by name. Called, it is the view of all tensors, as
    `values()` of any mapping."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self.records: Records[Record] = Records(checkpoint.info.document["data"].get("values") or [], Record)
        self._by_name = {row["name"]: row.get("value", row.get("text")) for row in self.records._rows}

    def __call__(self) -> ValuesView[Tensor]:
        return ValuesView(self._checkpoint)

    def __getitem__(self, name: str) -> Any:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def _ipython_key_completions_(self) -> List[str]:
        return list(self)

    def __repr__(self) -> str:
        return "\n".join(cut(f"{name}: {value!r}") for name, value in self.items()) or "no values"


class Checkpoint(Commands, Mapping):  # type: ignore[type-arg]
    """A mapping of names to tensors, and a context manager. It pickles by its path and options.

    format, step, world_size, fsdp, kind    what it is; what is unknown is None
    tensors, modules, units, values         lists of records, and the values by name
    tree(), audit(), diff(), export() ...   commands; their options are keywords
    """

    def __init__(self, path: Path, words: Optional[List[str]] = None) -> None:
        self.path = os.fspath(path)
        self._options = list(words or [])
        self._server = Server(self._options, self.path)
        self._made: Dict[str, Tensor] = {}
        self.info = Answer.of("info", self._options, [self.path], {})
        if "format" not in (self.info.document["data"] or {}):
            below = self.info.document["data"].get("below")
            hint = f"fsdp_inspect.runs({self.path!r}) lists its {len(below)} checkpoints" if below else None
            raise NotACheckpoint("directory with several checkpoints" if below else "not a checkpoint",
                                 {"code": "not_a_checkpoint", "path": self.path, "hint": hint})

    def __reduce__(self) -> Any:
        return Checkpoint, (self.path, self._options)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process that reads elements; it starts again when it is needed."""
        self._server.close()

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def format(self) -> str:
        """The family of its format: "dcp"."""
        return str(self.info.document["data"]["format"]["family"])

    @property
    def kind(self) -> str:
        """The same in words: "PyTorch distributed checkpoint (DCP)"."""
        return str(self.info.document["data"]["format"]["title"])

    @property
    def fsdp(self) -> Optional[str]:
        """Which FSDP saved it, as far as that is known: "fsdp1", "fsdp2"."""
        return (self.info.document["data"].get("kind") or {}).get("fsdp")

    @property
    def step(self) -> Optional[int]:
        """The training step."""
        return self.info.document["data"].get("step")  # type: ignore[no-any-return]

    @property
    def world_size(self) -> Optional[int]:
        """The number of ranks that saved it."""
        return self.info.document["data"].get("world_size")  # type: ignore[no-any-return]

    @cached_property
    def _items(self) -> Dict[str, Dict[str, Any]]:
        """Fields of all tensors by name; of several with one name those of the first rank."""
        if not len(self):
            return {}
        rows = answer(["show", "--glob=**", *self._options], [self.path])["data"]["items"]
        items: Dict[str, Dict[str, Any]] = {}
        for row in rows:
            if row["kind"] == "tensor":
                items.setdefault(row["name"], row)
        return items

    @property
    def tensors(self) -> Records[Tensor]:
        """All tensors, in natural order of their names; to_pandas() is a DataFrame."""
        return Records(list(self._items.values()), Tensor, checkpoint=self)

    @cached_property
    def values(self) -> Values:
        """What is stored and is not a tensor, by name: ck.values["step"]."""
        return Values(self)

    @cached_property
    def _tree(self) -> Any:
        return self.tree()

    @property
    def units(self) -> Records[Record]:
        """The units of FSDP, from a sharding plan or inferred."""
        return self._tree.units  # type: ignore[no-any-return]

    @property
    def modules(self) -> Records[Record]:
        """The modules, parents first."""
        return self._tree.modules  # type: ignore[no-any-return]

    def run(self, command: str, *names: str, **given: Any) -> Answer:
        """The answer of any command about this checkpoint: run("flat"), run("show", "w")."""
        return Answer.of(command, self._options, [self.path, *names], given)

    def _read(self, name: str, start: int, stop: int) -> bytearray:
        try:
            return self._server.read(name, start, stop)
        except Error as error:
            # Opening noticed more than reading does: a pointer of Git LFS, a truncated file.
            for finding in self.info.findings:
                if finding.severity == "error" and finding.file and finding.file == error.path:
                    fields = {**vars(error), "rule": finding.rule, "hint": finding.next}
                    raise type(error)(finding.message, fields) from None
            raise

    def __getitem__(self, name: str) -> Tensor:
        """The tensor of a name, or the one it is tied to; UnknownName, a KeyError with the
        nearest names, if there is none."""
        tensor = self._made.get(name)
        if tensor is not None:
            return tensor
        fields = self._items.get(name)
        if fields is None:
            if not isinstance(name, str) or "\0" in name:
                raise UnknownName(f"no tensor {name!r}")
            document = answer(["show", *self._options], [self.path, name])
            fields = next((item for item in document["data"]["items"] if item["kind"] == "tensor"), None)
            if fields is None and not document["errors"]:
                raise UnknownName(f"{name!r} is not a tensor", {"hint": f"ck.values[{name!r}]"})
            if fields is None:
                raise fail(document, UnknownName)
        tensor = self._made[name] = Tensor(fields, checkpoint=self)
        return tensor

    def get(self, name: str, default: Any = None) -> Any:
        """The tensor of a name, or the default."""
        return self[name] if name in self else default

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        """The number of names."""
        return len(self.__dict__["_items"]) if "_items" in self.__dict__ else int(self.info.counts.tensors)

    def _ipython_key_completions_(self) -> List[str]:
        return list(self)

    def __repr__(self) -> str:
        path, rest = self.path, f": {self.format}, {len(self)} tensors>"
        room = LINE_WIDTH - len("<Checkpoint ") - len(rest)
        return f"<Checkpoint {brief(path if len(path) <= room else '…' + path[1 - room:], 'path', room)}{rest}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.info.text.rstrip("\n"))

    def _repr_html_(self) -> str:
        return preformatted(self.info.text)


def open(path: Path, *, plan: Optional[Path] = None, no_plan: bool = False, raw: bool = False,  # noqa: A001
         range: Optional[str] = None, limit: Union[str, List[str], None] = None) -> Checkpoint:
    """Opens a checkpoint: a file, a directory, one rank's file, an index. Reads headers only.

    plan: a sharding plan that is not next to the checkpoint
    no_plan: use no sharding plan
    raw: names exactly as stored
    range: the checkpoint is this part of the file: OFFSET[:LENGTH]
    limit: another ceiling: "memory=8G"

    Raises FileNotFoundError, PermissionError, NotACheckpoint, Damaged."""
    return Checkpoint(path, options({"plan": plan, "no-plan": no_plan, "raw": raw, "range": range, "limit": limit}))


def runs(path: Path) -> Records[Found]:
    """The checkpoints of a directory: path, step, bytes, format, problem; each has open()."""
    answered = Answer.of("info", [], [path], {})
    data = answered.document["data"] or {}
    rows = data.get("below")
    if rows is None:
        bytes_ = (data.get("bytes") or {}).get("on_disk")
        rows = [{"path": os.fspath(path), "step": data.get("step"), "bytes": bytes_,
                 "format": (data.get("format") or {}).get("family"), "errors": 0}]
    return Records(rows, Found)
