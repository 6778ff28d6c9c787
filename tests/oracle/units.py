#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `replay --by=unit` says of recorded and generated runs, against their truth.

The truth lies in `expected/` beside the traces. What is added up by unit and what is of no
unit must be the sums by type as well, to the nanosecond.
"""
import glob
import os
import re
from collections import defaultdict

import oraclelib
from oraclelib import load, nanoseconds, trace_events

ROWS = ("unit", "phase", "pg", "gathers", "gather_ns", "gather_exposed_ns", "prefetched", "reduces", "reduce_ns",
        "reduce_exposed_ns", "reshards", "forwards", "groups")


def differ(what, found, expected):
    return [] if found == expected else [f"{what}: found {found!r}, expected {expected!r}"]


def sums(data, *types):
    return sum(t["sum_ns"] or 0 for t in data["types"] if t["type"] in types)


def compare(data, want):
    problems = []
    for found, row in zip(data["units"], want["units"]):
        problems += differ(f"unit {row['unit']!r} {row['phase']}", {k: found[k] for k in ROWS}, row)
    problems += differ("rows", len(data["units"]), len(want["units"]))
    problems += differ("unassigned", data["unassigned"], want["unassigned"])
    for what, types in (("gather", ("all_gather",)), ("reduce", ("reduce_scatter", "all_reduce"))):
        total = sum(u[what + "_ns"] for u in data["units"]) + data["unassigned"][what + "_ns"]
        problems += differ(what + " in all", total, sums(data, *types))
    return problems


# ---- what costs most

LINE = re.compile(r"^most costly: (.*): ([0-9.]+) ms exposed per step", re.M)
SAME = "collectives on the compute stream, all exposed"
FIRST = "all-gathers of the first unit of a step, before any compute"
LAST = "reduce-scatters at the end of the backward, after all compute"
LONG = "{} that take longer than what computes meanwhile"
LATE = "all-gathers in the {}, never issued ahead"


class Annotations:
    """Of one thread: the innermost of some of them around a moment."""

    def __init__(self, events):
        self.by_thread = defaultdict(list)
        for e in events:
            if e.get("cat") == "user_annotation" and str(e["name"]).startswith(("FSDP::", "ProfilerStep#")):
                begin = nanoseconds(e["ts"])
                self.by_thread[e["pid"], e["tid"]].append((begin, begin + nanoseconds(e["dur"]), e["name"]))

    def around(self, thread, begin, end, *names):
        held = [a for a in self.by_thread[thread] if a[0] <= begin and a[1] >= end and a[2].startswith(names)]
        return min(held, key=lambda a: (a[1] - a[0], -a[0]), default=None)


def losses_of(path):
    """{cause: ns exposed} of a trace whose kernels have launches, from its events alone; and its steps."""
    events = [e for e in trace_events(path) if e.get("ph") == "X" and "dur" in e]
    annotations = Annotations(events)
    steps = sorted(a for of in annotations.by_thread.values() for a in of if a[2].startswith("ProfilerStep#"))
    launches = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    spans = lambda e: (nanoseconds(e["ts"]), nanoseconds(e["ts"] + e["dur"]))
    kernels = [e for e in events if e.get("cat") == "kernel"]
    computing = [spans(e) for e in kernels if "nccl" not in e["name"]]
    busy = defaultdict(int)
    for e in kernels:
        busy[e["tid"]] += nanoseconds(e["dur"]) if "nccl" not in e["name"] else 0
    main_stream = max(busy, key=busy.get)

    def computes(begin, end):
        cuts = sorted({begin, end} | {t for c in computing for t in c if begin < t < end})
        return sum(b - a for a, b in zip(cuts, cuts[1:]) if any(c[0] <= a and c[1] >= b for c in computing))

    calls = []
    first = {}
    for e in kernels:
        if "nccl" not in e["name"]:
            continue
        launch = launches[e["args"]["correlation"]]
        at, thread = nanoseconds(launch["ts"]), (launch["pid"], launch["tid"])
        issued = annotations.around(thread, at, at + 1, "FSDP::all_gather (", "FSDP::post_backward_reduce")
        issued = issued or next((a for a in annotations.by_thread[thread] if a[2] == "FSDP::all_gather"
                                 and a[0] <= at < a[1]), None)
        if issued is None:
            continue
        turn = annotations.around(thread, *issued[:2], "FSDP::pre_forward", "FSDP::pre_backward",
                                  "FSDP::forward_prefetch", "FSDP::backward_prefetch")
        unit = issued[2].partition(" (")[2]
        gather = "all_gather" in issued[2]
        ahead = gather and ("prefetch" in turn[2] or turn[2].partition(" (")[2] != unit)
        step = next((i for i, s in enumerate(steps) if s[0] <= at < s[1]), None)
        begin, end = spans(e)
        row = (unit, gather, "forward" if gather and "forward" in turn[2] else "backward")
        calls.append((row, step, begin, end, end - begin - computes(begin, end), e["tid"] == main_stream, ahead))
        if gather and (step not in first or at < first[step][0]):
            first[step] = (at, row, issued)
    losses = defaultdict(int)
    for row in {c[0] for c in calls}:
        mine = [c for c in calls if c[0] == row]
        gathers = len(mine)
        for _, step, begin, end, exposed, _, _ in mine:
            if 2 * sum(c[5] for c in mine) > len(mine):
                cause = SAME
            elif not row[1]:
                last = max(c[2] for c in calls if not c[0][1] and c[1] == step)
                cause = LAST if computes(end, max(end, last)) == 0 else LONG.format("reductions")
            elif 2 * sum(f[1] == row for f in first.values()) > gathers:
                cause = FIRST
            else:
                cause = LONG.format("gathers") if any(c[6] for c in mine) else LATE.format(row[2])
            losses[cause] += exposed
    return losses, len(steps)


def judge_cause(args, paths):
    problems = []
    for path in paths:
        losses, steps = losses_of(path)
        text = oraclelib.run(args, "replay", "--by=unit", path).out.decode()
        found = LINE.search(text)
        cause = max(losses, key=losses.get)
        want = (cause, f"{(losses[cause] // steps + 500) // 1000 / 1000:.3f}")
        if found is None or found.groups() != want:
            problems.append(f"{os.path.basename(path)}: found {found and found.groups()}, expected {want}: {dict(losses)}")
    return problems


class Oracle:
    def __init__(self, tap, args):
        self.tap = tap
        self.args = args

    def judge(self, name, paths, want):
        run = oraclelib.run(self.args, "replay", "--by=unit", "--json", *paths)
        if run.crash or run.status not in (0, 3):
            problems = [run.crash or f"status {run.status}: {run.tail}"]
        else:
            problems = compare(run.json()["data"], want)
        self.tap.none(name, problems)

    def folder(self, folder):
        others = os.path.join(folder, "others.json")
        paths_of = load(others) if os.path.exists(others) else {}
        for truth in sorted(glob.glob(folder + "/expected/*.json")):
            case = os.path.basename(truth)[:-5]
            want = load(truth)
            base = os.path.dirname(folder)
            paths = [os.path.join(base, p) for p in paths_of.get(case, [])] or \
                    [os.path.join(folder, p) for p in want["files"]]
            if not all(map(os.path.exists, paths)):
                continue
            name = f"{os.path.basename(folder)}/{case}"
            self.judge(name, paths, want["together"])
            for path in paths:
                alone = want["alone"].get(os.path.basename(path))
                if alone is not None and len(paths) > 1:
                    self.judge(f"{name}: {os.path.basename(path)}", [path], alone)
            if case.startswith("g_") and case not in ("g_old", "g_bare", "g_experts_w4"):
                self.tap.none(f"{name}: what costs most", judge_cause(self.args, paths))


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    oracle = Oracle(tap, args)
    for root in args.roots[-1:] if args.fixtures else args.roots:
        for folder in ("units", "units/torch_26", "units/torch_23"):
            if os.path.isdir(os.path.join(root, "traces", folder)):
                oracle.folder(os.path.join(root, "traces", folder))
    tap.done()


main()
