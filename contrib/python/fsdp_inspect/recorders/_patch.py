# SPDX-License-Identifier: Apache-2.0
"""Attributes that are other for a while.

Knows how to put something in an object's or a class's own namespace and how to take it
out again, whatever happened meanwhile. Refuses to know what is patched, and why.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, List, Optional, Tuple, Type

_ABSENT: Any = object()


def own(thing: Any, name: str) -> Any:
    """What stands in the namespace of the thing itself, unbound; absent if inherited."""
    return vars(thing).get(name, _ABSENT)


class Patches:
    """Sets attributes, and restores them in the opposite order at the end.

    Who patched over us and is still there keeps his place: taking ours out from beneath
    would undo his. Our functions then stay in the chain and only pass through, since
    their recording has ended.
    """

    def __init__(self) -> None:
        self._undo: List[Tuple[Any, str, Any, Any]] = []

    def set(self, thing: Any, name: str, value: Any) -> None:
        before = own(thing, name)
        setattr(thing, name, value)
        self._undo.append((thing, name, before, value))

    def __enter__(self) -> "Patches":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        while self._undo:
            thing, name, before, ours = self._undo.pop()
            if own(thing, name) is not ours:
                continue
            if before is _ABSENT:
                delattr(thing, name)
            else:
                setattr(thing, name, before)
