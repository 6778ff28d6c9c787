#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `replay --by=unit` says of recorded and generated runs, against their truth.

The truth lies in `expected/` beside the traces. What is added up by unit and what is of no
unit must be the sums by type as well, to the nanosecond.
"""
import glob
import os

import oraclelib
from oraclelib import load

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
