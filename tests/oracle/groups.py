#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `replay --by=group` says of traces with kernels, against sums over their events.

Which collective a kernel is, and of which group, is what `replay` says of each one; its size and the kernels that
compute meanwhile are read here from the trace itself, and added up one by one.
"""
import glob
import os
from collections import defaultdict

import oraclelib
from oraclelib import nanoseconds, trace_events

COMM = ("nccl", "rccl", "msccl", "cross_device_reduce", "multimem_all_")


def is_comm(event):
    return any(word in event["name"].lower() for word in COMM) or "Collective name" in event.get("args", {})


def busy(events):
    """When the device computes, as disjoint intervals."""
    spans = sorted((nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"])) for e in events
                   if e.get("ph") == "X" and e.get("cat") in ("kernel", "Kernel") and not is_comm(e) and
                   "MEMORY_COPY_" not in e["name"] and "__amd_rocclr_copyBuffer" not in e["name"])
    union = []
    for begin, end in spans:
        if union and begin <= union[-1][1]:
            union[-1][1] = max(union[-1][1], end)
        else:
            union.append([begin, end])
    return union


def hidden(begin, end, spans):
    return sum(max(0, min(end, b) - max(begin, a)) for a, b in spans)


def expected(path, collectives):
    spans = busy(trace_events(path))
    sums = defaultdict(lambda: [0, 0, 0])
    for one in collectives:
        begin, end = one["ts_ns"], one["ts_ns"] + one["dur_ns"]
        row = sums[one.get("group"), one["type"], one.get("bytes"), one.get("group_size")]
        row[0] += 1
        row[1] += one["dur_ns"]
        row[2] += one["dur_ns"] - hidden(begin, end, spans)
    return {key: tuple(row) for key, row in sums.items()}


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    seen = set()
    for root in args.roots:
        for kind in ("units", "gpu_generated"):
            for path in sorted(glob.glob(os.path.join(root, "traces", kind, "*.json*"))):
                name = os.path.basename(path)
                if name in seen or (args.only or "") not in name:
                    continue
                data = oraclelib.run(args, "replay", "--json", path).json().get("data") or {}
                if data.get("comm_layer") != "device":
                    continue
                seen.add(name)
                run = oraclelib.run(args, "replay", "--by=group", "--json", path)
                found = {(g["group"], g["type"], g["bytes"], g["group_size"]): (g["count"], g["sum_ns"], g["exposed_ns"])
                         for g in run.json()["data"]["groups"]}
                want = expected(path, data["collectives"])
                tap.none(name, [] if found == want else [f"found {found}, expected {want}"])
    tap.done()


main()
