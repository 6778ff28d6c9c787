# SPDX-License-Identifier: Apache-2.0
"""Questions about more than one input: two checkpoints, the recordings of a run."""

from __future__ import annotations

import glob
import os
from typing import Any, Sequence, Union

from ._answer import Answer
from ._command import Path, run


def diff(a: Path, b: Path, **given: Any) -> Answer:
    """What differs between two checkpoints; true if nothing does. Options of the command are
    keywords: diff(a, b, values=True)."""
    return run("diff", a, b, **given)


def _expanded(files: Union[Path, Sequence[Path]]) -> Sequence[Path]:
    """Files as they are given; a pattern stands for what it matches, if that is not a name."""
    if not isinstance(files, (str, os.PathLike)):
        return files
    if os.path.lexists(files):
        return [files]
    return sorted(glob.glob(os.fspath(files))) or [files]


def replay(files: Union[Path, Sequence[Path]], **given: Any) -> Answer:
    """Where the time of a run went: traces of torch.profiler and other recordings, a list, a
    folder or a pattern. Options of the command are keywords: replay(files, by="rank")."""
    return run("replay", *_expanded(files), **given)
