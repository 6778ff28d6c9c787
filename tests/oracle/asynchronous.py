#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps, groups and stragglers of runs whose host runs ahead of its device.

The traces are made here, from seeds, with what real ones have: work that is launched in one
step and runs in the next, launches outside of all steps, kernels without a launch, launches
behind their kernels in the file, process groups that share a name, point-to-point calls with
numbers of their own, and a kernel without arguments. What is true of them is computed here
from the events, one by one.
"""
import json
import os
import random
import tempfile

import oraclelib

NAMES = {"all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base", "all_reduce": "allreduce",
         "send_recv": "send"}


def differ(what, found, expected):
    return [] if found == expected else [f"{what}: found {found!r}, expected {expected!r}"]


def us(ns):
    return "%d.%03d" % divmod(ns, 1000)


class Run:
    """Ranks 0 to 3 in two groups of two, one over the other two, and one of all."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ranks = 4
        self.slow = self.random.randrange(4)
        self.events = [[] for _ in range(4)]
        self.host = [1_000_000 + 100 * r for r in range(4)]
        self.device = [1_000_000] * 4
        self.correlation = [100] * 4
        self.seq = {}
        self.work = [[] for _ in range(4)]  # type, ts, dur, launch
        self.steps = [[] for _ in range(4)]
        self.comms = []  # key or None, {rank: (ts, dur)}

    def event(self, rank, cat, name, ts, dur, **args):
        self.events[rank].append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 7 if cat[0] in "gk" else 1,
                                  "ts": us(ts), "dur": us(dur), "args": args})

    def launch(self, rank, kind, name, ts, dur, cat="kernel", **args):
        self.correlation[rank] += self.random.randint(1, 9)
        launched = self.host[rank]
        self.host[rank] += self.random.randint(2000, 4000)
        missing = self.random.random() < 0.02
        kernel = lambda: self.event(rank, cat, name, ts, dur, correlation=self.correlation[rank], **args)
        first = self.random.random() < 0.3
        if first:
            kernel()
        if not missing:
            self.event(rank, "cuda_runtime", "cudaLaunchKernel", launched, 1500, correlation=self.correlation[rank])
        if not first:
            kernel()
        self.work[rank].append((kind, ts, dur, None if missing else launched))

    def compute(self, rank, dur):
        ts = max(self.device[rank], self.host[rank] + 3000)
        self.device[rank] = ts + dur
        self.launch(rank, "compute", "gemm", ts, dur)

    def copy(self, rank):
        ts = max(self.device[rank], self.host[rank] + 3000)
        self.device[rank] = ts + 700
        self.launch(rank, "H2D", "Memcpy HtoD (Pageable -> Device)", ts, 700, "gpu_memcpy")

    def collective(self, kind, ranks, name, described=True):
        begins = {r: max(self.device[r], self.host[r] + 3000) for r in ranks}
        end = max(begins.values()) + self.random.randint(2000, 9000)
        key = None
        args = {}
        if described:
            point = kind == "send_recv"
            count = self.seq[tuple(ranks), point] = self.seq.get((tuple(ranks), point), 0) + 1
            key = (tuple(ranks), point, count)
            args = {"Collective name": NAMES[kind], "Group size": len(ranks), "Process Group Name": name,
                    "Process Group Ranks": str(list(ranks)), "Seq": count}
        for r in ranks:
            self.device[r] = end
            self.launch(r, kind, {"all_gather": "ncclDevKernel_AllGather_RING", "all_reduce": "ncclDevKernel_AllReduce_RING",
                                  "reduce_scatter": "ncclDevKernel_ReduceScatter_RING",
                                  "send_recv": "ncclDevKernel_SendRecv"}[kind], begins[r], end - begins[r], **args)
        self.comms.append((key, kind, {r: (begins[r], end - begins[r]) for r in ranks}))

    def step(self, number):
        begin = list(self.host)
        for _ in range(6):
            for r in range(4):
                for _ in range(self.random.randint(1, 3)):
                    self.compute(r, self.random.randint(4000, 9000) + (20000 if r == self.slow else 0))
            # Both rows of the mesh have one name, and so have its columns.
            for ranks in ((0, 1), (2, 3)):
                self.collective("all_gather", ranks, "1")
            for ranks in ((0, 2), (1, 3)):
                self.collective("all_reduce", ranks, "2")
            self.collective("reduce_scatter", (0, 1, 2, 3), "0")
            self.collective("send_recv", (0, 1), "1")
        for r in range(4):
            self.copy(r)
            self.steps[r].append((number, begin[r], self.host[r] - begin[r]))
            self.event(r, "user_annotation", f"ProfilerStep#{number}", begin[r], self.host[r] - begin[r])
            self.host[r] += 500

    def make(self, steps):
        for r in range(4):
            self.compute(r, 5000)  # before all steps
        for number in range(5, 5 + steps):
            self.step(number)
            if self.random.random() < 0.5:
                for r in range(4):
                    self.compute(r, 3000)  # between two of them
        self.collective("all_reduce", (0, 1, 2, 3), "0", described=False)

    def write(self, folder):
        paths = []
        for r in range(4):
            head = {"distributedInfo": {"backend": "nccl", "rank": r, "world_size": 4}, "baseTimeNanoseconds": 10 ** 18}
            text = json.dumps(head)[:-1] + ', "traceEvents": [\n'
            # Numbers as they are written by PyTorch: with three decimals.
            lines = []
            for e in self.events[r]:
                line = json.dumps({k: v for k, v in e.items() if k not in ("ts", "dur")})
                lines.append(line[:-1] + f', "ts": {e["ts"]}, "dur": {e["dur"]}}}')
            paths.append(os.path.join(folder, f"rank{r}.json"))
            with open(paths[-1], "w") as f:
                f.write(text + ",\n".join(lines) + "]}")
        return paths

    # ---- what is true

    def of_steps(self, rank):
        """By step, None for no step: {type: [count, sum]}."""
        sums = {}
        for kind, ts, dur, launched in self.work[rank]:
            moment = ts if launched is None else launched
            number = next((n for n, begin, length in self.steps[rank] if begin <= moment < begin + length), None)
            one = sums.setdefault(number, {}).setdefault(kind, {"count": 0, "sum_ns": 0})
            one["count"] += 1
            one["sum_ns"] += dur
        return sums

    def of_waits(self):
        waits, matched = [0] * 4, 0
        for key, _, times in self.comms:
            if key is None:
                continue
            matched += 1
            last = max(ts for ts, _ in times.values())
            for r, (ts, dur) in times.items():
                waits[r] += min(last - ts, dur)
        return waits, matched


def judge(run, data):
    problems = []
    found = {}
    for s in data["steps"]:
        if s["types"]:
            found.setdefault(s["rank"], {})[s["step"]] = s["types"]
    for r in range(4):
        problems += differ(f"steps of rank {r}", found.get(r), run.of_steps(r))
    waits, matched = run.of_waits()
    problems += differ("waits", [r["wait_ns"] for r in data["ranks"]], waits)
    problems += differ("matched", [data["matching"][k] for k in ("by", "left_out")], ["seq", 4])
    problems += differ("matches", len(data["collectives"]), matched)
    problems += differ("straggler", data["matching"]["straggler"], min(range(4), key=lambda r: waits[r]))
    return problems + differ("the slow rank", data["matching"]["straggler"], run.slow)


def chosen(run, data):
    """Of one step alone: sums by type over all ranks, and how many collectives of the first."""
    want = {}
    for r in range(4):
        for kind, one in run.of_steps(r).get(6, {}).items():
            sum_ = want.setdefault(kind, {"count": 0, "sum_ns": 0})
            sum_["count"] += one["count"]
            sum_["sum_ns"] += one["sum_ns"]
    found = {t["type"]: {k: t[k] for k in ("count", "sum_ns")} for t in data["types"] if t["count"] and t["type"] != "all"}
    busy = [r["device"]["compute_busy_ns"] for r in data["ranks"]]
    return differ("types", found, want) + \
        differ("computing", busy, [run.of_steps(r)[6]["compute"]["sum_ns"] for r in range(4)])


def main():
    args = oraclelib.arguments(__doc__)
    tap = oraclelib.Tap()
    for seed in range(12):
        run = Run(seed)
        run.make(3)
        with tempfile.TemporaryDirectory() as folder:
            paths = run.write(folder)
            for name, words, check in ((f"run {seed}", [], judge), (f"run {seed}, a step", ["--steps=6"], chosen)):
                one = oraclelib.run(args, "replay", "--json", *words, *paths)
                tap.none(name, [one.crash] if one.crash else differ("status", one.status, 0) +
                         check(run, one.json()["data"]))
    tap.done()


main()
