# SPDX-License-Identifier: Apache-2.0
"""Objects of a JSON answer as Python objects, and lists of them as tables.

Knows dicts and lists. Refuses to know what a field means, and where an answer comes from.
"""

from __future__ import annotations

import html
import keyword
from typing import TYPE_CHECKING, Any, Dict, Generic, Iterator, List, Mapping, Sequence, Type, TypeVar, Union, overload

from ._command import printable
from ._fields import FIELDS

if TYPE_CHECKING:
    import pandas

SHOWN_ROWS = 20
SHOWN_WIDTH = 60
LINE_WIDTH = 80


class Record:
    """An object of an answer: record["name"] and record.name are the same. A field that is
    a keyword of Python ends in an underscore (record.class_). One that the schema has and
    the answer lacks is None as an attribute, which means unknown, and a KeyError as an item."""

    _known = FIELDS  # of the schema

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> Any:
        return wrap(self._fields[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields == other._fields

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name.endswith("_") and keyword.iskeyword(name[:-1]):
            name = name[:-1]
        if name not in self._fields and name not in self._known:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {', '.join(self._fields)}")
        return wrap(self._fields.get(name))

    def __reduce__(self) -> Any:
        return type(self), (self._fields,)

    def __dir__(self) -> List[str]:
        fields = [f"{name}_" if keyword.iskeyword(name) else name for name in self._fields]
        return sorted({*super().__dir__(), *fields})

    def to_dict(self) -> Dict[str, Any]:
        """The plain dict, as the command wrote it."""
        return dict(self._fields)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={brief(value, name)}" for name, value in self._fields.items())
        return cut(f"{type(self).__name__}({shown})")

    def _repr_html_(self) -> str:
        return table(["field", "value"], [[name, brief(value, name)] for name, value in self._fields.items()])


R = TypeVar("R", bound=Record)


class Records(Sequence[R], Generic[R]):
    """A list of records. It is shown as a table, and to_pandas() makes a DataFrame."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], kind: Type[R], **beside: Any) -> None:
        self._rows, self._kind, self._beside = rows, kind, beside

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> Records[R]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[R, Records[R]]:
        if isinstance(index, slice):
            return Records(self._rows[index], self._kind, **self._beside)
        return self._kind(self._rows[index], **self._beside)

    def __len__(self) -> int:
        return len(self._rows)

    def to_dicts(self) -> List[Dict[str, Any]]:
        """Plain dicts, as the command wrote them."""
        return [dict(row) for row in self._rows]

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with a column for each field. ImportError where pandas is not installed."""
        import pandas

        return pandas.DataFrame.from_records(self._rows)

    def _columns(self) -> List[str]:
        return list(dict.fromkeys(name for row in self._rows[:SHOWN_ROWS] for name in row))

    def _cells(self) -> List[List[str]]:
        return [[brief(row.get(name), name) for name in self._columns()] for row in self._rows[:SHOWN_ROWS]]

    def _more(self) -> str:
        return f"and {len(self) - SHOWN_ROWS} more" if len(self) > SHOWN_ROWS else ""

    def __repr__(self) -> str:
        lines = [self._columns(), *self._cells()]
        widths = [max(map(len, column)) for column in zip(*lines)]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
        return "\n".join([*map(cut, text), *filter(None, [self._more()])]) if self._rows else "no rows"

    def _repr_html_(self) -> str:
        return table(self._columns(), self._cells()) + f"<p>{self._more()}</p>"


def wrap(value: Any) -> Any:
    """What is shown to callers of a value of JSON."""
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return Records(value, Record)
    return value


def brief(value: Any, name: str, width: int = SHOWN_WIDTH) -> str:
    """The value of a field on one line, cut where it is long."""
    if value is None:
        return "-"
    if name == "shape" and isinstance(value, list):
        text = "x".join(map(str, value)) or "scalar"
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        text = f"[{len(value)} rows]"
    else:
        text = str(value)
    text = printable(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def cut(line: str) -> str:
    """A line that fits a terminal."""
    return line if len(line) <= LINE_WIDTH else line[: LINE_WIDTH - 1] + "…"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in HTML. All text is escaped: names come from files."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts) + "</tr>"

    body = "".join(cells("td", row) for row in rows)
    return f"<table><thead>{cells('th', columns)}</thead><tbody>{body}</tbody></table>"


def folded(text: str) -> str:
    """Text as a terminal of 80 columns shows it: the command breaks lines, but no path."""
    return "\n".join(line[i:i + LINE_WIDTH] for line in text.split("\n") for i in range(0, len(line) or 1, LINE_WIDTH))


def preformatted(text: str) -> str:
    """Text of the command in HTML."""
    return f"<pre>{html.escape(folded(text))}</pre>"
