# SPDX-License-Identifier: Apache-2.0
"""A plan with each save of torch.distributed.checkpoint.

Knows where dcp.save takes its folder from. A save never fails because of a plan.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from ._files import plan_text, write_text
from ._patch import Patches
from ._plan import checked_plan
from ._process import rank_and_world

if TYPE_CHECKING:
    from torch.nn import Module

NAME = "model.fsdp-plan.json"
KEY = "fsdp_plan"


def install(model: "Module", *, name: str = NAME, key: Optional[str] = KEY) -> Callable[[], None]:
    """From now on each `dcp.save` and `dcp.async_save` writes the sharding plan of `model`
    too: as the file `name` in the folder of the checkpoint, by rank 0, and as the value
    `key` in it (None: no such value). Call it once, after wrapping, on every rank. What it
    returns undoes it.
    """
    import torch.distributed.checkpoint as dcp

    checked_plan(model)  # what is wrong is wrong now, not in an hour
    patches = Patches()
    for function in ("save", "async_save"):
        if hasattr(dcp, function):
            patches.set(dcp, function, _with_plan(getattr(dcp, function), model, name, key))
    return lambda: patches.__exit__(None, None, None)


def _with_plan(save: Callable[..., Any], model: "Module", name: str, key: Optional[str]) -> Callable[..., Any]:
    def saved(state_dict: Dict[str, Any], *given: Any, **named: Any) -> Any:
        text = _text(model)
        if text is None:
            return save(state_dict, *given, **named)
        if key is not None and key not in state_dict:
            state_dict = {**state_dict, key: text}
        result = save(state_dict, *given, **named)
        _write_beside(_folder(named), name, text)
        return result

    return saved


def _text(model: "Module") -> Optional[str]:
    try:
        return plan_text(checked_plan(model))
    except Exception as error:  # a checkpoint without a plan is better than none
        warnings.warn(f"no sharding plan is written: {error}", stacklevel=3)
        return None


def _folder(named: Dict[str, Any]) -> Optional[str]:
    """That of checkpoint_id, or of the writer; None where it is not a path of this machine."""
    writer = named.get("storage_writer")
    for place in (named.get("checkpoint_id"), getattr(writer, "path", None), getattr(writer, "checkpoint_id", None)):
        if isinstance(place, (str, os.PathLike)) and "://" not in os.fspath(place):
            return os.fspath(place)
    return None


def _write_beside(folder: Optional[str], name: str, text: str) -> None:
    if folder is None or rank_and_world()[0] != 0:
        return
    try:
        write_text(os.path.join(folder, name), text)
    except OSError as error:
        warnings.warn(f"{os.path.join(folder, name)}: not written: {error}", stacklevel=3)
