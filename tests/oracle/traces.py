#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `replay` and `order` say of recordings, against their truth.

The truth of each recording lies in `expected/` beside it: PyTorch's own results where the
recording is native, sums by construction where a trace was generated. Everything in it is
compared, to the nanosecond. --many yes: a million kernels alone.
"""
import glob
import json
import os
import tempfile

import oraclelib
from oraclelib import load

FIELDS = ["root", "events", "recovered", "dropped", "truncated", "deviations", "trailing_data_at", "bad_dur",
          "unpaired", "world_size", "backend", "base_ns", "phases", "categories", "all_source", "comm_layer",
          "comm_resolution", "first_ts_ns", "last_end_ns", "device"]
BANDWIDTHS = ("algbw_GBps", "busbw_GBps")  # of the truth texts with six decimals
TIMES = ["count", "sum_ns", "min_ns", "max_ns", "p50_ns", "p95_ns"]


def differ(what, found, expected):
    return [] if found == expected else [f"{what}: found {found!r}, expected {expected!r}"]


def types_of(data):
    return {t["type"]: {k: t[k] for k in TIMES} for t in data["types"] if t["count"]}


def compare_types(data, want):
    found = types_of(data)
    problems = []
    for name in sorted(set(found) | set(want)):
        expected = want.get(name)
        if expected is not None:
            expected = {k: expected[k] for k in TIMES}
        problems += differ(f"type {name}", found.get(name), expected)
    return problems


def compare_trace(data, want):
    rank = data["ranks"][0]
    problems = []
    for field in FIELDS:
        if field in want:
            problems += differ(field, rank.get(field), want[field])
    if "host_comm_busy_ns" in want:
        problems += differ("host_comm_busy_ns", rank.get("host_comm_busy_ns"), want["host_comm_busy_ns"])
    if want["rank"] is not None:
        problems += differ("rank", rank["rank"], want["rank"])
    problems += differ("rank_from", rank["rank_from"] == "distributedInfo", want["rank"] is not None)
    problems += compare_types(data, want["types"])
    steps = [{k: s[k] for k in ("step", "ts_ns", "dur_ns", "types")} for s in data["steps"]]
    problems += differ("steps", steps, want.get("steps", []))
    if want.get("collectives") is not None:
        numbers = [{k: None if v is None else float(v) if k in BANDWIDTHS else v for k, v in c.items()}
                   for c in want["collectives"]]
        found = [{k: c.get(k) for k in n} for c, n in zip(data["collectives"], numbers)]
        problems += differ("collectives", found, numbers)
    return problems + differ("collectives", len(data["collectives"]), want["collectives_total"])


def straggler_of(want):
    """Not the rank that is most often last, as the truth has it: the one that waits least, if that is less than half
    of the mean wait of the others."""
    waits = want["wait_ns"]
    if want["straggler"] is None:
        return None
    least = min(waits, key=lambda r: (waits[r], -want["times_last"][r], int(r)))
    others = sum(waits.values()) - waits[least]
    return int(least) if 2 * waits[least] * (len(waits) - 1) < others else None


def compare_ranks(data, want):
    problems = differ("ranks", [r["rank"] for r in data["ranks"]], want["ranks"])
    problems += differ("matched by", data["matching"]["by"], want["matched_by"])
    stopped = want["stopped"]
    problems += differ("stopped", data["matching"]["stopped"], stopped and stopped["index"])
    problems += differ("straggler", data["matching"]["straggler"], straggler_of(want))
    keys = ("index", "group", "seq", "type", "ranks", "first_rank", "last_rank", "start_skew_ns", "end_skew_ns",
            "transfer_ns", "max_dur_ns")
    found = [{k: c[k] for k in keys} for c in data["collectives"]]
    for i, (a, b) in enumerate(zip(found, want["collectives"])):
        problems += differ(f"collective {i}", a, b)
    problems += differ("collectives", len(found), len(want["collectives"]))
    problems += differ("wait", {str(r["rank"]): r["wait_ns"] for r in data["ranks"]}, want["wait_ns"])
    problems += differ("last", {str(r["rank"]): r["times_last"] for r in data["ranks"]}, want["times_last"])
    by_rank = {}
    for t in data["types"]:
        for r in t["ranks"]:
            by_rank.setdefault(str(r["rank"]), {})[t["type"]] = {"count": r["count"], "sum_ns": r["sum_ns"]}
    problems += differ("types of ranks", by_rank, want["per_rank"])
    return problems + differ("device", {str(r["rank"]): r["device"] for r in data["ranks"] if r["device"]},
                             want["device"])


def compare_profile(data, want):
    rank = data["ranks"][0]
    problems = differ("rank", rank["rank"], want["rank"])
    for field in ("world_size", "debug_level", "still_open", "skipped", "bad_lines"):
        problems += differ(field, rank[field], want[field])
    problems += differ("residual", rank["residual"], want["residual_ns"])
    dumps = [{"line": d["line"], "msg": d["msg"], "emitted": d["emitted"], "results_ns": d["results"]}
             for d in data["dumps"]]
    expected = [{k: d[k] for k in ("line", "msg", "emitted", "results_ns")} for d in want["dumps"]]
    problems += differ("dumps", dumps, expected)
    found = [{k: p[k] for k in ("line", "kind", "type")} for p in data["problems"]]
    expected = [{k: e[k] for k in ("line", "kind", "type")} for e in want["errors"]]
    return problems + differ("problems", found, expected) + compare_types(data, want["types"])


def compare_log(data, want):
    found = [{"line": d["line"], "msg": d["msg"], "results": d["results"]} for d in data["dumps"]]
    expected = [{"line": r["line"], "msg": r["msg"], "results": [[k, ns] for k, _, ns in r["results"]]}
                for r in want["records"]]
    return differ("records", found, expected) + differ("bad lines", data["ranks"][0]["bad_lines"],
                                                       want["bad_lines"])


def compare_fx(data, want):
    found = data["recordings"][0]
    problems = []
    for key, expected in want.items():
        if key == "aborted" and expected is not None:
            expected = expected["error"]
        problems += differ(key, found.get(key), expected)
    return problems


def compare_order(data, want):
    found = data["recordings"][0]
    problems = []
    for key in ("snapshots", "warnings", "states", "state_problems", "unchecked"):
        if key not in want:
            continue
        if key == "snapshots" and want["error"] is not None:
            continue  # PyTorch died in the middle of its last call, which its recorder had written
        problems += differ(key, found.get(key), want[key])
    return problems


class Oracle:
    def __init__(self, tap, args):
        self.tap = tap
        self.args = args

    def ask(self, *words):
        return oraclelib.run(self.args, *words)

    def judge(self, name, command, paths, want, compare, status=(0,)):
        run = self.ask(command, "--json", *paths)
        if run.crash or run.status not in status:
            problems = [run.crash or f"status {run.status}: {run.tail}"]
        else:
            problems = compare(run.json()["data"], want)
        self.tap.none(name, problems)

    def folder(self, folder):
        family = os.path.basename(folder)
        name = lambda p: f"{family}/{os.path.basename(p)}"
        for path in sorted(glob.glob(folder + "/*.jsonl") + glob.glob(folder + "/*.log")):
            base = os.path.basename(path)
            truth = os.path.join(folder, "expected", base[:-1] if base.endswith(".jsonl") else base + ".json")
            if not os.path.exists(truth):
                continue
            want = load(truth)
            if base.endswith(".log"):
                if want["records"] or want["bad_lines"]:
                    self.judge(name(path), "replay", [path], want, compare_log, (0, 3))
                    self.torch_style(name(path), path, want)
            elif family == "simple_profiler":
                nothing = not want["dumps"] and not want["types"] and not want["errors"]
                self.judge(name(path), "replay", [path], want, compare_profile, (3,) if nothing else (0,))
            elif family == "fx":
                self.judge(name(path), "order", [path], want, compare_fx)
            else:
                self.judge(name(path), "order", [path], want, compare_order)
        for path in sorted(glob.glob(folder + "/*.pt.trace.json*")):
            want = load(os.path.join(folder, "expected", os.path.basename(path).split(".pt.trace")[0] + ".json"))
            self.judge(name(path), "replay", [path], want, compare_trace)
            self.compares_with_itself(name(path), path)
        for truth in sorted(glob.glob(folder + "/expected/*.ranks.json")):
            job = os.path.basename(truth).split(".ranks")[0]
            want = load(truth)
            if family == "exec_order":
                paths = sorted(glob.glob(f"{folder}/{job}_rank?.jsonl"))
                self.judge(f"{family}/{job} over ranks", "order", paths, want, self.divergence,
                           (0,) if want["agree"] else (1,))
                if not want["agree"]:
                    self.raised(f"{family}/{job}", folder, paths)
            else:
                paths = sorted(glob.glob(f"{folder}/{job}_rank?.pt.trace.json*"))
                self.judge(f"{family}/{job} over ranks", "replay", paths, want, compare_ranks, (0, 3))

    @staticmethod
    def divergence(data, want):
        return differ("divergence", {k: v for k, v in data["divergence"].items() if k in want}, want) \
            if not want["agree"] else differ("agree", data["divergence"]["agree"], True)

    def raised(self, name, folder, paths):
        """Where ranks part, PyTorch dies on all of them: its lists as they stood then."""
        found = self.ask("order", "--json", *paths).json()["data"]["recordings"]
        for path, one in zip(paths, found):
            want = load(os.path.join(folder, "expected", os.path.basename(path)[:-len(".jsonl")] + ".json"))
            problems = differ("snapshots", one["snapshots"], want["snapshots"])
            if want["error"]["type"] == "RuntimeError":
                problems += differ("error", one["error"], want["error"]["message"])
            self.tap.none(f"{name} as rank {one['rank']} died", problems)

    def torch_style(self, name, path, want):
        with open(path, "rb") as f:
            lines = f.read().split(b"\n")
        expected = b""
        for record in want["records"]:
            line = lines[record["line"] - 1].rstrip(b"\r")
            expected += line[line.index(record["msg"].encode()):] + b"\n"
        run = self.ask("replay", "--style=torch", path)
        self.tap.none(name + " in PyTorch's style", differ("output", run.out, expected))

    def compares_with_itself(self, name, path):
        run = self.ask("replay", "--json", path)
        with tempfile.NamedTemporaryFile(suffix=".json") as result:
            result.write(run.out)
            result.flush()
            again = self.ask("replay", "--json", "--compare", result.name, path)
            self.tap.none(name + " compared with itself", [again.crash] if again.crash else
                          differ("changed", again.json()["data"]["compare"]["changed"], []) +
                          differ("status", again.status, 0))

    def malformed(self, folder):
        truth = load(os.path.join(folder, "expected", "TRUTH.json"))
        for name, want in sorted(truth.items()):
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                continue
            run = self.ask("replay", "--json", path)
            document = run.json()
            if "error" in want:
                self.tap.none(f"malformed/{name}", differ("status", run.status, 2) +
                              differ("kind", [e.get("kind") for e in document["errors"]], [want["error"]]))
                continue
            partial = want["truncated"] or want["dropped"] or want["trailing_data_at"] is not None
            self.tap.none(f"malformed/{name}", differ("status", run.status, 3 if partial else 0) +
                          compare_trace(document["data"], want))


    def many_calls(self):
        """More than are kept one by one, of which a few steps are asked for: each step has as many
        kernels of 1, 2, 3 ns and so on, written before the steps or behind them."""
        each, steps = 110_000, 10
        def step(n):
            return (f'{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{n}","pid":1,"tid":1,'
                    f'"ts":{n * each},"dur":{each}}}')
        def kernel(i):
            return f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{i},"dur":0.{i % each % 997 + 1:03d}}}'
        ordered = sorted(i % 997 + 1 for i in range(each))
        want = {"count": 3 * each, "sum_ns": 3 * sum(ordered), "min_ns": 1, "max_ns": 997, "approx": False,
                "p50_ns": ordered[-(-each * 50 // 100) - 1], "p95_ns": ordered[-(-each * 95 // 100) - 1]}
        kernels = ",\n".join(map(kernel, range(steps * each)))
        for late in (False, True):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as trace:
                trace.write("[" + ("" if late else "".join(step(n) + "," for n in range(steps))))
                trace.write(kernels)
                trace.write("".join("," + step(n) for n in range(steps)) if late else "")
                trace.write("]")
                trace.flush()
                run = self.ask("replay", "--json", "--steps=2,4-5", trace.name)
            found = next(t for t in run.json()["data"]["types"] if t["type"] == "compute")
            self.tap.none(f"a million kernels, the steps {'behind' if late else 'before'} them",
                          differ("status", run.status, 0) +
                          differ("times", {k: found[k] for k in want}, want))


def main():
    args = oraclelib.arguments(__doc__, many="")
    tap = oraclelib.Tap()
    oracle = Oracle(tap, args)
    if args.many:
        oracle.many_calls()
        return tap.done()
    # The larger collection holds what the others do.
    for root in args.roots[-1:] if args.fixtures else args.roots:
        traces = os.path.join(root, "traces")
        for family in ("simple_profiler", "fx", "exec_order", "kineto_cpu", "gpu_generated"):
            if os.path.isdir(os.path.join(traces, family)):
                oracle.folder(os.path.join(traces, family))
        if os.path.isdir(os.path.join(traces, "malformed")):
            oracle.malformed(os.path.join(traces, "malformed"))
    tap.done()


main()
