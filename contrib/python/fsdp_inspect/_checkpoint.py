# SPDX-License-Identifier: Apache-2.0
"""An open checkpoint: a mapping of names to tensors.

Knows which command answers which question. `show` runs when it is opened; its answer is kept, and
has all names and what is known of each.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union, ValuesView

from ._answer import Answer
from ._command import (Error, NotACheckpoint, Path, Unsupported, UnknownName, absolute, answer, fail, options,
                       printable, standing)
from ._commands import Commands
from ._record import LINE_WIDTH, Record, Records, brief, cut, preformatted, table
from ._server import Request, Server
from ._tensor import Tensor

AHEAD, AHEAD_BYTES = 32, 1 << 18


class Found(Record):
    """A checkpoint below a directory: path, step, bytes, format; `errors` and `problem` if it is bad."""

    path: str
    step: Optional[int]
    bytes: Optional[int]
    format: Optional[str]
    errors: Optional[int]
    problem: Optional[str]

    def __init__(self, fields: Any, folder: str = "") -> None:
        super().__init__(fields)
        self._folder = folder

    def __reduce__(self) -> Any:
        return Found, (self._fields, self._folder)

    def open(self) -> Checkpoint:
        """Opens it."""
        place = self.path if "://" in self.path else os.path.join(self._folder, self.path)
        return Checkpoint(standing(self.path, place))


class Values(Mapping):  # type: ignore[type-arg]
    """What is stored and is not a tensor, by name. Called, it is the view of all tensors, as
    `values()` of any mapping."""

    def __init__(self, checkpoint: Checkpoint, by_name: Dict[str, Dict[str, Any]]) -> None:
        self._checkpoint, self._by_name = checkpoint, by_name

    @property
    def records(self) -> Records[Record]:
        """What is known of each: type, file, offset."""
        return Records(list(self._by_name.values()), Record)

    def __call__(self) -> ValuesView[Tensor]:
        return ValuesView(self._checkpoint)

    def __getitem__(self, name: str) -> Any:
        row = self._by_name.get(name)
        if row is not None:
            return row.get("value", row.get("text"))
        if name in self._checkpoint:
            raise UnknownName(f"{name!r} is a tensor", {"hint": f"ck[{name!r}]"})
        near = difflib.get_close_matches(str(name), self._by_name, 3)
        raise UnknownName(f"no value {name!r}", {"hint": f"did you mean {', '.join(near)}"} if near else None)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def _ipython_key_completions_(self) -> List[str]:
        return list(self)

    def __repr__(self) -> str:
        return "\n".join(cut(printable(f"{name}: {value!r}")) for name, value in self.items()) or "no values"

    def _repr_html_(self) -> str:
        return table(["name", "value"], [[brief(name, "name"), brief(repr(value), "value")] for name, value in self.items()])


class Checkpoint(Commands, Mapping):  # type: ignore[type-arg]
    """A mapping of names to tensors, and a context manager. It pickles by its path and options.

    format, step, world_size, fsdp, kind    what it is; what is unknown is None
    tensors, modules, units, values         lists of records, and the values by name
    tree(), audit(), diff(), export() ...   commands; their options are keywords
    """

    def __init__(self, path: Path, words: Optional[List[str]] = None) -> None:
        self.path = os.fsdecode(path)
        self._absolute = absolute(self.path)
        self._options = list(words or [])
        try:
            document = answer(["show", "--whole", "--glob=**", *self._options], [self.path])
        except Error as error:
            raise self._several(error) from None
        self._whole: Dict[str, Any] = document["data"]["whole"]
        self._findings: List[Dict[str, Any]] = document["findings"]
        # Of several with one name those of the first rank.
        self._items: Dict[str, Dict[str, Any]] = {}
        self._values: Dict[str, Dict[str, Any]] = {}
        for row in document["data"]["items"]:
            (self._items if row["kind"] == "tensor" else self._values).setdefault(row["name"], row)
        self._server = Server(self._options, self._absolute, self._whole["files"])
        self._ready: Dict[Request, bytearray] = {}  # read ahead
        self._in_order, self._last = 0, -2

    def _several(self, error: Error) -> Error:
        """What is wrong with a path that is no checkpoint, but may have some in it."""
        if error.code != "usage" and not isinstance(error, Unsupported):
            return error
        try:
            data = answer(["info", *self._options], [self.path])["data"]
        except Error:
            return error
        below = data.get("below")
        if below:
            return NotACheckpoint("directory with several checkpoints", {
                "code": "not_a_checkpoint", "path": self.path, "rule": "FI9005",
                "hint": f"fsdp_inspect.runs({self.path!r}) lists its {len(below)} checkpoints"})
        return error if "format" in data else NotACheckpoint(error.message, {**vars(error), "code": "not_a_checkpoint"})

    @property
    def _place(self) -> str:
        """The path for a command, as it was typed if possible."""
        return standing(self.path, self._absolute)

    def __reduce__(self) -> Any:
        return Checkpoint, (self._absolute, self._options)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process that reads elements; it starts again when it is needed."""
        self._server.close()
        self._ready = {}

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def format(self) -> str:
        """The family of its format: "dcp"."""
        return str(self._whole["family"])

    @property
    def kind(self) -> str:
        """The same in words: "PyTorch distributed checkpoint (DCP)"."""
        return str(self._whole["title"])

    @property
    def fsdp(self) -> Optional[str]:
        """Which FSDP saved it, as far as that is known: "fsdp1", "fsdp2"."""
        return self._whole.get("fsdp")

    @property
    def step(self) -> Optional[int]:
        """The training step."""
        return self._whole.get("step")

    @property
    def world_size(self) -> Optional[int]:
        """The number of ranks that saved it."""
        return self._whole.get("world_size")

    @cached_property
    def info(self) -> Answer:
        """What the command `info` answers."""
        return Answer.of("info", self._options, [self._place], {})

    @cached_property
    def _aliases(self) -> Dict[str, str]:
        """Names that a file ties to others."""
        return {alias: name for name, row in self._items.items() for alias in row["aliases"] if alias not in self._items}

    @property
    def tensors(self) -> Records[Tensor]:
        """All tensors, in natural order of their names; to_pandas() is a DataFrame."""
        return Records(list(self._items.values()), Tensor, checkpoint=self)

    @property
    def values(self) -> Values:
        """What is stored and is not a tensor, by name: ck.values["step"]."""
        return Values(self, self._values)

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
        return Answer.of(command, self._options, [self._place, *names], given)

    def _read(self, name: str, start: int, stop: int) -> bytearray:
        ready = self._ready.pop((name, start, stop), None)
        if ready is not None:
            return ready
        requests = [(name, start, stop), *self._next(name, start, stop)]
        answers = self._server.read(requests)
        self._ready = {request: answer for request, answer in zip(requests[1:], answers[1:]) if isinstance(answer, bytearray)}
        if isinstance(answers[0], bytearray):
            return answers[0]
        # Opening noticed more than reading does: a pointer of Git LFS, a truncated file.
        error = answers[0]
        for finding in self._findings:
            if finding["severity"] == "error" and error.path and finding.get("file") == error.path:
                fields = {**vars(error), "rule": finding["rule"], "hint": finding.get("fix")}
                raise type(error)(finding["message"], fields)
        raise error

    @cached_property
    def _order(self) -> Tuple[List[str], Dict[str, int]]:
        return list(self._items), {name: place for place, name in enumerate(self._items)}

    def _next(self, name: str, start: int, stop: int) -> List[Request]:
        """Small tensors behind this one, if those before it were read in order, each whole: a
        process that is asked for one at a time costs more than to read it."""
        names, places = self._order
        place, chosen, room = places[name], [], AHEAD_BYTES
        whole = start == 0 and stop == self._items[name]["numel"]
        self._in_order, self._last = (self._in_order + 1 if whole and place == self._last + 1 else 0), place
        for other in names[place + 1:place + AHEAD] if self._in_order > 1 else []:
            row = self._items[other]
            room -= row.get("bytes", room) + len(other)
            if room <= 0:
                break
            chosen.append((other, 0, row["numel"]))
        self._last += len(chosen)
        return chosen

    def __getitem__(self, name: str) -> Tensor:
        """The tensor of a name, or what the command finds by it: one that it is tied to by the
        configuration, one of the plan. UnknownName, a KeyError with the nearest names, if there
        is none."""
        fields = self._items.get(name) or self._items.get(self._aliases.get(name, ""))
        return Tensor(self._found(name) if fields is None else fields, checkpoint=self)

    def _found(self, name: object) -> Dict[str, Any]:
        if name in self._values:
            raise UnknownName(f"{name!r} is not a tensor", {"hint": f"ck.values[{name!r}]"})
        try:
            if not isinstance(name, str) or b"\0" in os.fsencode(name):
                raise UnknownName(f"no tensor {name!r}")
        except UnicodeEncodeError:
            raise UnknownName(f"no tensor {name!r}") from None
        document = answer(["show", *self._options], [self._place, name])
        if document["errors"]:
            raise fail(document, UnknownName)
        found = [row["name"] for row in document["data"]["items"] if row["kind"] == "tensor"]
        if not found:
            raise UnknownName(f"{name!r} is a module", {"hint": f"ck.tree(); ck.stats('{name}.**')"})
        return self._items[found[0]]

    def get(self, name: str, default: Any = None) -> Any:
        """The tensor of a name, or the default."""
        return self[name] if name in self else default

    def __contains__(self, name: object) -> bool:
        return name in self._items or name in self._aliases

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        """The number of names."""
        return len(self._items)

    def _ipython_key_completions_(self) -> List[str]:
        return list(self)

    def __repr__(self) -> str:
        path, rest = self.path, f": {self.format}, {len(self)} tensors>"
        room = LINE_WIDTH - len("<Checkpoint ") - len(rest)
        return f"<Checkpoint {brief(path if len(path) <= room else '…' + path[1 - room:], 'path', room)}{rest}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self.info))

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
    plan = None if plan is None else absolute(os.fsdecode(plan))
    return Checkpoint(path, options({"plan": plan, "no-plan": no_plan, "raw": raw, "range": range, "limit": limit}))


def runs(path: Path) -> Records[Found]:
    """The checkpoints of a directory: path, step, bytes, format, problem; each has open()."""
    answered = Answer.of("info", [], [path], {})
    data = answered.document["data"] or {}
    rows = data.get("below")
    if rows is None:
        bytes_ = (data.get("bytes") or {}).get("on_disk")
        rows = [{"path": os.fsdecode(path), "step": data.get("step"), "bytes": bytes_,
                 "format": (data.get("format") or {}).get("family"), "errors": 0}]
    return Records(rows, Found, folder=absolute(""))
