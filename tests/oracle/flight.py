#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `order` says of Flight Recorder dumps, against the truth beside them.

Each case is the dumps of one job, recorded or made by construction, and `truth.json`. The files
are given one by one and as the folder they lie in; both must say the same.
"""
import os
import pickle
import tempfile

import oraclelib
from oraclelib import load

STATUS = {"agree": 0, "stuck": 1, "mismatch": 1, "incomplete": 3}


def differ(what, found, expected):
    return [] if found == expected else [f"{what}: found {found!r}, expected {expected!r}"]


class Oracle:
    def __init__(self, tap, args):
        self.tap = tap
        self.args = args

    def ask(self, paths):
        return oraclelib.run(self.args, "order", "--json", *paths)

    def compare(self, paths, want):
        run = self.ask(paths)
        if run.crash:
            return [run.crash]
        problems = differ("status", run.status, STATUS[want["verdict"]])
        data = run.json().get("data")
        if data is None or "collectives" not in data:
            return problems + ["there is no answer"]
        found = data["collectives"]
        found["dumps"] = [{k: d[k] for k in ("rank", "entries", "first_record")} for d in found["dumps"]]
        for key, expected in want.items():
            problems += differ(key, found.get(key), expected)
        return problems

    def case(self, folder):
        want = load(os.path.join(folder, "truth.json"))
        paths = sorted(os.path.join(folder, n) for n in os.listdir(folder) if n != "truth.json")
        name = os.path.basename(folder)
        problems = [] if want["known"].items() <= want["result"].items() else ["the truth contradicts itself"]
        problems += self.compare(paths, want["result"])
        problems += self.compare(paths[::-1], want["result"])
        self.tap.none(f"{name}: what it says", problems)
        self.tap.none(f"{name}: as a folder", self.compare([folder], want["result"]))

    def logs(self):
        """Lines about failed collectives, against what is known of the jobs they are of."""
        for kind in ("watchdog", "gloo_logs"):
            folder = os.path.join(self.args.roots[0], "traces", kind)
            for name, want in load(os.path.join(folder, "truth.json")).items():
                run = self.ask([os.path.join(folder, name)])
                found = run.json()["data"]["collectives"]
                problems = differ("status", run.status, STATUS[want["verdict"]])
                for key, expected in want.items():
                    problems += differ(key, found[key], expected)
                self.tap.none(f"{name}: what it says", problems)

    def one_long_line(self, messages):
        """Ranks that write at once share a line: each message of it is looked at once, so this ends."""
        message = "[rank%d]:[PG 0 Rank %d] last enqueued work: 3, last completed work: %d. "
        with tempfile.NamedTemporaryFile(suffix=".log", mode="w") as f:
            f.write("".join(message % (i % 4, i % 4, 2 - i % 2) for i in range(messages)) + "\n")
            f.flush()
            found = self.ask([f.name]).json()["data"]["collectives"]
            self.tap.none(f"{messages:,} messages in a line", differ("ranks", [row["rank"] for row in found["watchdog"]], [0, 1, 2, 3]))

    def same_rank(self):
        """Two dumps of one rank are of two jobs."""
        dump = {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0]"}}}
        with tempfile.TemporaryDirectory() as folder:
            for job in "ab":
                os.mkdir(os.path.join(folder, job))
                with open(os.path.join(folder, job, "nccl_trace_rank_0"), "wb") as f:
                    pickle.dump(dump, f, 2)
            run = self.ask([os.path.join(folder, j, "nccl_trace_rank_0") for j in "ab"])
            self.tap.none("two dumps of one rank", differ("status", run.status, 2) +
                          differ("code", run.json()["errors"][0]["code"], "usage"))

    def versions(self):
        """Minor versions are read, whatever they are; of major ones those that are known."""
        for version, status in (("1.5", 0), ("2.99", 0), ("3.0", 2), ("x", 2)):
            dump = {"version": version, "pg_config": {}, "entries": [], "new": [1, 2]}
            with tempfile.NamedTemporaryFile(suffix="_0") as f:
                pickle.dump(dump, f, 2)
                f.flush()
                self.tap.none(f"version {version}", differ("status", self.ask([f.name]).status, status))

    def memory(self):
        """Dumps of one job share what they have in common: memory follows their entries alone."""
        ranks, calls = 256, 90
        group = {"0": {"name": "0", "desc": "default_pg", "ranks": list(range(ranks))}}
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(ranks):
                entries = [{"record_id": i, "process_group": ("0", "default_pg"), "pg_id": 0,
                            "collective_seq_id": i + 1, "p2p_seq_id": 0, "profiling_name": "nccl:all_reduce",
                            "time_created_ns": 10 ** 18 + i, "input_sizes": [[i + 1, 64]],
                            "output_sizes": [[i + 1, 64]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
                            "state": "completed", "retired": True, "is_p2p": False, "frames": []} for i in range(calls)]
                path = os.path.join(folder, f"nccl_trace_rank_{rank}")
                with open(path, "wb") as f:
                    pickle.dump({"version": "2.10", "pg_config": group, "entries": entries}, f, 2)
            run = oraclelib.run(self.args, "order", "--json", "--limit=memory=12MiB", folder)
            problems = differ("status", run.status, 0)
            self.tap.none(f"memory of {ranks} dumps", problems)


def main():
    args = oraclelib.arguments(__doc__, many="")
    tap = oraclelib.Tap()
    oracle = Oracle(tap, args)
    # Each search in a line makes AddressSanitizer look at the rest of it.
    oracle.one_long_line(200_000 if args.many else 10_000)
    if args.many:
        return tap.done()
    for folder in oraclelib.truths(args, "flight_recorder"):
        oracle.case(folder)
    oracle.logs()
    oracle.same_rank()
    oracle.versions()
    oracle.memory()
    tap.done()


main()
