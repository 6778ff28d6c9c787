#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command on samples of several families, under a pseudo terminal of 80 columns, and each on a third of them under
one of 120: no line is wider than it.
A word that does not fit into a line of its own, such as a path, is not cut; nor is a line of `hash`,
which has the form that `sha256sum -c` reads. Prints TAP.

columns.py BINARY
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unicodedata

import sandbox
import terminals

WIDTHS = (80, 120)
CHECKPOINTS = {
    "dcp": "dcp/fsdp2-w4-small/checkpoint",
    "tp": "dcp/fsdp2-w4-tp/checkpoint",
    "odd": "dcp/odd-names/checkpoint",
    "flat": "fsdp1/local-w2-adam-orig/checkpoint",
    "conv": "fsdp1/sharded-w2-orig/checkpoint",
    "uneven": "fsdp2/w4-empty-shard/checkpoint",
    "zero": "deepspeed/zero2-roundrobin-w2",
    "cut": "broken/dcp-missing-metadata/checkpoint",
    "step": "demo/step-1234",
}
RECORDINGS = {
    "gpu": "traces/gpu_generated",
    "cpu": "traces/kineto_cpu",
    "simple": "traces/simple_profiler",
    "calls": "traces/exec_order",
    "flight": "traces/flight_recorder",
    "memory": "traces/memory",
}
OF_CHECKPOINTS = """info
info -v
tree
tree --sizes
tree --params
tree --full
audit
audit --data
audit -v
latest --explain
latest --explain --all
ls
ls -l
ls -d 2
ls --by=file
ls --by=layer,rank
ls --values
show
show -g **.weight
fqns --flat -o text
flat
reshard --world=3
hash
hash --logical
stats
stats --hist
stats --by=layer
pickle
diff"""
OF_RECORDINGS = """info
order
order --first-diff
replay
replay --by=rank
replay --by=step
replay --by=unit
replay --by=type
replay --by=collective
replay --by=region
replay --by=kernel
replay --by=idle
replay --by=group
replay --percentiles
replay --timeline
replay --memory"""
ALONE = ("help", "version", "rules", "info .", "audit .")
# What these write is not for a terminal, or has a test of its own.
ELSEWHERE = {"commands", "completion", "export", "merge", "report", "schema"}
PAINT = re.compile(r"\033\[[0-9;]*m")
DIGEST = re.compile(r"(sha256:)?[0-9a-f]{64}  ")


def typed(binary):
    """What is run, as lists of words."""
    for line in OF_CHECKPOINTS.splitlines():
        for name in CHECKPOINTS:
            more = ["dcp"] if line == "diff" else ["**"] if line == "show" else []
            yield [*line.split(), name, *more]
    for line in OF_RECORDINGS.splitlines():
        for name in RECORDINGS:
            yield [*line.split(), name]
    yield from (line.split() for line in ALONE)
    for command in commands(binary):
        yield [command, "--help"]
    for topic in topics(binary):
        yield ["help", topic]


def commands(binary):
    said = subprocess.run([binary, "commands", "--json"], stdout=subprocess.PIPE, check=True)
    return [one["name"] for one in json.loads(said.stdout)["data"]["commands"]]


def topics(binary):
    said = subprocess.run([binary, "help", "#"], stderr=subprocess.PIPE, check=False).stderr.decode()
    return said.split("topics:")[1].split()


def on_terminal(binary, words, columns, folder):
    """What a terminal of so many columns is sent."""
    environment = {**sandbox.environment(folder), "TERM": "xterm", "FSDP_INSPECT_PROGRESS": "never"}
    return terminals.shown([binary, *words], columns, folder, environment)[0]


def width(text):
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    return len(text) + wide - sum(unicodedata.combining(one) != 0 for one in text)


def too_wide(text, columns):
    for line in text.split("\n"):
        # Progress is drawn over itself.
        line = PAINT.sub("", line.split("\r")[-1]).replace("\033[K", "")
        if width(line) > columns and " " in line.strip() and not DIGEST.match(line):
            yield line


def main():
    if why := terminals.missing():
        print(f"1..0 # SKIP {why}")
        return 0
    binary = os.path.abspath(sys.argv[1])
    runs = list(typed(binary))
    missing = set(commands(binary)) - {run[0] for run in runs if "--help" not in run} - ELSEWHERE
    failed = bool(missing)
    print(f"1..{len(WIDTHS) + 1}")
    print(f"{'not ok' if missing else 'ok'} 1 - every command is run {sorted(missing)}")
    with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as folder:
        for name, sample in {**CHECKPOINTS, **RECORDINGS}.items():
            os.symlink(os.path.join(sandbox.ROOT, "testdata", sample), os.path.join(folder, name))
        for number, columns in enumerate(WIDTHS, 2):
            # Of each command other samples.
            chosen = [run for place, run in enumerate(runs)
                      if columns == WIDTHS[0] or (place + place // len(CHECKPOINTS)) % 3 == 0]
            broken = [(run, line) for run in chosen
                      for line in too_wide(on_terminal(binary, run, columns, folder), columns)]
            failed |= bool(broken)
            print(f"{'not ok' if broken else 'ok'} {number} - no line is wider than {columns} columns")
            for run, line in broken[:40]:
                print(f"#  {' '.join(run)}: {width(line)}: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
