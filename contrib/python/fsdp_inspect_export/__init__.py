# SPDX-License-Identifier: Apache-2.0
"""Writes down, inside a Python process, what fsdp-inspect wants to know and no checkpoint
holds: the sharding plan of a live model.

    export_plan(model, "model.fsdp-plan.json")

Paths: `{rank}` stands for the rank, and every rank writes its own file. A path without it
is rank 0's alone; on the other ranks the same call writes nothing. A file appears under
its name only when it is complete. Nothing here communicates with other ranks, and
importing it changes nothing.
"""

from ._plan import export_plan, sharding_plan

__all__ = ["export_plan", "sharding_plan"]
__version__ = "0.1.0"
