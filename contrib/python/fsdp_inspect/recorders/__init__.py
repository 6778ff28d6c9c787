# SPDX-License-Identifier: Apache-2.0
"""Writes down, inside a Python process, what fsdp-inspect wants to know and no checkpoint
holds: the sharding plan of a live model, and recordings of what a run did.

    install(model)
    export_plan(model, "model.fsdp-plan.json")
    with record_profiler("profile_rank{rank}.jsonl"): ...
    with record_handles(model, "order_rank{rank}.jsonl"): ...
    with record_fx_order(tracer, "order.jsonl"): tracer.trace(model)

Paths: `{rank}` stands for the rank, and every rank writes its own file. A path without it
is rank 0's alone; on the other ranks the same call writes nothing. A file appears under
its name only when it is complete. Nothing here communicates with other ranks, and
importing it changes nothing.
"""

from ._fx_order import record_fx_order
from ._handles import record_handles
from ._install import install
from ._plan import export_plan, sharding_plan
from ._profiler import record_profiler

__all__ = [
    "export_plan",
    "install",
    "record_fx_order",
    "record_handles",
    "record_profiler",
    "sharding_plan",
]
__version__ = "0.1.0"
