# SPDX-License-Identifier: Apache-2.0
"""Inspects sharded PyTorch checkpoints and recordings, from Python and notebooks.

    ck = fsdp_inspect.open("step-1000")
    ck.format, ck.step, ck.world_size, list(ck)[:2]
    t = ck["lm_head.weight"]; t.shape, t.dtype, t[0:4]
    ck.audit(data=True).verdict
    fsdp_inspect.diff("step-1000", "step-2000")
    fsdp_inspect.latest("runs/exp7"), fsdp_inspect.replay("trace_rank*.json.gz")

The command fsdp-inspect, which a wheel brings along, answers all questions: without torch,
without executing anything that a file contains. Failures raise Error. The exporter and the
recorders, which need torch, are in fsdp_inspect.recorders.
"""

from typing import List

from ._answer import Answer, Audit, Finding, Tree, run
from ._checkpoint import Checkpoint, Found, Values, open, runs  # noqa: A004
from ._command import Damaged, Denied, Error, NotACheckpoint, NotFound, UnknownName, Unsupported, binary
from ._commands import diff, latest, order, replay
from ._record import Record, Records
from ._tensor import Piece, Tensor

__version__ = "0.1.0"
__all__ = [
    "Answer", "Audit", "Checkpoint", "Damaged", "Denied", "Error", "Finding", "Found", "NotACheckpoint", "NotFound",
    "Piece", "Record", "Records", "Tensor", "Tree", "UnknownName", "Unsupported", "Values",
    "binary", "diff", "latest", "open", "order", "recorders", "replay", "run", "runs",
]


def __getattr__(name: str) -> object:
    if name == "recorders":
        import importlib

        return importlib.import_module(".recorders", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return [*__all__, "__version__"]
