# SPDX-License-Identifier: Apache-2.0
"""Names as PyTorch's FSDP cleans them, and dtypes as fsdp-inspect spells them.

Knows text only.
"""

from __future__ import annotations

from typing import Any

SEGMENTS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


def clean(name: str) -> str:
    """Of a parameter. One segment after the other: removing the first may make a second."""
    for segment in SEGMENTS:
        name = name.replace(segment, "")
    return name


def clean_module(name: str) -> str:
    """Of a module: a segment is removed with its dot, so the last one needs one first."""
    return clean(name + ".")[:-1] if name else name


def below(module: str, name: str) -> str:
    """A raw name under the raw name of a module."""
    return f"{module}.{name}" if module else name


def full(module: str, relative: str) -> str:
    """The clean name of a parameter that is relative to a unit's module."""
    return (clean(module + ".") if module else "") + clean(relative)


def dtype(value: Any) -> str:
    return str(value).removeprefix("torch.")
