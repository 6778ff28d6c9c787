#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `replay --compare` says of recordings, against the same asked for one step at a time.

Each step of each run is read by itself with --steps, without a comparison; means, least and most, changes and
places in the spread are computed here from that. Lengths of steps and times of kernels come from the events of the
traces themselves.
"""
import functools
import glob
import os
import tempfile
from collections import defaultdict

import idle
import oraclelib
from oraclelib import nanoseconds, trace_events

DEVICE = {"compute": "compute_busy_ns", "communication": "comm_busy_ns", "exposed": "exposed_ns",
          "copies": "mem_busy_ns", "idle": "idle_ns"}
TABLES = ("step", "rank", "type", "unit", "group", "collective", "kernel", "idle")


@functools.cache
def events_of(path):
    return [e for e in trace_events(path) if e.get("ph") == "X"]


@functools.cache
def steps_of(paths):
    """{number: {rank: length}} from the events."""
    steps = defaultdict(dict)
    for rank, path in enumerate(paths):
        for e in events_of(path):
            if e.get("name", "").startswith("ProfilerStep#") and e.get("cat") != "gpu_user_annotation":
                number = int(e["name"].split("#")[1])
                steps[number][rank] = steps[number].get(rank, 0) + nanoseconds(e["dur"])
    return steps


def calls_of(args, path, number):
    """((group, type, bytes, place among those of its group and type), ns) of each collective in a step of one rank."""
    data = oraclelib.run(args, "replay", "--json", "--by=collective", f"--steps={number}", path).json()["data"]
    places = defaultdict(int)
    for c in sorted(data["collectives"], key=lambda c: c["ts_ns"]):
        places[c.get("group"), c["type"]] += 1
        yield (c.get("group"), c["type"], c.get("bytes"), places[c.get("group"), c["type"]]), c["dur_ns"]


@functools.cache
def all_gaps(path):
    return list(idle.gaps_of(idle.events_of(path)))


def gaps_of(path, number):
    """(cause, ns) of each part of a gap that is of a step."""
    steps = [(nanoseconds(e["ts"]), nanoseconds(e["ts"] + e["dur"])) for e in events_of(path)
             if e.get("name") == f"ProfilerStep#{number}" and e.get("cat") != "gpu_user_annotation"]
    for moment, _, parts in all_gaps(path):
        if any(begin <= moment < end for begin, end in steps):
            yield from parts.items()


def asked(args, paths, by, number):
    """{key: (ns over all ranks, calls)} of one step."""
    if by in ("collective", "idle"):
        rows = defaultdict(lambda: [0, 0])
        for path in paths:
            for key, ns in calls_of(args, path, number) if by == "collective" else gaps_of(path, number):
                rows[key if by == "collective" else (key,)][0] += ns
                rows[key if by == "collective" else (key,)][1] += 1
        return rows
    if by == "rank":
        return {(rank, *key): value for rank, path in enumerate(paths)
                for key, value in asked(args, (path,), "step", number).items()}
    data = oraclelib.run(args, "replay", "--json", f"--by={by}", f"--steps={number}", *paths).json()["data"]
    rows = defaultdict(lambda: [0, 0])

    def add(key, ns, count):
        if ns is not None:
            rows[key][0] += ns
            rows[key][1] += count
    if by == "step":
        for s in data["steps"]:
            if s["step"] is None:
                continue
            add(("length",), s["dur_ns"], 1)
            for measure, field in DEVICE.items():
                if "device" in s:
                    add((measure,), s["device"][field], 1)
    elif by == "type":
        for t in data["types"]:
            if t["count"]:
                add((t["type"],), t["sum_ns"], t["count"])
    elif by == "unit":
        for u in data["units"]:
            for kind in ("gather", "reduce"):
                if u[f"{kind}_ns"] or u[f"{kind}_exposed_ns"]:
                    key = (u["unit"], u["phase"], u["pg"])
                    add((*key, kind), u[f"{kind}_ns"], 0)
                    add((*key, kind + "_exposed"), u[f"{kind}_exposed_ns"], 0)
    elif by == "group":
        for g in data["groups"]:
            add((g.get("group"), g["type"], g.get("bytes")), g["sum_ns"], g["count"])
    else:
        for k in data["kernels"]:
            add((k["kernel"], k["class"]), k["sum_ns"], k["count"])
    return rows


def halves_up(total, count):
    return (total + count // 2) // count


SAMPLES = {}  # of runs, which are compared with several others


def samples_of(args, runs, by):
    """Of each step of each run what each key took, the mean over its ranks; calls of all."""
    if (*runs, by) in SAMPLES:
        return SAMPLES[*runs, by]
    samples, calls = SAMPLES[*runs, by] = [], defaultdict(int)
    for paths in runs:
        for number, ranks in sorted(steps_of(paths).items()):
            rows = asked(args, paths, by, number)
            of = 1 if by == "rank" else len(ranks)
            samples.append({key: halves_up(ns, of) for key, (ns, _) in rows.items()})
            for key, (_, count) in rows.items():
                calls[key] += count
    return samples, calls


def spread(samples, key):
    times = [s.get(key, 0) for s in samples]
    return halves_up(sum(times), len(times)), min(times), max(times)


def expected(args, before, now, by):
    old, old_calls = samples_of(args, before, by)
    new, new_calls = samples_of(args, now, by)
    rows = {}
    for key in set(old_calls) | set(new_calls):
        b, n = spread(old, key), spread(new, key)
        place = None
        if len(old) > 1:
            place = "below" if n[0] < b[1] else "above" if n[0] > b[2] else "inside"
        rows[key] = (*b, *n, n[0] - b[0], place)
        if by != "unit":
            rows[key] += (old_calls.get(key, 0), new_calls.get(key, 0))
    return rows


def key_of(row):
    if row["by"] == "step":
        return (row["measure"],)
    if row["by"] == "unit":
        return row["name"], row["phase"], row["pg"], row["measure"]
    if row["by"] == "group":
        return row["name"], row["type"], row["bytes"]
    if row["by"] == "rank":
        return row["rank"], row["measure"]
    if row["by"] == "collective":
        return row["name"], row["type"], row["bytes"], row["nth"]
    if row["by"] == "kernel":
        return row["name"], row["class"]
    return (row["name"],)


def found(args, before, now, by, folder):
    options = [f"--compare={folder}"] if folder else [f"--compare={path}" for paths in before for path in paths]
    data = oraclelib.run(args, "replay", "--json", f"--by={by}", *options,
                         *(path for paths in now for path in paths)).json()["data"]["comparison"]
    rows = {}
    for r in data["rows"]:
        assert r["by"] == by and key_of(r) not in rows, r
        rows[key_of(r)] = tuple(r[k] for k in ("before_mean_ns", "before_min_ns", "before_max_ns", "mean_ns", "min_ns",
                                               "max_ns", "change_ns")) + (r.get("spread"),)
        if by != "unit":
            rows[key_of(r)] += (r["before_count"], r["count"])
    if by not in ("step",):
        changes = [abs(r["change_ns"]) for r in data["rows"]]
        assert changes == sorted(changes, reverse=True), changes
    return rows


def differences(got, want):
    return [f"{key}: found {got.get(key)}, expected {want.get(key)}"
            for key in sorted(set(got) | set(want), key=str) if got.get(key) != want.get(key)]


def lengths(before, now):
    """Of the steps, from the events alone."""
    old, new = ([halves_up(sum(ranks.values()), len(ranks)) for paths in runs for ranks in steps_of(paths).values()]
                for runs in (before, now))
    return (halves_up(sum(old), len(old)), min(old), max(old), halves_up(sum(new), len(new)), min(new), max(new))


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    sets = defaultdict(dict)
    for root in args.roots:
        for kind in ("units", "gpu_generated", "kineto_cpu"):
            for path in sorted(glob.glob(os.path.join(root, "traces", kind, "*_rank*.json*"))):
                sets[kind + "/" + os.path.basename(path).split("_rank")[0]].setdefault(os.path.basename(path), path)
    runs = {name: tuple(path for _, path in sorted(paths.items())) for name, paths in sets.items()}
    runs = {name: paths for name, paths in runs.items() if steps_of(paths)}
    names = sorted(runs)
    pairs = [(a, b) for a, b in zip(names, names[1:] + names[:1])
             if a.split("/")[0] == b.split("/")[0] and (args.only or "") in a]
    for a, b in pairs:
        before, now = [runs[a]], [runs[b]]
        for by in TABLES:
            want = expected(args, before, now, by)
            got = found(args, before, now, by, None)
            problems = differences(got, want)
            if by == "step" and got[("length",)][:6] != lengths(before, now):
                problems.append(f"lengths {got[('length',)]}, of events {lengths(before, now)}")
            tap.none(f"{a} and {b} by {by}", problems)
    # Two runs of the same ranks before, as a folder.
    plain = [runs[n] for n in ("units/g_plain", "units/g_same_stream") if n in runs]
    if len(plain) == 2 and not args.only:
        with tempfile.TemporaryDirectory() as folder:
            for n, paths in enumerate(plain):
                for path in paths:
                    os.symlink(os.path.abspath(path), os.path.join(folder, f"{n}_{os.path.basename(path)}"))
            for by in ("step", "type", "kernel"):
                want = expected(args, plain, [plain[0]], by)
                tap.none(f"a folder of two runs by {by}",
                         differences(found(args, plain, [plain[0]], by, folder), want))
    tap.done()


main()
