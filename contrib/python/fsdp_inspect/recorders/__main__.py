# SPDX-License-Identifier: Apache-2.0
"""What to paste into a training script, and whether a file is a plan of use.

    python -m fsdp_inspect.recorders                 the lines to paste
    python -m fsdp_inspect.recorders PLAN...         what is in these plans; status 1 if one has no unit
"""

import json
import sys
from typing import List

LINES = """# Once, behind fully_shard(model) or FullyShardedDataParallel(model), on every rank:
from fsdp_inspect.recorders import install
install(model)                                   # each dcp.save writes its plan too

# Or by hand:
from fsdp_inspect.recorders import export_plan
export_plan(model, "step-1000/model.fsdp-plan.json")

# What saving the optimizer costs, and the order of units (FSDP1):
from fsdp_inspect.recorders import record_handles, record_profiler
with record_profiler("profile_rank{rank}.jsonl"), record_handles(model, "order_rank{rank}.jsonl"):
    train(model)

# Then, in a shell:
#   fsdp-inspect tree step-1000
#   fsdp-inspect replay profile_rank*.jsonl
#   fsdp-inspect order order_rank*.jsonl
"""


def describe(path: str) -> int:
    try:
        with open(path, encoding="utf-8") as stream:
            plan = json.load(stream)
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    if not isinstance(plan, dict) or plan.get("format") != "fsdp-plan":
        print(f"{path}: no sharding plan: write one with export_plan(model, path)", file=sys.stderr)
        return 1
    units = plan.get("units") or []
    strategies = ", ".join(sorted({str(unit.get("strategy")) for unit in units})) or "no strategy"
    print(f"{path}: {len(units)} units, {strategies}, {len(plan.get('parameters') or [])} parameters, "
          f"world size {plan.get('world_size')}, torch {plan.get('torch')}")
    if not units:
        print(f"{path}: it was exported before wrapping: call export_plan after fully_shard(model)", file=sys.stderr)
    return 0 if units else 1


def main(paths: List[str]) -> int:
    if not paths:
        print(LINES, end="")
        return 0
    if paths[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    return max(describe(path) for path in paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
