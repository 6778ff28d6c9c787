# SPDX-License-Identifier: Apache-2.0
"""Looks into sharded PyTorch checkpoints and recordings, from Python and notebooks.

    ck = fsdp_inspect.open("step-1000")
    ck.kind, ck.step, ck.tensors, ck.tree(), ck.units
    ck["layers.0.w"].values(0, 8)
    ck.audit(data=True).verdict
    fsdp_inspect.diff("step-1000", "step-2000")
    fsdp_inspect.replay("trace_rank*.json.gz")
    fsdp_inspect.run("flat", "step-1000").data

All questions are answered by the command fsdp-inspect, which a wheel brings along: it needs
no torch, runs nothing that a file holds, and reads only what a question is about. What
fails raises Error. The recorders of fsdp_inspect_export are here too; they need torch.
"""

from typing import TYPE_CHECKING, Any

from ._answer import Answer, Audit, Finding
from ._checkpoint import Checkpoint, Tensor, Tree, open  # noqa: A004
from ._command import Error, UnknownName, binary, run
from ._record import Record, Records
from ._recordings import diff, replay

if TYPE_CHECKING:
    from fsdp_inspect_export import (
        export_plan,
        install,
        record_fx_order,
        record_handles,
        record_profiler,
        sharding_plan,
    )

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Audit",
    "Checkpoint",
    "Error",
    "Finding",
    "Record",
    "Records",
    "Tensor",
    "Tree",
    "UnknownName",
    "binary",
    "diff",
    "export_plan",
    "install",
    "open",
    "record_fx_order",
    "record_handles",
    "record_profiler",
    "replay",
    "run",
    "sharding_plan",
]


def __getattr__(name: str) -> Any:
    """The recorders, once they are asked for."""
    if name in __all__:
        import fsdp_inspect_export

        return getattr(fsdp_inspect_export, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
