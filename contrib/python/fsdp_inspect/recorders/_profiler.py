# SPDX-License-Identifier: Apache-2.0
"""Records what SimpleProfiler of torch.distributed.fsdp._debug_utils receives.

Knows that class: profile, reset, dump_and_reset, and the clock it reads. Refuses to add
anything up: SimpleProfiler itself still does all the work, and the recording has the very
readings of the clock that it had.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ContextManager, Iterator, Optional, Type

from ._files import Path, Recording
from ._patch import Patches
from ._process import FORMAT, VERSION, debug_level, private_torch, rank_and_world, recording


class _Clock:
    """Stands in for the time module there, and remembers what each thread last read."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._read = threading.local()

    def monotonic_ns(self) -> int:
        self._read.ns = int(self._real.monotonic_ns())
        return int(self._read.ns)

    def monotonic(self) -> float:
        return self.monotonic_ns() / 1e9  # what CPython does to get it

    def take(self) -> int:
        """The last reading since this was asked, or else the time now."""
        ns = getattr(self._read, "ns", None)
        self._read.ns = None
        return time.monotonic_ns() if ns is None else int(ns)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Region:
    """A region of SimpleProfiler, with a line where it begins and where it ends: also
    where it is refused (no reading of the clock then), and where it ends by an error."""

    def __init__(self, region: ContextManager[None], name: str, out: Recording, clock: _Clock) -> None:
        self._region = region
        self._name = name
        self._out = out
        self._clock = clock

    def __enter__(self) -> None:
        self._clock.take()
        try:
            return self._region.__enter__()
        finally:
            self._out.put(ev="begin", type=self._name, t_ns=self._clock.take())

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> Optional[bool]:
        self._clock.take()
        try:
            return self._region.__exit__(kind, value, trace)
        finally:
            self._out.put(ev="end", type=self._name, t_ns=self._clock.take())


@contextmanager
def record_profiler(path: Path) -> Iterator[None]:
    """Records SimpleProfiler's regions, resets and dumps of all threads, while it is
    entered, into the native format `simple_profiler` (see fsdp-inspect-trace(5)).

    Regions that were open before are not in it. What was patched is restored at the end,
    also by an exception, and the recording up to there is kept.
    """
    out = recording(path)
    if out is None:
        yield
        return
    with out, Patches() as patches:
        rank, world = rank_and_world()
        out.put(type="header", format=FORMAT, version=VERSION, kind="simple_profiler", rank=rank,
                world_size=world, debug_level=debug_level(), clock="monotonic_ns",
                times="optim_state_dict() and loading of FSDP1; not the steps of training")
        _patch(patches, out)
        yield


def _name(profile_type: object) -> str:
    """A member of PyTorch's enum is its value: as a key it is no other."""
    return str.__str__(profile_type) if isinstance(profile_type, str) else str(profile_type)


@private_torch("FSDP1's profiler")
def _patch(patches: Patches, out: Recording) -> None:
    from torch.distributed.fsdp import _debug_utils

    profiler: Any = _debug_utils.SimpleProfiler
    clock = _Clock(_debug_utils.time)
    profile, reset, dump = profiler.profile, profiler.reset, profiler.dump_and_reset

    # A generator, as PyTorch's own is: a region that is dropped instead of ended (what
    # _optim_state_dict does on ranks that save nothing) ends when it is collected.
    @contextmanager
    def recorded_profile(cls: Any, profile_type: str) -> Iterator[None]:
        with _Region(profile(profile_type), _name(profile_type), out, clock):
            yield

    def recorded_reset(cls: Any) -> None:
        out.put(ev="reset", t_ns=time.monotonic_ns())
        reset()

    def recorded_dump(cls: Any, msg: str) -> None:
        out.put(ev="dump", msg=msg, t_ns=time.monotonic_ns())
        dump(msg)

    patches.set(_debug_utils, "time", clock)
    patches.set(profiler, "profile", classmethod(recorded_profile))
    patches.set(profiler, "reset", classmethod(recorded_reset))
    patches.set(profiler, "dump_and_reset", classmethod(recorded_dump))
