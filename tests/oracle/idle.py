#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `replay --by=idle` says of traces with kernels, against gaps found from their events.

Gaps, their launches and what the launching thread did in them are found here moment by moment; all causes together
must be the idle time of plain `replay`.
"""
import bisect
import glob
import json
import os
import random
import tempfile
from collections import defaultdict

import oraclelib
from oraclelib import nanoseconds, trace_events

DEVICE = ("kernel", "Kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset")
RUNTIME = ("cuda_runtime", "cuda_driver", "Runtime")
ORDER = ("synchronisation", "allocation", "copy", "collective", "data_loader")
BACKENDS = ("nccl", "rccl", "gloo", "mpi", "ucc", "xccl", "hccl", "cncl", "oneccl")
WEEK = 7 * 86400 * 10**9


def events_of(path):
    return [e for e in trace_events(path) if e.get("ph") == "X" and isinstance(e.get("name", ""), str)
            and "ts" in e and "dur" in e and 0 <= nanoseconds(e["dur"]) <= WEEK]


def call_of(event):
    """Why a thread in this launches nothing; "launch" for operators and other calls; None for the rest."""
    name, cat = event["name"], event.get("cat")
    if cat in RUNTIME:
        rest = name
        for prefix in ("cuda", "hip", "cuMem", "cu"):
            if name.startswith(prefix):
                rest = name[len(prefix):]
                break
        if "Synchronize" in rest and rest != name:
            return "synchronisation"
        if name.startswith(("cudaMemcpy", "hipMemcpy", "cuMemcpy")):
            return "copy"
        if name.startswith(tuple(p + w for p in ("cuda", "hip") for w in (
                "Malloc", "Free", "HostAlloc", "HostMalloc", "HostFree", "HostRegister", "HostUnregister"))):
            return "allocation"
        if name.startswith(tuple(p + w for p in ("cuMem", "hipMem") for w in (
                "Alloc", "Free", "HostAlloc", "HostRegister", "HostUnregister", "Create", "Release", "Map", "Unmap",
                "SetAccess", "AddressReserve", "AddressFree"))):
            return "allocation"
        return "launch"
    if cat in ("cpu_op", "Operator"):
        return "collective" if name.startswith("c10d::") else "launch"
    if cat in (None, "user_annotation"):
        if name.startswith("enumerate(DataLoader)#"):
            return "data_loader"
        backend, _, rest = name.partition(":")
        if backend in BACKENDS and rest and not rest.startswith(":"):
            return "collective"
    return None


def gaps_of(events):
    """(a moment in the step that it is of, the kernel that ends it, {cause: ns}) of each gap."""
    works = sorted((nanoseconds(e["ts"]), -nanoseconds(e["ts"] + e["dur"]),
                    e.get("args", {}).get("correlation"), e["name"]) for e in events if e.get("cat") in DEVICE)
    launches, threads = {}, defaultdict(list)
    for e in events:
        thread = (str(e.get("pid")), str(e.get("tid")))
        begin = nanoseconds(e["ts"])
        call = (begin, begin + nanoseconds(e["dur"]))
        why = call_of(e)
        if why:
            threads[thread].append((*call, why))
        correlation = e.get("args", {}).get("correlation")
        if e.get("cat") in RUNTIME and correlation is not None:
            key = ("Launch" not in e["name"], begin)
            if correlation not in launches or key < launches[correlation][0]:
                launches[correlation] = (key, *call, thread)
    for calls in threads.values():
        calls.sort()
    end, last_thread = None, None
    windows = windows_of(events)
    for begin, until, correlation, name in works + [(None, None, None, "(end)")]:
        for first, last in windows:
            low = first if end is None else max(first, end)
            high = last if begin is None else min(begin, last)
            if low >= high:
                continue
            parts = defaultdict(int)
            launch = launches.get(correlation) if begin is not None else None
            moment = low if begin is None else begin
            if launch is not None:
                _, called, returned, thread = launch
                late = min(max(called, low), high)
                watch(threads[thread], low, late, parts)
                arrived = high if called >= low else min(max(returned, late), high)
                parts["launch"] += arrived - late
                parts["queued"] += high - arrived
                moment, last_thread = called, thread
            elif begin is None and last_thread is not None:
                watch(threads[last_thread], low, high, parts)
            else:
                parts["unknown"] = high - low
            yield moment, name, {c: ns for c, ns in parts.items() if ns}
        if until is not None:
            end = -until if end is None else max(end, -until)


def windows_of(events):
    """The union of the steps, the last up to the end of the last work; without steps all that was recorded."""
    ends = [nanoseconds(e["ts"] + e["dur"]) for e in events if e.get("cat") in DEVICE]
    if not ends:
        return []
    spans = sorted((nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"])) for e in events
                   if e["name"].startswith("ProfilerStep#") and e.get("cat") in ("user_annotation", None, "cpu_op"))
    if not spans:
        spans = [(min(nanoseconds(e["ts"]) for e in events), max(nanoseconds(e["ts"]) + nanoseconds(e["dur"]) for e in events))]
    windows = []
    for begin, end in spans:
        if windows and begin <= windows[-1][1]:
            windows[-1][1] = max(windows[-1][1], end)
        else:
            windows.append([begin, end])
    windows[-1][1] = max(windows[-1][1], max(ends))
    return windows


def expected(events):
    """({cause: (gaps, ns, longest)}, {(cause, kernel): the same}, idle time)."""
    by_cause, by_kernel, idle = defaultdict(list), defaultdict(list), 0
    for _, name, parts in gaps_of(events):
        for cause, ns in parts.items():
            idle += ns
            by_cause[cause].append(ns)
            by_kernel[cause, name].append(ns)
    return ({k: (len(v), sum(v), max(v)) for k, v in by_cause.items()},
            {k: (len(v), sum(v), max(v)) for k, v in by_kernel.items()}, idle)


def watch(calls, begin, end, parts):
    """What a thread did from one time to another, cut wherever a call begins or ends."""
    if begin >= end:
        return
    inside = [c for c in calls[:bisect.bisect_left(calls, (end,))] if c[1] > begin]
    cuts = sorted({begin, end} | {t for c in inside for t in c[:2] if begin < t < end})
    for a, b in zip(cuts, cuts[1:]):
        open_now = {c[2] for c in inside if c[0] <= a and c[1] >= b}
        parts[next((c for c in (*ORDER, "launch") if c in open_now), "host")] += b - a


def found(args, paths, *options):
    data = oraclelib.run(args, "replay", "--by=idle", "--json", *options, *paths).json()["data"]
    causes = defaultdict(dict)
    for c in data["idle_causes"]:
        causes[c["rank"]][c["cause"]] = (c["gaps"], c["sum_ns"], c["longest_ns"])
    rows = {(r["cause"], r["kernel"]): (r["gaps"], r["sum_ns"], r["longest_ns"]) for r in data["idle"]}
    times = [r["sum_ns"] for r in data["idle"]]
    assert times == sorted(times, reverse=True), times
    idle = {r["rank"]: r["base"]["idle_ns"] if r["device"] else None for r in data["ranks"]}
    return causes, rows, idle


def judge(args, paths, *options):
    problems = []
    causes, rows, idle = found(args, paths, *options)
    together = defaultdict(lambda: (0, 0, 0))
    for rank, path in zip(sorted(idle), paths):
        want, kernels, gaps_ns = expected(events_of(path))
        if (idle[rank] or 0) != gaps_ns or sum(c[1] for c in causes[rank].values()) != gaps_ns:
            problems.append(f"rank {rank}: idle {idle[rank]}, gaps {gaps_ns}, causes {causes[rank]}")
        if causes[rank] != want:
            problems.append(f"rank {rank}: found {causes[rank]}, expected {want}")
        for key, (count, ns, longest) in kernels.items():
            was = together[key]
            together[key] = (was[0] + count, was[1] + ns, max(was[2], longest))
    for key in sorted(set(rows) | set(together), key=str):
        if rows.get(key) != together.get(key):
            problems.append(f"{key}: found {rows.get(key)}, expected {together.get(key)}")
    return problems


def allocations(args, path):
    """Calls that allocate or free in each step, and what the advice says of them."""
    events = events_of(path)
    problems = []
    run = oraclelib.run(args, "replay", "--by=step", "--json", path)
    found = {s["step"]: s["allocator"] for s in run.json()["data"]["steps"] if s["step"] is not None}
    total = steps_ns = 0
    for step in (e for e in events if e["name"].startswith("ProfilerStep#")):
        begin = nanoseconds(step["ts"])
        end = begin + nanoseconds(step["dur"])
        want = defaultdict(lambda: {"count": 0, "sum_ns": 0})
        for e in events:
            if call_of(e) == "allocation" and begin <= nanoseconds(e["ts"]) < end:
                want[e["name"]]["count"] += 1
                want[e["name"]]["sum_ns"] += nanoseconds(e["dur"])
        number = int(step["name"].split("#")[1])
        if found.get(number) != want:
            problems.append(f"step {number}: found {found.get(number)}, expected {dict(want)}")
        total += sum(w["sum_ns"] for w in want.values())
        steps_ns += end - begin
    text = oraclelib.run(args, "replay", "--by=step", path).out.decode()
    if ("\nallocator: " in text) != (100 * total >= 2 * steps_ns):
        problems.append(f"{total} of {steps_ns} ns: {text[:400]}")
    return problems


def made(seed):
    """A trace in which the host does everything that is told apart, in every order."""
    rng = random.Random(seed)
    names = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaMalloc", "cudaFree", "cudaHostAlloc",
             "cudaMemcpyAsync", "cuMemCreate", "cudaLaunchKernel", "cudaEventRecord", "hipMemMap", "cudaMallocAsync")
    events, at = [], 1000
    for number in range(200):
        thread = rng.choice((1, 2))
        begin = at
        for _ in range(rng.randrange(4)):
            ts = begin + rng.randrange(50)
            what = rng.randrange(6)
            event = {"ph": "X", "pid": 7, "tid": thread, "ts": ts, "dur": rng.randrange(30)}
            if what == 0:
                event |= {"cat": "cpu_op", "name": rng.choice(("aten::mm", "c10d::barrier"))}
            elif what == 1:
                event |= {"cat": "user_annotation", "name": rng.choice((
                    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "gloo:barrier", "my region"))}
            else:
                event |= {"cat": rng.choice(("cuda_runtime", "cuda_driver")), "name": rng.choice(names),
                          "args": {"correlation": 100000 + len(events)}}
            events.append(event)
        launched = begin + rng.randrange(60)
        if rng.random() < 0.9:
            events.append({"ph": "X", "cat": "cuda_runtime", "name": rng.choice(("cudaLaunchKernel", "cudaMemcpyAsync")),
                           "pid": 7, "tid": thread, "ts": launched, "dur": rng.randrange(1, 20),
                           "args": {"correlation": number}})
        start = max(launched - rng.randrange(3) * rng.randrange(2), 0) + rng.randrange(40)
        events.append({"ph": "X", "cat": rng.choice(("kernel", "gpu_memcpy")), "pid": 0, "tid": 7 + rng.randrange(2),
                       "name": rng.choice(("gemm", "Memcpy HtoD", "ncclDevKernel_AllGather_RING_LL")), "ts": start,
                       "dur": rng.randrange(25), "args": {"correlation": number}})
        at += rng.randrange(5, 70)
    for number in range(3):
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number + 4}", "pid": 7, "tid": 1,
                       "ts": 1000 + number * (at // 4), "dur": at // 4 - 10})
    rng.shuffle(events)
    return {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    sets = defaultdict(dict)
    for root in args.roots:
        for kind in ("units", "gpu_generated"):
            for path in sorted(glob.glob(os.path.join(root, "traces", kind, "*_rank*.json*"))):
                sets[kind + "/" + os.path.basename(path).split("_rank")[0]].setdefault(os.path.basename(path), path)
    for name, paths in sorted(sets.items()):
        if (args.only or "") in name:
            tap.none(name, judge(args, sorted(paths.values())))
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(20):
            path = os.path.join(folder, f"made{seed}_rank0.json")
            with open(path, "w") as f:
                json.dump(made(seed), f)
            tap.none(f"a made trace, {seed}", judge(args, [path]))
            tap.none(f"allocations of a made trace, {seed}", allocations(args, path))
    tap.done()


if __name__ == "__main__":
    main()
