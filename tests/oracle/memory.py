#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `replay --memory` says of snapshots of CUDA memory, against the truth beside them.

Each case is the snapshots of one job and `truth.json`: every figure, every stack. `damaged` has a
truth for each file.
"""
import os
import pickle
import tempfile

import oraclelib
from oraclelib import load


def differ(what, found, expected):
    return [] if found == expected else [f"{what}: found {str(found)[:200]}, expected {str(expected)[:200]}"]


ACTIVE = {"alloc": 1, "free_completed": -1}
RESERVED = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


def spans(events, active, reserved, count):
    """[(begin, most active, most reserved)]; active as it begins, reserved as it ends."""
    first, last = events[0]["time_us"], events[-1]["time_us"]
    length = (last - first) // count + 1
    reserved -= sum(RESERVED.get(e["action"], 0) * e["size"] for e in events)
    rows, left = [], list(events)
    for at in range(count):
        begin = first + at * length
        levels = [(active, reserved)]
        while left and (left[0]["time_us"] < begin + length or at == count - 1):
            event = left.pop(0)
            active += ACTIVE.get(event["action"], 0) * event["size"]
            reserved += RESERVED.get(event["action"], 0) * event["size"]
            levels.append((active, reserved))
        rows.append((begin, max(a for a, _ in levels), max(r for _, r in levels)))
    return rows


class Oracle:
    def __init__(self, tap, args):
        self.tap = tap
        self.args = args

    def ask(self, paths, *words):
        return oraclelib.run(self.args, "replay", "--memory", *words, *paths)

    def compare(self, paths, want, status=0):
        run = self.ask(paths, "--json")
        if run.crash:
            return [run.crash]
        problems = differ("status", run.status, status)
        data = run.json().get("data")
        if data is None:
            return problems + ([] if want is None else ["there is no answer"])
        found = data["memory"]
        problems += differ("rows", len(found), len(want))
        for i, (a, b) in enumerate(zip(found, want)):
            for key in b:
                problems += differ(f"row {i}: {key}", a.get(key), b[key])
            problems += differ(f"row {i}: keys", sorted(a), sorted(b))
        return problems

    def folder(self, folder):
        truth = load(os.path.join(folder, "truth.json"))
        name = os.path.basename(folder)
        if name == "damaged":
            for file, want in truth.items():
                self.damaged(os.path.join(folder, file), file, want)
            return
        paths = sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".pickle"))
        want = truth if isinstance(truth, list) else truth["memory"]
        self.tap.none(f"{name}: every figure", self.compare(paths, want))
        self.tap.none(f"{name}: events", self.events(paths, want))

    def events(self, paths, want):
        """A row for each event, and the highest of them are the peaks."""
        run = self.ask(paths, "-o", "csv")
        rows = [line.split(",") for line in run.out.decode().splitlines()[1:]]
        problems = differ("status", run.status, 0) + differ("rows", len(rows), sum(w["events"] for w in want))
        for w in want:
            own = [r for r in rows if (int(r[0]), int(r[1])) == (w["rank"], w["device"])]
            if own:
                problems += differ("peak", max([w["start_bytes"]] + [int(r[5]) for r in own]), w["peak_bytes"])
                problems += differ("end", int(own[-1][5]), w["requested_bytes"])
                problems += differ("reserved", int(own[-1][6]), w["reserved_bytes"])
        return problems

    def damaged(self, path, name, want):
        if "memory" in want:
            self.tap.none(name, self.compare([path], want["memory"], want["status"]))
            return
        run = self.ask([path], "--json")
        allowed = (2, 3) if want["error"] == "cut" else (want["status"],)
        self.tap.none(name, [] if run.status in allowed else [f"status {run.status}, expected {allowed}"])

    def growth(self, before, after):
        """Growth is what the later truth has less what the earlier one has, by whole stack."""
        stacks = {}
        rows = [load(os.path.join(f, "truth.json"))["memory"][0] for f in (after, before)]
        for row, sign in zip(rows, (1, -1)):
            for s in row["stacks"]:
                key = tuple((f["filename"], f["line"], f["name"]) for f in s["frames"])
                old = stacks.get(key, (0, 0))
                stacks[key] = (old[0] + sign * s["bytes"], old[1] + sign * s["blocks"])
        run = self.ask([os.path.join(after, "rank0.pickle")], "--json",
                       "--compare=" + os.path.join(before, "rank0.pickle"))
        found = run.json()["data"]["growth"]
        problems = differ("rows", len(found), 1)
        for key in ("reserved_bytes", "active_bytes"):
            problems += differ(key, found[0][key], rows[0][key] - rows[1][key])
        told = {tuple((f["filename"], f["line"], f["name"]) for f in s["frames"]): (s["bytes"], s["blocks"])
                for s in found[0]["stacks"]}
        problems += differ("stacks", told, {k: v for k, v in stacks.items() if v != (0, 0)})
        self.tap.none(f"growth from {os.path.basename(before)} to {os.path.basename(after)}", problems)

    def timeline(self, folder, count=7):
        """Spans of equal length, each with the most that was active and reserved in it."""
        paths = sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".pickle"))
        run = self.ask(paths, "--json", f"--timeline={count}")
        answer = run.json()["data"]
        found = {}
        for row in answer["memory_timeline"]:
            found.setdefault((row["rank"], row["device"]), []).append((row["time_us"], row["active"], row["reserved"]))
        problems = []
        for rank, path in enumerate(paths):
            with open(path, "rb") as f:
                traces = pickle.load(f)["device_traces"]
            for device, events in enumerate(traces):
                if not events:
                    continue
                facts = next(r for r in answer["memory"] if (r["rank"], r["device"]) == (rank, device))
                problems += differ(f"rank {rank}, device {device}", found.get((rank, device)),
                                   spans(events, facts["start_bytes"], facts["reserved_bytes"], count))
        self.tap.none(f"{os.path.basename(folder)}: the timeline", problems)

    def lost_events(self):
        """More freed than there can have been: there is no peak, and text says why."""
        event = {"action": "alloc", "addr": 1, "size": 1 << 20, "stream": 0, "time_us": 5, "frames": []}
        snapshot = {"segments": [], "device_traces": [[event, dict(event, addr=2)]]}
        with tempfile.NamedTemporaryFile(suffix="_rank0.pickle") as f:
            pickle.dump(snapshot, f, 4)
            f.flush()
            run = self.ask([f.name], "--width=200")
            self.tap.none("events are lost", differ("status", run.status, 0) +
                          ([] if b"peak unknown" in run.out else [run.out]))


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    oracle = Oracle(tap, args)
    folders = {os.path.basename(folder): folder for folder in oraclelib.truths(args, "memory")}
    for folder in folders.values():
        oracle.folder(folder)
    if not args.only:
        for before, after in (("plain", "ring"), ("ring", "plain"), ("plain", "plain"), ("old", "expandable")):
            oracle.growth(folders[before], folders[after])
        for name in ("plain", "ring", "devices_w2", "expandable", "oom_w8"):
            oracle.timeline(folders[name])
    oracle.lost_events()
    tap.done()


main()
